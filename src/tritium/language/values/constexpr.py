"""Compile-time values.

The frontend wraps every literal and every compile-time argument in `constexpr`; computing with
constexprs gives constexprs. Where a tensor is the other operand its reflected operator runs.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
import struct
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, TypeAlias

from tritium.ir.types import Type
from tritium.language.values.base import (
    Handle,
    base_type,
    base_value,
    class_of,
    is_sequence,
    mark_builtin,
)


class AssignedInt(int):
    """An integer that a kernel assigned to a plain name (not one declared `tl.constexpr`).

    In the reference such a name is a scalar tensor. Here its value stays known at compile time,
    but it has a dtype as that scalar has: it is not weak, and operators compute in that dtype.
    """

    dtype: base_type | None = None
    """The dtype of a result; None: what the number has by itself."""


class AssignedFloat(float):
    """The same of a float."""

    dtype: base_type | None = None


_ASSIGNED = (AssignedInt, AssignedFloat)


def is_assigned(value: object) -> bool:
    """True if it is a number that a kernel assigned to a name, or was computed from one."""
    return isinstance(value, _ASSIGNED)


def fits_float32(value: float) -> bool:
    """True if a Python float is by itself a float32, and not too large or too small for one."""
    special = value == 0.0 or value != value or abs(value) == math.inf
    return special or 2.0**-126 <= abs(value) <= (2 - 2.0**-23) * 2.0**127


def as_assigned(value: object, dtype: base_type | None = None) -> Any:
    """A number as one that a kernel assigned to a name, rounded to its dtype; other values (bools
    too) as they are."""
    if isinstance(value, (bool, *_ASSIGNED)):
        return value
    if isinstance(value, int):
        found: AssignedInt | AssignedFloat = AssignedInt(value)
    elif isinstance(value, float):
        rounded = fits_float32(value) and dtype is None
        found = AssignedFloat(struct.unpack("f", struct.pack("f", value))[0] if rounded else value)
    else:
        return value
    if dtype is not None:
        found.dtype = dtype
    return found


def unassigned(value: object) -> Any:
    """The same number as Python's own."""
    if isinstance(value, AssignedInt):
        return int(value)
    return float(value) if isinstance(value, AssignedFloat) else value


Operation: TypeAlias = Callable[..., Any]
"""A function of Python values, such as those of `operator`."""

OF_SCALARS: dict[Operation, Operation] = {}
"""The language's functions for Python's operators, on numbers that stand for scalars, and the one
that makes the scalar (`scalar_of`); `builtins.numbers` puts them here."""


def scalar_of(value: object) -> object:
    """The scalar tensor that a number assigned to a name stands for; other values as they are."""
    if isinstance(value, constexpr) and is_assigned(value.value):
        return OF_SCALARS[scalar_of](value)
    return value


def _computed(function: Operation, *operands: object) -> constexpr:
    """An operator's result; assigned numbers compute as the scalars that they stand for."""
    if not any(map(is_assigned, operands)):
        return constexpr(function(*operands))
    if function in OF_SCALARS and all(isinstance(o, (bool, int, float)) for o in operands):
        return constexpr(OF_SCALARS[function](*operands))
    return constexpr(as_assigned(function(*operands)))


