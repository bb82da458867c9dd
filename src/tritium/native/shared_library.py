"""Writes an ELF shared library from one object file, as `ld -shared` would: no linker is needed.

Three segments: what the dynamic linker reads; code and constants, with jumps to functions that
other libraries define; what is written, with the table of addresses. System V ABI, chapters 4 and
5; the processors' parts are in `elf_machines`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tritium.native.elf import (
    ENTRY,
    NOBITS,
    WRITE,
    ObjectFile,
    aligned,
    lay_out,
    reading,
    symbol_addresses,
    table_entries,
)
from tritium.native.elf_machines import Unsupported

_LIBRARIES = ("libc.so.6", "libm.so.6")
_HEADER, _SEGMENT, _SECTION = (
    struct.Struct(f"<{layout}") for layout in ("16sHHIQQQIHHHHHH", "IIQQQQQQ", "IIQQQQIIQQ")
)
_SYMBOL, _RELOCATION, _DYNAMIC = (struct.Struct(f"<{x}") for x in ("IBBHQQ", "QQq", "QQ"))
_LOAD, _DYNAMIC_SEGMENT, _STACK = 1, 2, 0x6474E551
_READ, _WRITABLE, _EXECUTE = 4, 2, 1
_FUNCTION, _OBJECT = 0x12, 0x11
"""Kinds of global symbols."""


@dataclass
class _Strings:
    data: bytearray = field(default_factory=lambda: bytearray(1))

    def add(self, text: str) -> int:
        """The offset of a string."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def shared_library(
    code: bytes, name: str, functions: Sequence[str], objects: Sequence[str] = (),
    architecture: str = "x86_64",
) -> bytes:  # fmt: skip
    """The library.

    Args:
        code: the object file, position-independent.
        name: what the library calls itself.
        functions, objects: the symbols to export.
        architecture: of the object, by `architecture_of`.

    Raises:
        Unsupported: the object has relocations that are not known here.
        RuntimeError: the object is damaged, or does not define an exported symbol.
    """
    with reading():
        return _Library(ObjectFile(code, architecture), name, functions, objects).write()


