"""Relocations of ELF objects, by processor, as far as compiled kernels have them.

x86-64: System V ABI, AMD64 supplement 1.0, chapter 4. AArch64: ELF for the Arm 64-bit architecture
(AAELF64), chapter 5.7; instruction encodings of the Arm Architecture Reference Manual (DDI 0487).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_PAGE = 4096


class Unsupported(Exception):
    """The object needs what is not known here."""


@dataclass(frozen=True)
class Machine:
    """The relocations and jumps with which objects for one processor are linked.

    Attributes:
        number: what the header calls the processor.
        known: the kinds of relocations that are understood.
        by_table: those that mean the symbol's place in the table of addresses.
        calls: those that a jump serves, where the function is out of reach.
        jump: code of 16 bytes that goes to an address, `%b`, little-endian.
        relocate: fills in one place: (memory, its offset, kind, the target's offset, the address
            of the memory, which begins at a page).
        absolute: the kind that an address is filled in by; in a shared library the dynamic linker
            does that (`relative`), and looks up symbols (`lookup`).
        jump_through: code of at most 16 bytes, at an offset, that goes to the address in the table
            at another one.
        page: what segments of a shared library are aligned to.
    """

    number: int
    known: frozenset[int]
    by_table: frozenset[int]
    calls: frozenset[int]
    jump: bytes
    relocate: Callable[[Any, int, int, int, int], None]
    absolute: int
    relative: int
    lookup: int
    jump_through: Callable[[int, int], bytes]
    page: int


_ABS64, _PC32, _PLT32, _GOTPCREL, _PC64 = 1, 2, 4, 9, 24
_RELAXABLE = (41, 42)


def _relocate_x86(memory: Any, at: int, kind: int, target: int, base: int) -> None:
    if kind == _ABS64:
        struct.pack_into("<Q", memory, at, base + target)
    elif kind == _PC64:
        struct.pack_into("<q", memory, at, target - at)
    else:
        struct.pack_into("<i", memory, at, target - at)


_A_ABS64, _A_PREL64, _A_PREL32 = 257, 260, 261
_ADR_PAGE, _ADR_PAGE_NC, _ADD_LO12, _GOT_PAGE, _GOT_LO12 = 275, 276, 277, 311, 312
_JUMP26, _CALL26, _BRANCH19, _BRANCH14 = 282, 283, 280, 279
_LDST_LO12 = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4, _GOT_LO12: 3}
"""Offsets within a page, by kind: the binary logarithm of the bytes that are accessed."""


def _relocate_aarch64(memory: Any, at: int, kind: int, target: int, base: int) -> None:
    if kind == _A_ABS64:
        struct.pack_into("<Q", memory, at, base + target)
    elif kind == _A_PREL64:
        struct.pack_into("<q", memory, at, target - at)
    elif kind == _A_PREL32:
        struct.pack_into("<i", memory, at, target - at)
    else:
        (word,) = struct.unpack_from("<I", memory, at)
        struct.pack_into("<I", memory, at, word | _immediate(kind, target, at))


def _immediate(kind: int, target: int, at: int) -> int:
    """The bits of an instruction that say where the target is."""
    if kind in (_ADR_PAGE, _ADR_PAGE_NC, _GOT_PAGE):
        pages = _signed((target // _PAGE) - (at // _PAGE), 21)
        return (pages & 3) << 29 | (pages >> 2) << 5
    if kind == _ADD_LO12:
        return (target % _PAGE) << 10
    if kind in _LDST_LO12:
        within, shift = target % _PAGE, _LDST_LO12[kind]
        if within & ((1 << shift) - 1):
            raise Unsupported("an access whose offset is not a multiple of its size")
        return (within >> shift) << 10
    bits, place = {_BRANCH19: (19, 5), _BRANCH14: (14, 5)}.get(kind, (26, 0))
    return _signed((target - at) >> 2, bits) << place


def _signed(number: int, bits: int) -> int:
    """A number as a field of two's complement. Raises `Unsupported` if it does not fit."""
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Unsupported("a target out of reach")
    return number & (1 << bits) - 1


def _jump_x86(at: int, slot: int) -> bytes:
    return b"\xff\x25" + struct.pack("<i", slot - (at + 6))  # jmp [rip + distance]


def _jump_aarch64(at: int, slot: int) -> bytes:
    load = 0xF9400210 | _immediate(_GOT_LO12, slot, at)  # ldr x16, [x16, offset in the page]
    return struct.pack("<III", 0x90000010 | _immediate(_ADR_PAGE, slot, at), load, 0xD61F0200)


MACHINES = {
    "x86_64": Machine(
        62,
        frozenset((_ABS64, _PC32, _PLT32, _PC64, _GOTPCREL, *_RELAXABLE)),
        frozenset((_GOTPCREL, *_RELAXABLE)),
        frozenset((_PLT32,)),
        b"\x49\xbb%b\x41\xff\xe3\0\0\0",  # movabs r11, address; jmp r11
        _relocate_x86, _ABS64, 8, 6, _jump_x86, 4096,
    ),
    "aarch64": Machine(
        183,
        frozenset((
            _A_ABS64, _A_PREL64, _A_PREL32, _ADR_PAGE, _ADR_PAGE_NC, _ADD_LO12, _GOT_PAGE,
            _JUMP26, _CALL26, _BRANCH19, _BRANCH14, *_LDST_LO12,
        )),
        frozenset((_GOT_PAGE, _GOT_LO12)),
        frozenset((_JUMP26, _CALL26)),
        b"\x50\0\0\x58\0\x02\x1f\xd6%b",  # ldr x16, address; br x16
        _relocate_aarch64, _A_ABS64, 1027, 1025, _jump_aarch64, 65536,
    ),
}  # fmt: skip
"""The processors by `architecture_of`."""
