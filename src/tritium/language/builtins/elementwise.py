"""The public functions whose work `arithmetic` does."""

from __future__ import annotations

from typing import Any

from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.arithmetic import PropagateNan
from tritium.language.builtins.build import build
from tritium.language.builtins.creation import check_shape
from tritium.language.builtins.shapes import wrap_axis
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import int32
from tritium.ops import ttir


@builtin
def add(x: TensorLike, y: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`x + y`; `sanitize_overflow=False` leaves out the overflow check of debug builds."""
    return arithmetic.add(x, y, bool(sanitize_overflow))


@builtin
def sub(x: TensorLike, y: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`x - y`; see `add`."""
    return arithmetic.sub(x, y, bool(sanitize_overflow))


@builtin
def mul(x: TensorLike, y: TensorLike, sanitize_overflow: bool = True) -> tensor:
    """`x * y`; see `add`."""
    return arithmetic.mul(x, y, bool(sanitize_overflow))


@builtin
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> tensor:
    """`x` where `condition` holds, else `y`, all broadcast to one shape.

    Both are evaluated, so they cannot guard a memory access: use the `mask` of `load` and `store`.
    Warns (`UserWarning`) when the condition is not boolean.
    """
    return arithmetic.where(condition, x, y)


@builtin
def minimum(
    x: TensorLike, y: TensorLike, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """The smaller of each two elements.

    Args:
        propagate_nan: `tl.PropagateNan.NONE`: the other number where one is NaN; `ALL`: NaN.

    Raises `ValueError` for another `propagate_nan`.
    """
    return arithmetic.minimum(x, y, propagate_nan)


@builtin
def maximum(
    x: TensorLike, y: TensorLike, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """The larger of each two elements. See `minimum`."""
    return arithmetic.maximum(x, y, propagate_nan)


@builtin
def clamp(
    x: TensorLike, min: TensorLike, max: TensorLike, propagate_nan: PropagateNan = PropagateNan.NONE
) -> tensor:
    """`x` limited to [min, max]; undefined for floating-point numbers where min > max.

    Args:
        propagate_nan: `ALL`: NaN stays NaN; `NONE`: it becomes `min` or `max`.
    """
    return arithmetic.clamp(x, min, max, propagate_nan)


@builtin
def to_tensor(x: TensorLike) -> tensor:
    """A Python number as a scalar tensor of the dtype it has by itself; a tensor as it is."""
    return casts.to_tensor(x)


@tensor_member
@builtin
def gather(src: TensorLike, index: TensorLike, axis: object) -> tensor:
    """Elements of `src` picked along `axis`: `out[i, j] = src[index[i, j], j]` for axis 0.

    `index` holds integers and has the shape of `src` but along `axis`; the result has its shape.
    Raises `ValueError` for an axis out of range, `OpError` for an index that does not fit.
    """
    x, i = casts.to_tensor(src), casts.to_tensor(index)
    return build(ttir.GatherOp, x, i, like=x, axis=wrap_axis(axis, len(x.type.shape)))


@tensor_member
@builtin
def histogram(
    input: TensorLike, num_bins: object, mask: TensorLike | None = None, layout: Any = None
) -> tensor:
    """The number of times that each of 0 to `num_bins` - 1 occurs in a 1-D block of integers, in an
    int32 block.

    Args:
        num_bins: a compile-time power of two.
        mask: int1, the elements to count.
        layout: of the result, in a Gluon kernel.
    """
    x = casts.to_tensor(input)
    m = None
    if mask is not None:
        m = arithmetic.broadcast_like(casts.to_tensor(mask), x.type)
    if x.dtype.is_int_signed() and x.dtype.int_bitwidth < 32:
        x = casts.cast(x, int32)  # so that no negative number is one of the bins
    bins = casts.block(int32, check_shape(num_bins), layout and layout.to_encoding())
    return build(ttir.HistogramOp, x, m, like=int32, result=bins.to_ir())


@builtin
def sorts_whole(dtype: object) -> constexpr:
    """True if `sort_whole` can be used: the target has it, and the elements are not of 8 bits with
    an exponent."""
    return constexpr(emitter.current().features.sorts and not unwrap(dtype).is_fp8())


@builtin
def sort_whole(x: tensor, k: object, descending: bool) -> tensor:
    """The first `k` elements along the last axis when sorted, as one op."""
    unsigned = x.dtype.is_int() and not x.dtype.is_int_signed()
    return build(
        ttir.SortOp, x, like=x, k=k, descending=bool(descending),
        unsigned=unsigned or x.dtype.is_bool(),
    )  # fmt: skip
