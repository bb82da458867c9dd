"""Program ids and blocks from nothing."""

from __future__ import annotations

from tritium.ir import types as ir
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.base import as_tuple
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import dtype, int32, validate_block_shape
from tritium.ops import ttir


def _axis(name: str, axis: object) -> ttir.Axis:
    if not isinstance(axis, int) or axis not in (0, 1, 2):
        raise ValueError(f"{name} axis must be 0, 1, or 2 but got {axis}")
    return ttir.Axis(axis)


@builtin
def program_id(axis: object) -> tensor:
    """The index of this program along `axis` (0, 1 or 2) of the launch grid: an int32 scalar.

    Raises `ValueError` for another axis.
    """
    return build(ttir.GetProgramIdOp, like=int32, axis=_axis("program_id", axis))


@builtin
def num_programs(axis: object) -> tensor:
    """The size of the launch grid along `axis` (0, 1 or 2): an int32 scalar.

    Raises `ValueError` for another axis.
    """
    return build(ttir.GetNumProgramsOp, like=int32, axis=_axis("num_programs", axis))


@builtin
def arange(start: object, end: object) -> tensor:
    """The int32 block [start, start + 1, ..., end - 1].

    Args:
        start, end: compile-time integers; `end - start` is a power of two.

    Raises `ValueError` otherwise, or where the block would be too large.
    """
    if not isinstance(start, int) or not isinstance(end, int):
        raise ValueError(
            "arange's arguments must be of type tl.constexpr; "
            f"got {casts.type_name(start)} and {casts.type_name(end)}"
        )
    if not -(2**31) <= start <= 2**31 or not -(2**31) <= end <= 2**31:
        raise ValueError(f"arange must fit in int32; got [{start}, {end})")
    return make_range(start, end, emitter.current().features.encoding)


def make_range(start: int, end: int, encoding: object) -> tensor:
    """`arange`, in an encoding if one is given."""
    result = None if encoding is None else ir.tensor_of((end - start,), ir.i32, encoding)
    return build(ttir.MakeRangeOp, like=int32, start=start, end=end, result=result)


def check_shape(shape: object) -> tuple[int, ...]:
    """A shape argument (an extent, a sequence, or a sequence in a sequence) as a tuple.

    Raises as `validate_block_shape` does.
    """
    extents = as_tuple(shape)
    if len(extents) == 1:
        extents = as_tuple(extents[0])
    validate_block_shape(extents)
    return tuple(map(int, extents))


def check_dtype(name: str, value: object) -> dtype:
    """A dtype argument. Raises `TypeError` for anything else."""
    if not isinstance(value, dtype):
        raise TypeError(f"{name}: dtype is {value!r}; a dtype such as tl.float32 is required")
    return value


@builtin
def full(shape: object, value: TensorLike, dtype: object) -> tensor:
    """A block of `shape` with every element `value`, a number or scalar tensor, in `dtype`.

    Each extent is a power of two (`ValueError: Shape element ...`); shape () gives a scalar.
    """
    return casts.full(check_shape(shape), value, check_dtype("full", dtype))


@builtin
def zeros(shape: object, dtype: object) -> tensor:
    """A block of zeros. See `full`."""
    return casts.full(check_shape(shape), 0, check_dtype("zeros", dtype))


@tensor_member
@builtin
def zeros_like(input: TensorLike) -> tensor:
    """Zeros of the shape and dtype of `input`."""
    return casts.constant(0, casts.to_tensor(input).type)


def full_like_type(value: TensorLike, type: dtype) -> tensor:
    """A number as a tensor of a scalar or block type (the frontend's, for values that a branch or
    loop makes dynamic)."""
    return casts.constant(value, type)
