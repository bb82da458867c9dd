"""The end of a native launch: what a backend's launcher offers to `tritium.launch`.

The runtime's native launcher reads the arguments, finds the compiled kernel and stores the
arguments into slots of 8 bytes, as the kernel's operations (`Store`) say. Then it calls the
backend's `End.function`, `i1 (ptr state, ptr grid, i64 total, ptr slots)`, with the three sizes of
the grid (i64) and their product, which is not 0. It returns false when it has set an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol


class How(IntEnum):
    """The kinds of conversions of an argument's value to a slot."""

    POINTER = 0
    INTEGER = 1
    FLOAT32 = 2
    FLOAT32_FINITE = 3
    """An overflow is left to the careful path."""
    FLOAT64 = 4
    FLOAT32_OF_INTEGER = 5
    FLOAT64_OF_INTEGER = 6


class Store(NamedTuple):
    """The store of one value: numbers outside of `low` to `high`, pointers to another device
    (DLPack's number) and, with `writes`, read-only memory are left to the careful path. `extent`:
as of `Slot`."""

    how: How
    low: int = 0
    high: int = 0
    device: int = 0
    writes: bool = False
    extent: int = 0


class End(NamedTuple):
    """A kernel's end of the native launch."""

    function: int
    state: int
    slots: Sequence[Slot]
    """One for each value that the kernel takes, in order; tuples and descriptors are spread out
    (base, shape, strides)."""
    keep: object
    """Objects that must stay alive while the addresses are used."""
    extent_of: Callable[[Any], tuple[int, int]] | None = None
    """The begin and the end of the memory of an argument that is no NumPy array; where some slot
    has an `extent`."""
    on_error: Callable[[BaseException, tuple[int, int, int], dict[str, Any]], None] | None = None
    """Called with an error of `function`, the grid and the arguments by name: raises another one,
    or returns to let the error be."""


class Slot(NamedTuple):
    """A parameter of the kernel: its type as in a signature (`*fp32`, `i32`)."""

    type: str
    writes: bool = False
    device: int = 1
    """The device that a pointer must point to: DLPack's number, 1 for the CPU, 2 for CUDA."""
    finite: bool = False
    """True if a number too large for fp32 is left to the careful path (else it is infinite)."""
    extent: int = 0
    """The number of the slot, behind those of the arguments, that takes the begin of the memory
    that a pointer's argument belongs to; the next one takes its end. 0 for none."""


class Link(Protocol):
    """Links LLVM IR that `write` makes (the object code is kept on disk, by the names of `symbols`)
    with `imports`, functions by address; the result has the addresses of `symbols`."""

    def __call__(
        self, write: Callable[[], str], symbols: Sequence[str], imports: Mapping[str, int]
    ) -> Addresses: ...


class Addresses(Protocol):
    """Addresses by symbol."""

    def __getitem__(self, symbol: str) -> int: ...


def store_for(kind: str, slot: Slot) -> Store | None:
    """The store of a value of `kind` ("pointer", "integer", "unsigned", "float") in a slot; None
    if only the careful path can do it."""
    if slot.type.startswith("*") != (kind == "pointer") or kind == "unknown":
        return None
    if kind == "pointer":
        return Store(How.POINTER, device=slot.device, writes=slot.writes, extent=slot.extent)
    if kind == "unsigned":  # a value with the highest of 64 bits set
        return Store(How.INTEGER, -(1 << 63), (1 << 63) - 1) if slot.type == "u64" else None
    if slot.type[0] in "iu":
        if kind != "integer":
            return None
        bits = int(slot.type[1:])
        if slot.type[0] == "u" or bits == 1:
            return Store(How.INTEGER, 0, min((1 << bits) - 1, (1 << 63) - 1))
        return Store(How.INTEGER, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if slot.type == "fp64":
        return Store(How.FLOAT64 if kind == "float" else How.FLOAT64_OF_INTEGER)
    if slot.type == "fp32":
        if kind == "integer":
            return Store(How.FLOAT32_OF_INTEGER)
        return Store(How.FLOAT32_FINITE if slot.finite else How.FLOAT32)
    return None
