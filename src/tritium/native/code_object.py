"""Links one relocatable AMDGPU object of LLVM into a code object, which the HIP runtime loads.

The code object is a shared ELF object (LLVM, "User Guide for AMDGPU Backend", ELF code objects):
notes, the dynamic symbols (each kernel, and its descriptor `NAME.kd`) and constants are in
a read-only segment, code in a second one, written data in a third. An object that refers to
symbols of others is refused, as is one that needs a table of addresses.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_PAGE = 0x1000
_AMDGPU, _RELOCATABLE, _SHARED = 224, 1, 3
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _HASH, _DYNAMIC, _NOTE, _NOBITS, _DYNSYM = (
    1, 2, 3, 4, 5, 6, 7, 8, 11,
)  # fmt: skip
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_LOAD, _SEGMENT_DYNAMIC, _SEGMENT_NOTE, _PHDR, _STACK = 1, 2, 4, 6, 0x6474E551
_MASK = (1 << 32) - 1

_RELOCATIONS: dict[int, tuple[str, Callable[[int, int], int]]] = {
    1: ("<I", lambda target, place: target & _MASK),
    2: ("<I", lambda target, place: target >> 32 & _MASK),
    4: ("<I", lambda target, place: (target - place) & _MASK),
    5: ("<q", lambda target, place: target - place),
    6: ("<I", lambda target, place: target & _MASK),
    10: ("<I", lambda target, place: (target - place) & _MASK),
    11: ("<I", lambda target, place: (target - place) >> 32 & _MASK),
    14: ("<h", lambda target, place: (target - place - 4) // 4),
}
"""The relocations by number: the field's form, and its value for the symbol's address with the
addend, and the place's address. 3, an absolute address of 64 bits, is taken where nothing is
loaded."""
_ABSOLUTE_ADDRESS = 3


class LinkError(Exception):
    """An object that this linker does not link; the message says why."""


@dataclass
class _Section:
    name: str
    type: int
    flags: int
    data: bytearray
    align: int
    size: int
    info: int = 0
    link: str = ""
    entry: int = 0
    address: int = 0
    offset: int = 0


@dataclass
class _Symbol:
    name: str
    info: int
    other: int
    section: _Section | None
    index: int
    value: int
    size: int

    @property
    def exported(self) -> bool:
        """Global or weak, and neither internal nor hidden."""
        return self.info >> 4 != 0 and self.other & 3 in (0, 3) and self.index != _UNDEFINED

    @property
    def address(self) -> int:
        return self.value + (self.section.address if self.section else 0)


@dataclass
class _Object:
    identification: bytes
    flags: int
    sections: list[_Section] = field(default_factory=list[_Section])
    symbols: list[_Symbol] = field(default_factory=list[_Symbol])
    relocations: list[tuple[_Section, int, int, _Symbol, int]] = field(
        default_factory=list[tuple[_Section, int, int, _Symbol, int]]
    )


def link(code: bytes) -> bytes:
    """The code object of an object file. Raises `LinkError`."""
    parsed = _parse(code)
    exported = [s for s in parsed.symbols if s.exported]
    undefined = [s.name for s in parsed.symbols if s.index == _UNDEFINED and s.name]
    if undefined:
        raise LinkError(f"undefined symbols: {', '.join(undefined)}")
    loaded = [s for s in parsed.sections if s.flags & _ALLOC]
    dynamic = _dynamic_sections(exported)
    names = ("note", "hash", "dynsym", "dynstr")
    notes = [s for s in loaded if s.type == _NOTE]
    constants = [s for s in loaded if not s.flags & (_WRITE | _EXEC) and s.type != _NOTE]
    groups = [
        [*notes, *(dynamic[name] for name in names[1:]), *constants],
        [s for s in loaded if s.flags & _EXEC],
        [*(s for s in loaded if s.flags & _WRITE), dynamic["dynamic"]],
    ]
    end = _place(groups, _HEADER.size + _SEGMENT.size * (len(groups) + 5))
    _relocate(parsed)
    kept = [s for s in parsed.sections if not s.flags & _ALLOC and s.size]
    sections = [s for group in groups for s in group] + kept
    symbols, strings = _symbol_table(
        sorted(parsed.symbols[1:], key=lambda s: s.info >> 4 != 0), sections, ".symtab", ".strtab"
    )
    sections += [symbols, strings]
    own, _ = _symbol_table(exported, sections, ".dynsym", ".dynstr")
    dynamic["dynsym"].data[:] = own.data
    _fill_dynamic(dynamic)
    return _write(parsed, groups, notes, dynamic["dynamic"], sections, end)


def link_with(program: str, code: bytes) -> bytes:
    """The code object that LLVM's linker, a program, makes of an object. Raises `RuntimeError`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(code)
        # Programs that link for several systems, lld and rust-lld, have to be told for which.
        flavor = [] if Path(program).name.startswith("ld.lld") else ["-flavor", "gnu"]
        command = [program, *flavor, "-shared", str(source), "-o", str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "")
            raise RuntimeError(f"TRITON_HIP_LLD_PATH: {error}\n{said}") from error
        return target.read_bytes()


