"""LLVM types, and their values for the lanes of a wave.

A value is a NumPy array, (lanes,) or (1,) where it is the same for all lanes; vectors have a second
axis; structs are tuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

GLOBAL, LDS, CONSTANT, RESOURCE = 1, 3, 4, 8
"""Address spaces."""
OBJECT, BOOL = np.dtype(object), np.dtype(bool)
"""The dtypes of integers of more than 64 bits, and of one."""
_FLOATS = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32,
           "double": np.float64}  # fmt: skip
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
_GARBAGE = 0xC5
"""The bytes of values that the program has not defined."""


@dataclass(frozen=True)
class Type:
    """An LLVM type. `kind`: `i`, a float's name, `ptr`, `vector`, `array`, `struct`, `void`.

    Attributes:
        bits: of an integer.
        count: of elements of a vector or array.
        parts: the element's type, or those of a struct.
        space: the address space of a pointer.
    """

    kind: str
    bits: int = 0
    count: int = 0
    parts: tuple[Type, ...] = ()
    space: int = 0

    @property
    def element(self) -> Type:
        return self.parts[0] if self.kind in ("vector", "array") else self

    @property
    def is_float(self) -> bool:
        return self.element.kind in _FLOATS

    @property
    def width(self) -> int:
        """Bits of a scalar."""
        if self.kind == "ptr":
            return 32 if self.space == LDS else 64
        return self.bits or _FLOAT_BITS[self.kind]

    @property
    def all_bits(self) -> int:
        if self.kind in ("vector", "array"):
            return self.count * self.element.all_bits
        return self.width

    @property
    def size(self) -> int:
        """Bytes in memory."""
        if self.kind == "array":
            return self.count * self.element.size
        return (self.all_bits + 7) // 8

    @property
    def dtype(self) -> Any:
        return _dtype(self.element.kind, self.element.bits)


@cache
def _dtype(kind: str, bits: int) -> Any:
    if kind in _FLOATS:
        return np.dtype(_FLOATS[kind])
    if kind == "ptr":
        return np.dtype(np.uint64)
    if bits == 1:
        return np.dtype(bool)
    return np.dtype(next((f"u{n}" for n in (1, 2, 4, 8) if bits <= 8 * n), object))


VOID, I1, I32, I64 = Type("void"), Type("i", 1), Type("i", 32), Type("i", 64)


def storage(bits: int) -> Any:
    """The dtype of the numbers of a width."""
    return _dtype("i", bits)


def poison(type: Type) -> Any:
    """A value that nothing has defined: noticeable bits."""
    if type.kind == "struct":
        return tuple(poison(part) for part in type.parts)
    shape = (1, 3) if type.space == RESOURCE else (1, type.count) if type.count else (1,)
    dtype = type.dtype
    if dtype == OBJECT:
        return np.full(shape, int.from_bytes(bytes([_GARBAGE]) * (type.bits // 8)), object)
    if dtype == BOOL:
        return np.ones(shape, bool)
    found = np.full((*shape, dtype.itemsize), _GARBAGE, np.uint8).view(dtype)[..., 0]
    return found if type.is_float else found & _mask(type)


def _mask(type: Type) -> Any:
    element = type.element
    return element.dtype.type((1 << element.width) - 1)


def zero(type: Type) -> Any:
    if type.kind == "struct":
        return tuple(zero(part) for part in type.parts)
    shape = (1, 3) if type.space == RESOURCE else (1, type.count) if type.count else (1,)
    if type.dtype == OBJECT:
        return np.full(shape, 0, object)
    return np.zeros(shape, type.dtype)


def wrapped(type: Type, value: Any) -> Any:
    """An integer brought back into its width."""
    bits, dtype = type.element.bits, type.dtype
    if dtype == OBJECT:
        return value & ((1 << bits) - 1)
    if bits in (8, 16, 32, 64):
        return value
    return value & dtype.type((1 << bits) - 1)


def signed(type: Type, value: Any) -> Any:
    """An integer read as a signed one."""
    bits, dtype = type.element.bits, type.dtype
    if dtype == BOOL:
        return -value.astype(np.int8)
    if dtype == OBJECT:
        half = 1 << (bits - 1)
        return (value ^ half) - half
    out = value.view(f"i{dtype.itemsize}")
    rest = 8 * dtype.itemsize - bits
    return out if not rest else (out << rest) >> rest


def unsigned(type: Type, value: Any) -> Any:
    """A signed integer (of any width) as the number of a type."""
    bits, dtype = type.element.bits, type.dtype
    if dtype == OBJECT:
        return value.astype(object) & ((1 << bits) - 1)
    if dtype == BOOL:
        return (value & 1).astype(bool)
    if value.dtype == OBJECT:
        value = value & ((1 << bits) - 1)
    return wrapped(type, value.astype(dtype))


def to_bytes(type: Type, value: Any) -> Any:
    """A value's bytes in memory, (lanes, size)."""
    if type.dtype == OBJECT:
        size = type.element.bits // 8
        flat = [[int(v).to_bytes(size, "little") for v in np.atleast_1d(row)] for row in value]
        return np.array([np.frombuffer(b"".join(row), np.uint8) for row in flat])
    if type.element.bits == 1:
        if type.count:
            return np.packbits(value, axis=1, bitorder="little")
        return value.astype(np.uint8)[:, None]
    size = type.size // max(type.count, 1)
    dtype = np.dtype("u4") if type.element.kind == "ptr" and size == 4 else None
    value = np.ascontiguousarray(value if dtype is None else value.astype(dtype))
    parts = value.view(np.uint8).reshape(len(value), -1, value.dtype.itemsize)
    return parts[:, :, :size].reshape(len(value), -1)


def from_bytes(type: Type, data: Any) -> Any:
    """The value that bytes, (lanes, size), stand for."""
    lanes, count = len(data), type.count or 1
    if type.element.bits == 1:
        if type.count:
            return np.unpackbits(data, axis=1, bitorder="little")[:, :count].astype(bool)
        return (data[:, 0] & 1).astype(bool)
    size = data.shape[1] // count
    dtype = type.dtype
    if dtype == OBJECT:
        rows = data.reshape(lanes, count, size)
        found = np.array(
            [[int.from_bytes(part.tobytes(), "little") for part in row] for row in rows], object
        )
    else:
        if size != dtype.itemsize:
            wide = np.zeros((lanes, count, dtype.itemsize), np.uint8)
            wide[:, :, :size] = data.reshape(lanes, count, size)
            data = wide
        found = np.ascontiguousarray(data).reshape(lanes, -1).view(dtype)
    found = found.reshape(lanes, count)
    return found if type.count else found[:, 0]


def bitcast(source: Type, target: Type, value: Any) -> Any:
    """The same bits as another type."""
    if source == target:
        return value
    scalars = not source.count and not target.count
    if scalars and OBJECT not in (source.dtype, target.dtype) and \
            source.dtype.itemsize == target.dtype.itemsize:  # fmt: skip
        return value.view(target.dtype)
    return from_bytes(target, to_bytes(source, value))


def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, a truth for each lane or each element."""
    if isinstance(a, tuple):
        return tuple(select(condition, x, y) for x, y in zip(a, b, strict=True))
    if a.ndim > condition.ndim:
        condition = condition[:, None]
    return np.where(condition, a, b)


def spread(value: Any, lanes: int) -> Any:
    """A value with an entry for each lane."""
    return np.broadcast_to(value, (lanes, *value.shape[1:]))