class _Library:
    def __init__(
        self, parts: ObjectFile, name: str, functions: Sequence[str], objects: Sequence[str]
    ):
        self.parts, self.machine = parts, parts.machine
        self.exports = {**dict.fromkeys(functions, _FUNCTION), **dict.fromkeys(objects, _OBJECT)}
        places, fixed, written = lay_out(parts)
        self.relocations = parts.relocations(places)
        self.entries = table_entries(parts, self.relocations)
        self.imports = [s for s in self.entries if parts.symbols[s][1] == 0]
        self.strings = _Strings()
        self.needed = [self.strings.add(library) for library in _LIBRARIES]
        self.soname = self.strings.add(name)
        self.names = [self.strings.add(parts.symbols[s][0]) for s in self.imports]
        self.names += [self.strings.add(export) for export in self.exports]
        self._place(places, fixed, written)

    def _place(self, places: dict[int, int], fixed: int, written: int) -> None:
        """Lay out the parts, in the file as in memory."""
        page, symbols = self.machine.page, 1 + len(self.names)
        filled = sum(kind == self.machine.absolute for _, _, kind, _, _ in self.relocations)
        at = _HEADER.size + 5 * _SEGMENT.size
        self.symbols_at = at = aligned(at, 8)
        self.hash_at = at = at + _SYMBOL.size * symbols
        self.strings_at = at = at + 4 * (2 + 1 + symbols)
        self.dynamic_relocations_at = at = aligned(at + len(self.strings.data), 8)
        self.head_end = at + _RELOCATION.size * (len(self.entries) + filled)
        self.code_at = aligned(self.head_end, page)
        self.jumps_at = aligned(self.code_at + fixed, ENTRY)
        self.code_end = self.jumps_at + ENTRY * len(self.entries)
        self.table_at = aligned(self.code_end, page)
        self.dynamic_at = aligned(self.table_at + 8 * len(self.entries), 16)
        data = aligned(self.dynamic_at + _DYNAMIC.size * (len(_LIBRARIES) + 10), 4096)
        self.end = data + written
        self.places = {
            number: at + (data if self.parts.sections[number][2] & WRITE else self.code_at)
            for number, at in places.items()
        }

    def write(self) -> bytes:
        """The whole file."""
        memory = bytearray(self.end)
        for number, at in self.places.items():
            _, type, _, _, offset, length, *_ = self.parts.sections[number]
            if type != NOBITS:
                memory[at : at + length] = self.parts.code[offset : offset + length]
        relocations = self._fill(memory)
        at = self.dynamic_relocations_at
        memory[at : at + len(relocations)] = relocations
        symbols = self._symbols()
        memory[self.symbols_at : self.symbols_at + len(symbols)] = symbols
        table = self._hash()
        memory[self.hash_at : self.hash_at + len(table)] = table
        memory[self.strings_at : self.strings_at + len(self.strings.data)] = self.strings.data
        dynamic = self._dynamic(len(relocations))
        memory[self.dynamic_at : self.dynamic_at + len(dynamic)] = dynamic
        sections = self._sections(len(relocations), len(dynamic))
        memory += sections[0]
        headers_at = aligned(len(memory), 8)
        memory += bytes(headers_at - len(memory)) + sections[1]
        head = self._head(headers_at, len(sections[1]) // _SECTION.size, len(dynamic))
        memory[: len(head)] = head
        return bytes(memory)

    def _fill(self, memory: bytearray) -> bytes:
        """Fill in all places that do not depend on the address of the library; the relocations of
        the others."""
        machine, found = self.machine, bytearray()
        offsets = symbol_addresses(self.parts, self.places)
        slots = {symbol: self.table_at + 8 * i for i, symbol in enumerate(self.entries)}
        for number, (symbol, slot) in enumerate(slots.items()):
            jump_at = self.jumps_at + ENTRY * number
            jump = machine.jump_through(jump_at, slot)
            memory[jump_at : jump_at + len(jump)] = jump
            if symbol in offsets:
                found += _RELOCATION.pack(slot, machine.relative, offsets[symbol])
            else:
                index = 1 + self.imports.index(symbol)
                found += _RELOCATION.pack(slot, index << 32 | machine.lookup, 0)
        jumps = {symbol: self.jumps_at + ENTRY * i for i, symbol in enumerate(self.entries)}
        for section, offset, kind, symbol, addend in self.relocations:
            at = self.places[section] + offset
            if kind in machine.by_table:
                target = slots[symbol]
            elif symbol in offsets:
                target = offsets[symbol]
            elif kind in machine.calls:
                target = jumps[symbol]
            else:
                raise Unsupported("data that is somewhere else, and not in the table")
            if kind != machine.absolute:
                machine.relocate(memory, at, kind, target + addend, 0)
            elif self.parts.sections[section][2] & WRITE:
                found += _RELOCATION.pack(at, machine.relative, target + addend)
            else:
                raise Unsupported("an address in what is only read")
        return bytes(found)

    def _symbols(self) -> bytes:
        offsets = symbol_addresses(self.parts, self.places)
        defined = {self.parts.symbols[i][0]: offsets[i] for i in offsets}
        missing = [name for name in self.exports if name not in defined]
        if missing:
            raise RuntimeError(f"symbol not found in the object: {', '.join(missing)}")
        found = bytearray(_SYMBOL.pack(0, 0, 0, 0, 0, 0))
        for name in self.names[: len(self.imports)]:
            found += _SYMBOL.pack(name, _FUNCTION, 0, 0, 0, 0)
        rest = self.names[len(self.imports) :]
        for name, (symbol, kind) in zip(rest, self.exports.items(), strict=True):
            found += _SYMBOL.pack(name, kind, 0, _CODE, defined[symbol], 0)
        return bytes(found)

    def _hash(self) -> bytes:
        """A table of one bucket: symbols are few."""
        count = 1 + len(self.names)
        first, last = 1 + len(self.imports), count - 1
        chain = [i + 1 if first <= i < last else 0 for i in range(count)]
        return struct.pack(f"<{3 + count}I", 1, count, first if self.exports else 0, *chain)

    def _dynamic(self, relocations: int) -> bytes:
        entries = [
            *((1, name) for name in self.needed), (14, self.soname), (4, self.hash_at),
            (5, self.strings_at), (6, self.symbols_at), (10, len(self.strings.data)),
            (11, _SYMBOL.size), (7, self.dynamic_relocations_at), (8, relocations),
            (9, _RELOCATION.size), (0, 0),
        ]  # fmt: skip
        return b"".join(_DYNAMIC.pack(*entry) for entry in entries)

    def _head(self, sections_at: int, sections: int, dynamic: int) -> bytes:
        page, table = self.machine.page, self.table_at
        segments = (
            (_LOAD, _READ, 0, self.head_end, page),
            (_LOAD, _READ | _EXECUTE, self.code_at, self.code_end - self.code_at, page),
            (_LOAD, _READ | _WRITABLE, table, self.end - table, page),
            (_DYNAMIC_SEGMENT, _READ | _WRITABLE, self.dynamic_at, dynamic, 8),
            (_STACK, _READ | _WRITABLE, 0, 0, 16),  # not executable
        )
        header = _HEADER.pack(
            b"\x7fELF\x02\x01\x01", 3, self.machine.number, 1, 0, _HEADER.size, sections_at, 0,
            _HEADER.size, _SEGMENT.size, len(segments), _SECTION.size, sections, sections - 1,
        )  # fmt: skip
        return header + b"".join(
            _SEGMENT.pack(kind, flags, at, at, at, size, size, align)
            for kind, flags, at, size, align in segments
        )

    def _sections(self, relocations: int, dynamic: int) -> tuple[bytes, bytes]:
        """The names of the sections, and their headers, which linkers read."""
        names, symbols = _Strings(), 1 + len(self.names)
        rows = [
            (".dynsym", 11, 2, self.symbols_at, _SYMBOL.size * symbols, 3, 1, 8, _SYMBOL.size),
            (".hash", 5, 2, self.hash_at, 4 * (3 + symbols), 1, 0, 8, 4),
            (".dynstr", 3, 2, self.strings_at, len(self.strings.data), 0, 0, 1, 0),
            (".rela.dyn", 4, 2, self.dynamic_relocations_at, relocations, 1, 0, 8, 24),
            (".text", 1, 6, self.code_at, self.code_end - self.code_at, 0, 0, 64, 0),
            (".dynamic", 6, 3, self.dynamic_at, dynamic, 3, 0, 8, 16),
            (".shstrtab", 3, 0, self.end, 0, 0, 0, 1, 0),
        ]
        numbers = [names.add(name) for name, *_ in rows]
        headers = bytearray(_SECTION.size)
        for number, (_, kind, flags, at, size, link, info, align, entry) in zip(
            numbers, rows, strict=True
        ):
            in_memory = at if flags else 0
            length = size or len(names.data)
            headers += _SECTION.pack(
                number, kind, flags, in_memory, at, length, link, info, align, entry
            )
        return bytes(names.data), bytes(headers)


_CODE = 5
"""The number of the section that exported symbols are said to be in."""
