"""Python's operators on tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tritium.language import emitter
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values import types
from tritium.language.values.base import as_tuple, base_value, class_of, mark_builtin
from tritium.language.values.constexpr import constexpr, unwrap
from tritium.language.values.tensor import TensorLike, tensor
from tritium.ops import ttir


class slice(base_value):
    """`start:stop:step` in a subscript. Tensors take only `:`."""

    def __init__(self, start: object, stop: object, step: object):
        self.start, self.stop, self.step = start, stop, step

    def flatten(self) -> list[Any]:
        return []

    def __repr__(self) -> str:
        return f"slice({self.start}, {self.stop}, {self.step})"


def _binary(name: str, symbol: str, function: Callable[[Any, Any], tensor]) -> None:
    def operator(self: tensor, other: TensorLike) -> Any:
        return function(self, unwrap(other)) if accepts(other) else NotImplemented

    def reflected(self: tensor, other: TensorLike) -> Any:
        return function(unwrap(other), self) if accepts(other) else NotImplemented

    def accepts(other: TensorLike) -> bool:
        value = unwrap(other)
        if _is_operand(value):
            return True
        if isinstance(other, constexpr) and name not in ("eq", "ne"):
            # Python would name the class, which hides that it is a None, say.
            raise TypeError(f"{symbol} of a tensor and {value!r}: tensors and numbers are needed")
        return False

    operator.__name__, reflected.__name__ = f"__{name}__", f"__r{name}__"
    setattr(tensor, f"__{name}__", mark_builtin(operator))
    setattr(tensor, f"__r{name}__", mark_builtin(reflected))


def _is_operand(value: TensorLike) -> bool:
    number = isinstance(value, (tensor, bool, int, float))
    return number or (hasattr(value, "dtype") and getattr(value, "ndim", None) == 0)


def _comparison(kind: str) -> Callable[[Any, Any], tensor]:
    return lambda a, b: arithmetic.compare(kind, a, b)


def _missing(symbol: str, instead: str) -> Callable[[Any, Any], tensor]:
    def refused(left: object, right: object) -> tensor:
        raise TypeError(f"tensors have no {symbol}; {instead}")

    return refused


for _name, (_symbol, _function) in {
    "add": ("+", arithmetic.add), "sub": ("-", arithmetic.sub), "mul": ("*", arithmetic.mul),
    "truediv": ("/", arithmetic.truediv), "floordiv": ("//", arithmetic.floordiv),
    "mod": ("%", arithmetic.mod), "and": ("&", arithmetic.and_), "or": ("|", arithmetic.or_),
    "xor": ("^", arithmetic.xor), "lshift": ("<<", arithmetic.lshift),
    "rshift": (">>", arithmetic.rshift), "lt": ("<", _comparison("lt")),
    "le": ("<=", _comparison("le")), "gt": (">", _comparison("gt")),
    "ge": (">=", _comparison("ge")), "eq": ("==", _comparison("eq")),
    "ne": ("!=", _comparison("ne")),
    "pow": ("**", _missing("**", "multiply, or use `libdevice.pow`")),
    "matmul": ("@", _missing("@", "use `tl.dot`")),
}.items():  # fmt: skip
    _binary(_name, _symbol, _function)


def _member(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def attach(fn: Callable[..., Any]) -> Callable[..., Any]:
        method = builtin(fn)
        setattr(tensor, name, method)
        return method

    return attach


@_member("__neg__")
def _negate(self: tensor) -> tensor:
    return arithmetic.negate(self)


@_member("__invert__")
def _invert(self: tensor) -> tensor:
    return arithmetic.invert(self)


@_member("__not__")
def logical_not(self: tensor) -> tensor:
    """`not x`, elementwise for a block."""
    value = casts.to_tensor(self)
    if value.type.is_block():
        _warn_logical()
    return arithmetic.logical_not(value)


def _warn_logical() -> None:
    emitter.current().warn(
        "Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please use "
        "'&' or '|' instead"
    )


@tensor_member
@builtin
def logical_and(self: tensor, other: TensorLike) -> tensor:
    """`self and other`, elementwise for blocks (with a warning); both sides are evaluated."""
    a, b = casts.to_tensor(self), casts.to_tensor(other)
    if a.type.is_block() or b.type.is_block():
        _warn_logical()
    return arithmetic.logical_and(a, b)


@builtin
def both_hold(left: object, right: object) -> tensor:
    """`left and right` of the two comparisons of `a < b < c`, elementwise for blocks."""
    return arithmetic.logical_and(casts.to_tensor(left), casts.to_tensor(right))


@tensor_member
@builtin
def logical_or(self: tensor, other: TensorLike) -> tensor:
    """`self or other`, elementwise for blocks (with a warning); both sides are evaluated."""
    a, b = casts.to_tensor(self), casts.to_tensor(other)
    if a.type.is_block() or b.type.is_block():
        _warn_logical()
    return arithmetic.logical_or(a, b)


@_member("__getitem__")
def _getitem(self: tensor, index: TensorLike) -> tensor:
    entries = as_tuple(index)
    result = self
    for axis, entry in enumerate(entries):
        entry = unwrap(entry)
        if entry is None:
            # As in the reference there may be more indices than axes: programs write `s[:, None]`
            # for a scalar s.
            result = arithmetic.expand_dims(result, min(axis, len(result.type.shape)))
        elif not _is_whole_axis(entry):
            raise ValueError(
                f"unsupported tensor index: {entry!r} at position {axis} of a tensor of shape "
                f"{list(self.type.shape)}; only `None` (a new axis) and `:` are allowed"
            )
    return result


def _is_whole_axis(value: Any) -> bool:
    if class_of(value) not in (slice, builtins.slice):
        return False
    return all(unwrap(part) is None for part in (value.start, value.stop, value.step))


def convert(
    value: TensorLike, dtype: object, fp_downcast_rounding: str | None = None, bitcast: bool = False
) -> tensor:
    """`tl.cast` on values that are unwrapped already. Raises `TypeError` for what is no dtype."""
    if not isinstance(dtype, types.dtype):
        raise TypeError(f"cast to {dtype!r}, which is no dtype")
    x = casts.to_tensor(value)
    if bitcast:
        return casts.bitcast(x, dtype)
    return casts.cast(x, dtype, fp_downcast_rounding)


@tensor_member
@builtin
def cast(
    input: TensorLike, dtype: object, fp_downcast_rounding: str | None = None, bitcast: bool = False
) -> tensor:
    """Convert the elements of `input`.

    Args:
        input: a tensor or number.
        dtype: the element type of the result; the shape stays.
        fp_downcast_rounding: "rtne" (to nearest even, the default) or "rtz" (toward zero), for
            conversions from a wider to a narrower floating-point type.
        bitcast: keep the bits instead of the value; the widths must be the same.

    Raises `ValueError` for a bad rounding or width.
    """
    return convert(input, dtype, fp_downcast_rounding, bitcast)


@_member("to")
def _to(
    self: tensor, dtype: object, fp_downcast_rounding: str | None = None, bitcast: bool = False
) -> tensor:
    """The same as `tl.cast(self, ...)`."""
    return convert(self, dtype, fp_downcast_rounding, bitcast)


def _constant_to(
    self: tensor, dtype: object, fp_downcast_rounding: str | None = None, bitcast: bool = False
) -> tensor:
    """A compile-time number as a scalar tensor of `dtype`, so that programs need not know which
    arguments and loop variables are constants."""
    return convert(self, dtype, fp_downcast_rounding, bitcast)


constexpr.to = builtin(_constant_to)  # pyright: ignore[reportAttributeAccessIssue]


@tensor_member
@builtin
def item(self: tensor) -> tensor:
    """The only element of a block, as a scalar. Raises `OpError` for a larger block."""
    return build(ttir.UnsplatOp, self, like=self) if self.type.is_block() else self