def _identical(left: Any, right: Any) -> bool:
    """True if two compile-time values are the same: equal and of one type, in tuples too; 0.0 and
    -0.0 differ, NaN is itself. Whether they were assigned to names does not matter."""
    left, right = unassigned(left), unassigned(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left.hex() == right.hex()
    if is_sequence(left):
        return len(left) == len(right) and all(map(_identical, left, right))
    return left is right or bool(left == right)


class constexpr_type(base_type):
    """The type of one compile-time value; it has no handles, the value is in the type."""

    def __init__(self, value: object):
        self.value = unwrap(value)

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return isinstance(other, constexpr_type) and _identical(self.value, other.value)

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:  # lists of shapes, say
            return hash(repr(self.value))

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"

    def mangle(self) -> str:
        """The value's own mangled name where it has one, the name of a function, or its text;
        of a number that was assigned to a name, with a mark."""
        value = self.value
        if isinstance(value, base_type):
            return f"c{value.mangle()}"
        if isinstance(value, _ASSIGNED):
            return f"c{value}v{value.dtype or ''}"
        if hasattr(value, "__jit_callable__"):
            return f"cJITFunction({value.__module__}:{value.__qualname__})"
        return f"c{getattr(value, '__qualname__', value) if callable(value) else value}"

    def flatten_types(self) -> list[Type]:
        return []

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> tuple[constexpr, int]:
        return constexpr(self.value), cursor


_Method: TypeAlias = "Callable[[constexpr, object], constexpr]"


def _of_two(function: Any, reflected: bool = False) -> _Method:
    """A method of `constexpr` for an operator of two operands; `reflected`: of the right one."""

    def method(self: constexpr, other: object) -> constexpr:
        if isinstance(other, base_value) and not isinstance(other, constexpr):
            return NotImplemented
        left, right = self.value, unwrap(other)
        return _computed(function, right, left) if reflected else _computed(function, left, right)

    return method


def _both_ways(function: Any) -> tuple[_Method, _Method]:
    return _of_two(function), _of_two(function, reflected=True)


class constexpr(base_value):
    """A value known at compile time: a number, string, dtype, function, None, tuple, ...

    Attributes:
        value: the Python value.
    """

    value: Any

    def __init__(self, value: object):
        # One level is enough: what a constexpr holds is never one.
        self.value = value.value if isinstance(value, constexpr) else value

    @property
    def type(self) -> constexpr_type:  # pyright: ignore[reportIncompatibleVariableOverride]
        return constexpr_type(self.value)

    def flatten(self) -> list[Handle]:
        return []

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.value(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that constexpr lacks: `DTYPE.primitive_bitwidth`.
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)

    def __getitem__(self, index: Any) -> constexpr:
        if isinstance(index, slice):
            index = slice(unwrap(index.start), unwrap(index.stop), unwrap(index.step))
        return constexpr(self.value[unwrap(index)])

    def logical_and(self, other: object) -> constexpr:
        """`self and other` of compile-time values."""
        return _of_two(_and)(self, other)

    def logical_or(self, other: object) -> constexpr:
        """`self or other` of compile-time values."""
        return _of_two(_or)(self, other)

    def __array_ufunc__(
        self, ufunc: Callable[..., object], method: str, *inputs: object, **kwargs: object
    ) -> object:
        # NumPy would take a constexpr beside an array as an object, and make arrays of objects.
        return getattr(ufunc, method)(*[unwrap(each) for each in inputs], **kwargs)

    def __neg__(self) -> constexpr:
        return _computed(operator.neg, self.value)

    def __pos__(self) -> constexpr:
        return _computed(operator.pos, self.value)

    def __invert__(self) -> constexpr:
        return _computed(operator.invert, self.value)

    def __abs__(self) -> constexpr:
        return _computed(abs, self.value)

    __add__, __radd__ = _both_ways(operator.add)
    __sub__, __rsub__ = _both_ways(operator.sub)
    __mul__, __rmul__ = _both_ways(operator.mul)
    __truediv__, __rtruediv__ = _both_ways(operator.truediv)
    __floordiv__, __rfloordiv__ = _both_ways(operator.floordiv)
    _remainder, __rmod__ = _both_ways(operator.mod)
    __pow__, __rpow__ = _both_ways(operator.pow)
    __lshift__, __rlshift__ = _both_ways(operator.lshift)
    __rshift__, __rrshift__ = _both_ways(operator.rshift)
    __and__, __rand__ = _both_ways(operator.and_)
    __or__, __ror__ = _both_ways(operator.or_)
    __xor__, __rxor__ = _both_ways(operator.xor)
    __lt__, __le__ = _of_two(operator.lt), _of_two(operator.le)
    __gt__, __ge__ = _of_two(operator.gt), _of_two(operator.ge)
    __eq__: Any = _of_two(operator.eq)
    __ne__: Any = _of_two(operator.ne)

    def __mod__(self, other: object) -> constexpr:
        if isinstance(self.value, str):  # formats what may be a tuple
            return constexpr(self.value % unwrap(other))
        return self._remainder(other)


def _and(a: object, b: object) -> Any:
    return a and b


def _or(a: object, b: object) -> Any:
    return a or b


def unwrap(value: Any) -> Any:
    """`value` with every constexpr in it (and in tuples and lists of it) replaced by its value."""
    if type(value) is int:  # the most common, in grids above all
        return value
    kind = class_of(value)
    if issubclass(kind, constexpr):
        return value.value
    if kind in (tuple, list):
        return kind([unwrap(v) for v in value])  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        return {k: unwrap(v) for k, v in value.items()}
    members = getattr(kind, "_constexpr_members", None)
    return value if members is None else members(value)


class ConstexprFunction:
    """A plain Python function that kernels may call at compile time; see `constexpr_function`.

    Attributes:
        fn: the function itself.
    """

    fn: Callable[..., Any]
    __name__: str
    __qualname__: str

    def __init__(self, fn: Callable[..., Any]):
        functools.update_wrapper(self, fn)
        self.fn = fn
        mark_builtin(self)

    def __call__(self, *args: object, _semantic: object = None, **kwargs: object) -> Any:
        for name, value in kwargs.items():
            kwargs[name] = unwrap(value)
        result = self.fn(*map(unwrap, args), **kwargs)
        return result if _semantic is None else constexpr(result)

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    @property
    def src(self) -> str:
        """The source, dedented, from `def` on. Raises `OSError` if it cannot be found."""
        source = textwrap.dedent(inspect.getsource(self.fn))
        start = re.search(r"^def\s", source, re.MULTILINE)
        return source[start.start() :] if start else source

    @property
    def identity(self) -> str:
        """Text that distinguishes it from another function of the same name: its source
        or, where that cannot be found, its code."""
        try:
            return f"{self!r} {self.src}"
        except (OSError, TypeError):
            code = getattr(self.fn, "__code__", None)
            return repr(self) if code is None else f"{self!r} {code.co_code.hex()} {code.co_consts}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__module__}.{self.__qualname__})"

    def __reduce__(self) -> str:
        return self.__qualname__  # other processes get it as they get any function: by its name


def constexpr_function(fn: Callable[..., Any]) -> ConstexprFunction:
    """Decorator: a plain Python function that kernels may call at compile time.

    Its arguments arrive unwrapped; in a compiled kernel its result becomes a constexpr.
    """
    return ConstexprFunction(fn)
