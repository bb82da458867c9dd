"""Links one ELF object in memory.

LLVM's own linker takes 2 ms of a process's first launch to become ready and half a millisecond for
each object, and on AArch64 it aborts the process where it gets parts of an object more than 4 GiB
apart.

Format and relocations: `elf_machines`. Our objects are position-independent, throw nothing, and
have no thread-local data; one that needs more than is known here is refused (`Unsupported`), and
left to LLVM.

A mapping holds, each part on pages of its own, what is executed or only read (with the jumps to
functions elsewhere and the table of addresses), and what is written.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tritium.native.elf_machines import MACHINES, Unsupported
from tritium.native.host import architecture_of

_PAGE = mmap.PAGESIZE
NOBITS, _RELA, _SYMTAB = 8, 4, 2
WRITE, _ALLOC, _TLS = 1, 2, 0x400
MAGIC = b"\x7fELF"
_HEADER = MAGIC + b"\x02\x01"
_RELOCATABLE = 1
_SECTIONS, _SYMBOLS, _RELOCATIONS = (
    struct.Struct(layout) for layout in ("<IIQQQQIIQQ", "<IBBHQQ", "<QQq")
)
ENTRY = 16
"""Bytes of a jump; an address takes half."""


@dataclass
class Linked:
    """Linked code. Its addresses are valid as long as the object lives."""

    addresses: dict[str, int]
    region: tuple[int, int]
    """The address of the code, and its size in bytes."""
    _memory: mmap.mmap
    _place: object

    def __getitem__(self, symbol: str) -> int:
        return self.addresses[symbol]


@functools.cache
def _process() -> Any:
    return ctypes.CDLL(None)


def in_process(name: str) -> int:
    """The address of a function of this process. Raises `RuntimeError` where there is none."""
    try:
        return ctypes.cast(_process()[name], ctypes.c_void_p).value or 0
    except AttributeError:
        raise RuntimeError(f"symbol not found in this process: {name}") from None


class ObjectFile:
    """The parts of an object file."""

    def __init__(self, code: bytes, architecture: str = ""):
        kind = struct.unpack_from("<HH", code, 16) if len(code) >= 64 else ()
        machine = MACHINES.get(architecture or architecture_of(platform.machine()))
        if machine is None or code[:6] != _HEADER or kind != (_RELOCATABLE, machine.number):
            raise Unsupported("no ELF object for this processor")
        self.code, self.machine = code, machine
        start, _, _, _, _, size, count = struct.unpack_from("<QIHHHHH", code, 40)
        table = code[start : start + size * count]
        self.sections: list[tuple[int, ...]] = list(_SECTIONS.iter_unpack(table))
        inside = all(s[4] + s[5] <= len(code) for s in self.sections if s[1] != NOBITS)
        if len(self.sections) != count or not inside:
            raise ValueError("the file ends before its sections do")
        self.symbols: list[tuple[str, int, int]] = []
        """Name, section (0: elsewhere) and offset."""
        for _, type, _, _, offset, size, strings, *_ in self.sections:
            if type == _SYMTAB:
                names: int = self.sections[strings][4]
                for name, _, _, section, value, _ in _SYMBOLS.iter_unpack(
                    code[offset : offset + size]
                ):
                    end = code.index(b"\0", names + name)
                    self.symbols.append((code[names + name : end].decode(), section, value))

    def loaded(self) -> list[int]:
        """The sections that go to memory; not the tables for unwinding."""
        found: list[int] = []
        strings = self.sections[struct.unpack_from("<H", self.code, 62)[0]][4]
        for number, (name, _, flags, _, _, size, *_) in enumerate(self.sections):
            if flags & _TLS:
                raise Unsupported("thread-local data")
            if flags & _ALLOC and size and not self.code.startswith(b".eh_frame", strings + name):
                found.append(number)
        return found

    def relocations(self, sections: Container[int]) -> list[tuple[int, int, int, int, int]]:
        """Section, offset in it, kind, symbol and addend of each place to fill in."""
        found: list[tuple[int, int, int, int, int]] = []
        for _, type, _, _, offset, size, _, target, *_ in self.sections:
            if type == _RELA and target in sections:
                entries = _RELOCATIONS.iter_unpack(self.code[offset : offset + size])
                found += [(target, at, i & 0xFFFFFFFF, i >> 32, add) for at, i, add in entries]
        return found


def link(
    code: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None,
    resolve: Callable[[str], int] = in_process,
) -> Linked:  # fmt: skip
    """Put an object into memory, ready to run.

    Args:
        code: the object file.
        symbols: what it defines and the caller wants the addresses of.
        imports: addresses of what it needs; all else is asked of `resolve`.

    Raises:
        Unsupported: see the module.
        RuntimeError: a symbol is missing, or the object is damaged.
    """
    with reading():
        parts = ObjectFile(code)
        return _link(parts, symbols, lambda name: (imports or {}).get(name) or resolve(name))


def check(code: bytes) -> None:
    """Raise `RuntimeError` if the object is damaged, `Unsupported` if it is not known here."""
    with reading():
        parts = ObjectFile(code)
        lay_out(parts)
        table_entries(parts, parts.relocations(range(len(parts.sections))))


@contextmanager
def reading() -> Generator[None]:
    try:
        yield
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise RuntimeError("this object code is damaged") from error
    except OSError as error:
        raise Unsupported("memory of this kind") from error


def _link(parts: ObjectFile, symbols: Sequence[str], resolve: Callable[[str], int]) -> Linked:
    machine, (places, fixed, size) = parts.machine, lay_out(parts)
    relocations = parts.relocations(places)
    entries = table_entries(parts, relocations)
    jumps = aligned(fixed, ENTRY)
    table = jumps + ENTRY * len(entries)
    writable = aligned(table + 8 * len(entries), _PAGE)
    for number, at in places.items():
        if parts.sections[number][2] & WRITE:
            places[number] = writable + at
    memory = mmap.mmap(
        -1, max(aligned(writable + size, _PAGE), _PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    place = ctypes.c_char.from_buffer(memory)
    base = ctypes.addressof(place)
    for number, at in places.items():
        _, type, _, _, offset, length, *_ = parts.sections[number]
        if type != NOBITS:
            memory[at : at + length] = parts.code[offset : offset + length]
    offsets, slots = symbol_addresses(parts, places), dict[int, int]()
    for slot, symbol in enumerate(entries):
        name, section, _ = parts.symbols[symbol]
        if section == 0:
            address = resolve(name)
        else:
            address = base + offsets[symbol]
        packed = address.to_bytes(8, "little")
        memory[jumps + ENTRY * slot : jumps + ENTRY * (slot + 1)] = machine.jump % packed
        memory[table + 8 * slot : table + 8 * (slot + 1)] = packed
        slots[symbol] = slot
    for section, offset, kind, symbol, addend in relocations:
        at = places[section] + offset
        if kind in machine.by_table:
            target = table + 8 * slots[symbol]
        elif symbol in offsets:
            target = offsets[symbol]
        elif kind in machine.calls:
            target = jumps + ENTRY * slots[symbol]
        else:
            raise Unsupported("data that is somewhere else, and not in the table")
        machine.relocate(memory, at, kind, target + addend, base)
    # On AArch64 the kernel makes written pages visible to instruction fetch as they become
    # executable.
    if _process().mprotect(ctypes.c_void_p(base), ctypes.c_size_t(writable), 5):
        raise Unsupported("memory that can be executed")
    defined = {
        name: base + offsets[i] for i, (name, s, _) in enumerate(parts.symbols) if s in places
    }
    missing = [name for name in symbols if name not in defined]
    if missing:
        raise RuntimeError(f"symbol not found in the object: {', '.join(missing)}")
    addresses = {name: defined[name] for name in symbols}
    return Linked(addresses, (base, writable), memory, place)


def aligned(number: int, to: int) -> int:
    return -(-number // to) * to


def lay_out(parts: ObjectFile) -> tuple[dict[int, int], int, int]:
    """The place of each section from the start of its kind's part, and the sizes of the parts: the
    one that is fixed and the one that is written."""
    places: dict[int, int] = {}
    ends = [0, 0]
    for number in parts.loaded():
        _, _, flags, _, _, size, _, _, align, _ = parts.sections[number]
        if align > _PAGE:
            raise Unsupported(f"data aligned to {align} bytes")
        kind = flags & WRITE
        places[number] = aligned(ends[kind], max(align, 1))
        ends[kind] = places[number] + size
    return places, ends[0], ends[1]


def table_entries(
    parts: ObjectFile, relocations: list[tuple[int, int, int, int, int]]
) -> list[int]:
    """The symbols that have a jump and a place in the table of addresses: those that are somewhere
    else, and those that are looked up there."""
    machine, found = parts.machine, dict[int, None]()
    for _, _, kind, symbol, _ in relocations:
        if kind not in machine.known:
            raise Unsupported(f"relocation {kind}")
        if kind in machine.by_table or parts.symbols[symbol][1] == 0:
            found[symbol] = None
    return list(found)


def symbol_addresses(parts: ObjectFile, places: Mapping[int, int]) -> dict[int, int]:
    """The place of each symbol in the mapping."""
    return {
        i: places[section] + value
        for i, (_, section, value) in enumerate(parts.symbols)
        if section in places
    }
