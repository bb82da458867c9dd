"""Keys of the native launcher, read in Python: which values a launch has, and which objects a key
stands for."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tritium.launch.ends import Slot, Store, store_for
from tritium.launch.records import DETAIL, Tag


class Meaning(NamedTuple):
    """The fields of a key.

    Attributes:
        kinds: of the values, in order: "pointer", "integer", "unsigned" (an integer from 2**63 on),
            "float", or "unknown" for what no backend's end takes.
        constants: objects that the key knows by identity and that are compile-time values.
        others: further objects that it knows by identity.
        descriptors: whether there is a tensor descriptor among the arguments.
    """

    kinds: list[str]
    constants: list[Any]
    others: list[Any]
    descriptors: bool


def meaning(key: bytes) -> Meaning:
    """Read a key. The objects that it names by address must be alive."""
    found = Meaning([], [], [], False)
    words = iter(struct.unpack(f"{len(key) // 8}Q", key)[2:])  # after epoch and device
    descriptors = False
    for word in words:
        descriptors |= _read(word, words, found)
    return found._replace(descriptors=descriptors)


_NO_OPERAND = frozenset({Tag.ONE, Tag.NONE, Tag.TUPLE})


def _read(word: int, words: Iterator[int], found: Meaning) -> bool:
    tag = Tag(word & 0xFF)
    if tag in (Tag.TENSOR, Tag.ARRAY):
        found.kinds.append("pointer")
        if tag is Tag.ARRAY:
            found.others.append(_object(next(words)))
    elif tag in (Tag.INTEGER, Tag.BOOL):
        found.kinds.append("integer")
    elif tag is Tag.UNSIGNED:
        found.kinds.append("unsigned")
    elif tag is Tag.FLOAT:
        found.kinds.append("float")
    elif tag is Tag.OBJECT:
        found.constants.append(_object(next(words)))
    elif tag in (Tag.NUMBER, Tag.LARGE_NUMBER, Tag.REAL):
        next(words)
    elif tag is Tag.OPTION:
        found.others.append(_object(next(words)))
        _read(next(words), words, found)
    elif tag is Tag.DESCRIPTOR:
        rank = word >> DETAIL
        _read(next(words), words, found)
        for _ in range(rank):
            next(words)
        padding = _object(address) if (address := next(words)) else "zero"
        found.others.append(padding)
        found.kinds.extend(["integer" if padding == "zero" else "unknown"] * (2 * rank))
        return True
    else:
        assert tag in _NO_OPERAND, tag
    return False


def _object(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value


def stores(found: Meaning, slots: Sequence[Slot]) -> list[Store] | None:
    """The stores of a launch's values in the kernel's slots; None if only Python can do them."""
    if len(found.kinds) != len(slots):
        return None
    made: list[Store] = []
    for kind, slot in zip(found.kinds, slots, strict=True):
        store = store_for(kind, slot)
        if store is None:
            return None
        made.append(store)
    return made