def _parse(code: bytes) -> _Object:
    if len(code) < _HEADER.size or code[:6] != b"\x7fELF\x02\x01":
        raise LinkError("this is no ELF object of 64 bits")
    head: tuple[Any, ...] = _HEADER.unpack_from(code)
    identification, kind, machine, _, _, _, start, flags, _, _, _, _, count, names = head
    if (kind, machine) != (_RELOCATABLE, _AMDGPU):
        raise LinkError("this is no relocatable AMDGPU object")
    table_end = int(start) + int(count) * _SECTION.size
    headers: list[tuple[int, ...]] = list(_SECTION.iter_unpack(code[start:table_end]))
    section_names = headers[int(names)][4]
    found, kept = _Object(identification, flags), dict[int, _Section]()
    for index, (name, type, bits, _, offset, size, _, _, align, entry) in enumerate(headers):
        text = _string(code, section_names + name)
        if type in (_PROGBITS, _NOTE, _NOBITS) and text != ".note.GNU-stack":
            data = bytearray() if type == _NOBITS else bytearray(code[offset : offset + size])
            kept[index] = _Section(text, type, bits, data, max(align, 1), size, entry=entry)
    found.sections = list(kept.values())
    tables = [h for h in headers if h[1] == _SYMTAB]
    if not tables:
        raise LinkError("the object has no symbols")
    table, strings = tables[0], int(headers[tables[0][6]][4])
    for at in range(table[4], table[4] + table[5], _SYMBOL.size):
        name, info, other, index, value, size = _SYMBOL.unpack_from(code, at)
        found.symbols.append(_Symbol(
            _string(code, strings + name), info, other, kept.get(index), index, value, size
        ))  # fmt: skip
    for header in headers:
        target = kept.get(header[7]) if header[1] == _RELA else None
        if target is not None:
            for entry in _RELOCATION.iter_unpack(code[header[4] : header[4] + header[5]]):
                place, info, addend = map(int, entry)
                symbol = found.symbols[info >> 32]
                found.relocations.append((target, place, info & _MASK, symbol, addend))
    return found


def _string(code: bytes, at: int) -> str:
    return code[at : code.index(0, at)].decode()


