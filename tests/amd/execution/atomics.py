"""Atomic updates of memory, in the order of the lanes' numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.amd.execution.functions import FUNCTIONS
from tests.amd.execution.operations import rounded
from tests.amd.execution.types import LDS, Type, from_bytes, signed, spread, to_bytes, wrapped

_UPDATES: dict[str, Callable[[Type, Any, Any], Any]] = {
    "xchg": lambda t, old, new: new, "swap": lambda t, old, new: new,
    "add": lambda t, old, new: wrapped(t, old + new),
    "sub": lambda t, old, new: wrapped(t, old - new),
    "and": lambda t, old, new: old & new, "or": lambda t, old, new: old | new,
    "xor": lambda t, old, new: old ^ new,
    "max": lambda t, old, new: np.where(signed(t, old) > signed(t, new), old, new),
    "min": lambda t, old, new: np.where(signed(t, old) < signed(t, new), old, new),
    "umax": lambda t, old, new: np.maximum(old, new),
    "umin": lambda t, old, new: np.minimum(old, new),
    "fadd": lambda t, old, new: rounded(old + new, t.dtype),
    "fmax": lambda t, old, new: FUNCTIONS["maxnum"](t, old, new),
    "fmin": lambda t, old, new: FUNCTIONS["minnum"](t, old, new),
}  # fmt: skip
_UPDATES |= {"smax": _UPDATES["max"], "smin": _UPDATES["min"]}


def update(
    wave: Any, kind: str, type: Type, space: int, addresses: Any, operand: Any, mask: Any
) -> Any:
    """The old values; the memory gets the new ones."""
    compute, operand = _UPDATES[kind], spread(operand, wave.lanes)
    return _in_rounds(wave, type, space, addresses, mask,
                      lambda lanes, old: compute(type, old, operand[lanes]))  # fmt: skip


def compare_and_swap(
    wave: Any, type: Type, space: int, addresses: Any, wanted: Any, new: Any, mask: Any
) -> Any:
    """The old values, and whether they were the wanted ones."""
    wanted, new = spread(wanted, wave.lanes), spread(new, wave.lanes)
    old = _in_rounds(wave, type, space, addresses, mask, lambda lanes, old: np.where(
        old == wanted[lanes], new[lanes], old
    ))  # fmt: skip
    return old, old == wanted


def _in_rounds(
    wave: Any, type: Type, space: int, addresses: Any, mask: Any, compute: Callable[..., Any]
) -> Any:
    """Each round updates every address once, for the first lane that is left of those that have
    it."""
    addresses, size = spread(addresses, wave.lanes), type.size
    found = np.full((wave.lanes, size), 0xC5, np.uint8)
    left = np.flatnonzero(mask)
    while left.size:
        _, first = np.unique(addresses[left], return_index=True)
        lanes = left[first]
        place = addresses[lanes]
        if space == LDS:
            data = wave.group.lds.read_for_update(place, size, size, wave.number)
        else:
            data = wave.memory.read(place, size, size)
        found[lanes] = data
        new = to_bytes(type, compute(lanes, from_bytes(type, data)))
        if space == LDS:
            wave.group.lds.write(place, new, size, wave.number, atomic=True)
        else:
            wave.memory.write(place, new, size)
        left = np.delete(left, first)
    return from_bytes(type, found)
