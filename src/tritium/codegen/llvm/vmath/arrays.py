"""The vector functions on NumPy arrays of doubles, for the reference semantics of those that NumPy
lacks: the same formulas, computed at once instead of written as code.

`Lanes` stand for arrays here. Functions that NumPy has are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritium.codegen.llvm.vmath import libdevice  # which fills the table
from tritium.codegen.llvm.vmath.lanes import EagerLanes, Lanes
from tritium.codegen.llvm.vmath.registry import TABLE
from tritium.codegen.llvm.writer import Function, Value, scalar
from tritium.ops.ttir.extern import common_symbol

assert libdevice  # imported for what it registers

_TYPES: dict[str, Any] = {
    "double": np.float64, "float": np.float32, "i64": np.int64, "i32": np.int32, "i1": np.bool_,
}  # fmt: skip
_NAMES = {np.dtype(t): name for name, t in _TYPES.items()}

_NUMPY: dict[str, Callable[..., Any]] = {
    "sin": np.sin, "cos": np.cos, "log": np.log, "log1p": np.log1p, "pow": np.power,
    "fmod": np.fmod,
}  # fmt: skip
_INTRINSICS: dict[str, Callable[..., Any]] = {
    "fabs": np.abs, "sqrt": np.sqrt, "copysign": np.copysign, "roundeven": np.rint,
    "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "maximum": np.maximum,
}  # fmt: skip
_OPCODES: dict[str, Callable[..., Any]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "add": np.add,
    "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal,
}  # fmt: skip


def external(symbol: str) -> Callable[..., Any]:
    """The function of libdevice that `symbol` names, on arrays.

    Raises `NotImplementedError`, naming it, where it is none of the real functions.
    """
    emit = libdevice.symbols().get(common_symbol(symbol))
    if emit is None:
        raise NotImplementedError(f"reference semantics of the external function {symbol}")

    def compute(*arrays: Any) -> Any:
        wide = [
            np.asarray(a, np.float64 if np.asarray(a).dtype.kind == "f" else None) for a in arrays
        ]
        with np.errstate(all="ignore"):
            return _array(emit(*(ArrayLanes(_WRITER, _value(a), ()) for a in wide)))

    return compute


def _value(array: Any) -> Value:
    """An array in the place of a value's reference."""
    return Value(_NAMES[array.dtype], array)


def _array(lanes: Lanes) -> Any:
    return lanes.value.ref


class ArrayLanes(EagerLanes):
    """`Lanes` whose value is an array."""

    __slots__ = ()

    def make(self, value: Value) -> Lanes:
        return ArrayLanes(self.function, value, ())

    def constant(self, number: float | int | bool) -> Lanes:
        return self.make(_value(np.asarray(number, _TYPES[self.base])))

    def apply(self, name: str, *others: Lanes) -> Lanes:
        known = _NUMPY.get(name)
        if known is None:
            return TABLE[name].emit(self, *others)
        return self.make(_value(known(*(_array(v) for v in (self, *others)))))

    def any(self) -> bool:
        return bool(np.any(_array(self)))


class _Writer(Function):
    """Does at once what a `Function` writes down."""

    def __init__(self) -> None:
        pass

    def op(self, opcode: str, left: Value, right: Value, flags: str = "") -> Value:
        if opcode == "lshr":
            array: Any = left.ref
            unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}"))
            return _value(
                (unsigned >> np.asarray(right.ref).astype(unsigned.dtype)).view(array.dtype)
            )
        return _value(_OPCODES[opcode](left.ref, right.ref))

    def fneg(self, value: Value) -> Value:
        return _value(np.negative(value.ref))  # pyright: ignore[reportArgumentType]

    def fcmp(self, predicate: str, left: Value, right: Value) -> Value:
        a: Any = left.ref
        b: Any = right.ref
        unordered = np.isnan(a) | np.isnan(b)
        if predicate == "uno":
            return _value(np.asarray(unordered))
        found = _COMPARISONS[predicate[1:]](a, b)
        return _value(np.asarray(found | unordered if predicate[0] == "u" else found & ~unordered))

    def icmp(self, predicate: str, left: Value, right: Value) -> Value:
        return _value(np.asarray(_COMPARISONS[predicate[-2:]](left.ref, right.ref)))

    def select(self, condition: Value, then: Value, other: Value) -> Value:
        return _value(np.where(condition.ref, then.ref, other.ref))  # pyright: ignore

    def cast(self, opcode: str, value: Value, type: str) -> Value:
        array: Any = value.ref
        wanted = _TYPES[scalar(type)]
        return _value(array.view(wanted) if opcode == "bitcast" else array.astype(wanted))

    def intrinsic(self, name: str, *arguments: Value, result: str = "", flags: str = "") -> Value:
        values: Sequence[Any] = [a.ref for a in arguments]
        return _value(_INTRINSICS[name](*values))


_WRITER = _Writer()