def _hash(name: str) -> int:
    """The hash of a symbol's name (System V ABI, chapter 5)."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _dynamic_sections(exported: Sequence[_Symbol]) -> dict[str, _Section]:
    """The sections for the runtime: symbols, names, hash table, and where these are."""
    count = len(exported) + 1
    buckets, chain = [0] * count, [0] * count
    for number, symbol in enumerate(exported, 1):
        bucket = _hash(symbol.name) % count
        chain[number], buckets[bucket] = buckets[bucket], number
    table = struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chain)
    names = b"\0" + b"".join(s.name.encode() + b"\0" for s in exported)
    size = _SYMBOL.size * count

    def make(
        name: str, type: int, flags: int, data: bytes, align: int, link: str, entry: int
    ) -> _Section:
        return _Section(
            name, type, flags, bytearray(data), align, len(data), link=link, entry=entry
        )

    return {
        "dynsym": make(".dynsym", _DYNSYM, _ALLOC, bytes(size), 8, ".dynstr", _SYMBOL.size),
        "dynstr": make(".dynstr", _STRTAB, _ALLOC, names, 1, "", 0),
        "hash": make(".hash", _HASH, _ALLOC, table, 4, ".dynsym", 4),
        "dynamic": make(".dynamic", _DYNAMIC, _WRITE | _ALLOC, bytes(6 * 16), 8, ".dynstr", 16),
    }


def _fill_dynamic(sections: dict[str, _Section]) -> None:
    entries = (
        (6, sections["dynsym"].address), (11, _SYMBOL.size), (5, sections["dynstr"].address),
        (10, sections["dynstr"].size), (4, sections["hash"].address), (0, 0),
    )  # fmt: skip
    sections["dynamic"].data[:] = b"".join(struct.pack("<QQ", *entry) for entry in entries)


def _place(groups: Sequence[Sequence[_Section]], start: int) -> int:
    """Give sections their places in the file and in memory, each group on pages of its own.
    Returns the end in the file."""
    offset = address = start
    for number, group in enumerate(groups):
        address += _PAGE if number else 0
        for section in sorted(group, key=lambda s: s.type == _NOBITS):
            aligned = -(-address // section.align) * section.align
            if section.type != _NOBITS:
                offset += aligned - address
            section.address, section.offset = aligned, offset
            address = aligned + section.size
            offset += len(section.data)
        address += (offset - address) % _PAGE
    return offset


def _relocate(parsed: _Object) -> None:
    for section, place, kind, symbol, addend in parsed.relocations:
        target, address = symbol.address + addend, section.address + place
        if kind == _ABSOLUTE_ADDRESS and not section.flags & _ALLOC:
            struct.pack_into("<q", section.data, place, target)
        elif kind in _RELOCATIONS:
            form, value = _RELOCATIONS[kind]
            struct.pack_into(form, section.data, place, value(target, address))
        else:
            raise LinkError(f"relocation {kind} of {symbol.name or 'a section'} in {section.name}")


def _symbol_table(
    symbols: Sequence[_Symbol], sections: Sequence[_Section], name: str, strings: str
) -> tuple[_Section, _Section]:
    """A table of symbols, local ones first, and the section of their names."""
    numbers = {id(s): i for i, s in enumerate(sections, 1)}
    data, names = bytearray(_SYMBOL.size), bytearray(1)
    local = 1 + sum(s.info >> 4 == 0 for s in symbols)
    for symbol in symbols:
        index = numbers.get(id(symbol.section), symbol.index)
        if symbol.section is None and symbol.index != _ABSOLUTE:
            index = _ABSOLUTE
        at = len(names) if symbol.name else 0
        data += _SYMBOL.pack(at, symbol.info, symbol.other, index, symbol.address, symbol.size)
        names += symbol.name.encode() + b"\0" if symbol.name else b""
    table = _Section(name, _SYMTAB, 0, data, 8, len(data), local, strings, _SYMBOL.size)
    return table, _Section(strings, _STRTAB, 0, names, 1, len(names))


def _write(
    parsed: _Object, groups: Sequence[Sequence[_Section]], notes: Sequence[_Section],
    dynamic: _Section, sections: list[_Section], end: int,
) -> bytes:  # fmt: skip
    names = _Section(".shstrtab", _STRTAB, 0, bytearray(1), 1, 0)
    sections = [*sections, names]
    starts: list[int] = []
    for section in sections:
        starts.append(len(names.data))
        names.data += section.name.encode() + b"\0"
    names.size = len(names.data)
    for section in sections:
        if not section.flags & _ALLOC:
            section.offset = end = -(-end // section.align) * section.align
            end += len(section.data)
    table = -(-end // 8) * 8
    segments = _segments(groups, notes, dynamic)
    numbers = {s.name: i for i, s in enumerate(sections, 1)}
    out = bytearray(table)
    _HEADER.pack_into(
        out, 0, parsed.identification, _SHARED, _AMDGPU, 1, 0, _HEADER.size, table, parsed.flags,
        _HEADER.size, _SEGMENT.size, len(segments), _SECTION.size, len(sections) + 1, len(sections),
    )  # fmt: skip
    for i, segment in enumerate(segments):
        _SEGMENT.pack_into(out, _HEADER.size + i * _SEGMENT.size, *segment)
    out += bytes(_SECTION.size)
    for start, s in zip(starts, sections, strict=True):
        out[s.offset : s.offset + len(s.data)] = s.data
        info = 1 if s.type == _DYNSYM else s.info
        out += _SECTION.pack(
            start, s.type, s.flags, s.address, s.offset, s.size, numbers.get(s.link, 0), info,
            s.align, s.entry,
        )  # fmt: skip
    return bytes(out)


def _segments(
    groups: Sequence[Sequence[_Section]], notes: Sequence[_Section], dynamic: _Section
) -> list[tuple[int, ...]]:
    """The program headers: (type, flags, offset, address, address, file bytes, bytes, align)."""
    rights = (4, 5, 6)
    found: list[tuple[int, ...]] = []
    for group, flags in zip(groups, rights, strict=True):
        if not group:
            continue
        first = min(group, key=lambda s: s.address)
        last = max(group, key=lambda s: s.address + s.size)
        filed = max(s.offset + len(s.data) for s in group) - first.offset
        span = last.address + last.size - first.address
        offset, address = first.offset, first.address
        if group is groups[0]:  # with the headers in front
            filed, span, offset, address = filed + offset, span + address, 0, 0
        found.append((_LOAD, flags, offset, address, address, filed, span, _PAGE))
    place = dynamic.offset, dynamic.address, dynamic.address, dynamic.size, dynamic.size
    found.append((_SEGMENT_DYNAMIC, 6, *place, 8))
    for s in notes:
        found.append((_SEGMENT_NOTE, 4, s.offset, s.address, s.address, s.size, s.size, 4))
    found.append((_STACK, 6, 0, 0, 0, 0, 0, 0))
    size = _SEGMENT.size * (len(found) + 1)
    return [(_PHDR, 4, _HEADER.size, _HEADER.size, _HEADER.size, size, size, 8), *found]


_COUNTS = {"n_regs": ".vgpr_count", "n_spills": ".vgpr_spill_count",
           "scratch_bytes": ".private_segment_fixed_size"}  # fmt: skip


def resources(code: bytes) -> dict[str, int]:
    """Registers of a thread, those spilled, and bytes of scratch memory, from the notes of an
    object, a map in MessagePack."""
    return {name: _number_behind(code, key) for name, key in _COUNTS.items()}


def _number_behind(notes: bytes, key: str) -> int:
    place = notes.rindex(bytes([0xA0 | len(key)]) + key.encode()) + 1 + len(key)
    first = notes[place]
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(first, 0)
    return int.from_bytes(notes[place + 1 : place + 1 + size], "big") if size else first
