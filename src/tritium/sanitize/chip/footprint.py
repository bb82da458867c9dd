"""The bytes of an allocation in shared memory that a piece of it has, in parts that all accesses
touch as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import Any

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import linear


def unit_of(type: Any) -> int:
    """The most bytes of which each part, aligned, is in a piece of memory or beside it."""
    if _gaps(type):
        return _bytes_with_gaps(type)
    basis, unit = _basis(type), 1
    while _reduced(unit, basis) == 0:
        unit *= 2
    return unit


def common_unit(types: Iterable[Any]) -> int:
    """The unit (`unit_of`) that fits several pieces of an allocation."""
    return gcd(*map(unit_of, types))


def parts_of(type: Any, origin: int, unit: int) -> list[int]:
    """The parts of `unit` bytes that a piece has, counted from the start of the tile that it is a
    slice of, where its first element is at `origin` bytes."""
    if _gaps(type):
        return list(range(_bytes_with_gaps(type) // unit))
    found = {origin // unit}
    for vector in _basis(type):
        found |= {part ^ vector // unit for part in found}
    return sorted(found)


def _gaps(type: Any) -> Any:
    shape = type.allocation_shape()[-len(type.get_shape()) :]
    return type.encoding.gaps(shape, _element_bytes(type))


def _bytes_with_gaps(type: Any) -> int:
    shape = type.allocation_shape()[-len(type.get_shape()) :]
    return type.encoding.elements_of_block(shape) * _element_bytes(type)


def _element_bytes(type: Any) -> int:
    return ir.memory_bytes(type.element_type)


@lru_cache(maxsize=1024)
def _basis(type: Any) -> tuple[int, ...]:
    """Independent offsets in bytes, each with a highest bit of its own. Their XORs are the offsets
    of all bytes of a piece from its first."""
    shape, size = type.get_shape(), _element_bytes(type)
    places = linear(type.encoding, type.allocation_shape()[-len(shape) :]).inverse()
    offsets = [1 << bit for bit in range(size.bit_length() - 1)]
    for axis, length in enumerate(shape):
        columns = places.columns_of(f"dim{axis}")[: length.bit_length() - 1]
        offsets += [column * size for column in columns]
    basis: list[int] = []
    for offset in offsets:
        if rest := _reduced(offset, basis):
            basis.append(rest)
    return tuple(basis)


def _reduced(offset: int, basis: Iterable[int]) -> int:
    """An offset without what the basis makes up."""
    for vector in sorted(basis, reverse=True):
        offset = min(offset, offset ^ vector)
    return offset
