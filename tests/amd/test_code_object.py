"""Linking AMDGPU objects: `objects/gfx942.hsaco` is what LLVM's linker made of `gfx942.o`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from tritium.backends.amd.amdgcn import TRIPLE, machine
from tritium.native.code_object import LinkError, link

OBJECTS = Path(__file__).parent / "objects"


@dataclass
class Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    data: bytes


class Elf:
    """The parts of an ELF file."""

    def __init__(self, code: bytes):
        self.code = code
        self.head = code[:16] + code[48:52]
        segments, table, _, _, size, count, _, number, names = struct.unpack_from(
            "<QQIHHHHHH", code, 32
        )
        self.segments = [struct.unpack_from("<IIQQQQQQ", code, segments + i * size)
                         for i in range(count)]  # fmt: skip
        raw = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(number)]
        self.sections = [
            Section(self.text(raw[names][4] + r[0]), *r[1:7], code[r[4] : r[4] + r[5]])  # type: ignore
            for r in raw
        ]

    def text(self, at: int) -> str:
        return self.code[at : self.code.index(0, at)].decode()

    def section(self, name: str) -> Section:
        return next(s for s in self.sections if s.name == name)

    def symbols(self, table: str) -> dict[str, Any]:
        """By name: kind, visibility, section (one for all code), place in it, size. Without those
        of sections."""
        found, section = {}, self.section(table)
        names = self.sections[section.link].offset
        for at in range(24, section.size, 24):
            name, info, other, index, value, size = struct.unpack_from("<IBBHQQ", section.data, at)
            known = 0 < index < 0xFF00
            home = self.sections[index] if known else None
            if home and home.flags & 4:
                home = self.section(".text")
            if info & 15 != 3:
                place = value - (home.address if home else 0)
                found[self.text(names + name)] = (info, other, home and home.name, place, size)
        return found

    def at(self, address: int, size: int) -> bytes:
        """The bytes loaded at an address."""
        for kind, _, offset, start, _, filed, _, _ in self.segments:
            if kind == 1 and start <= address < start + filed:
                return self.code[offset + address - start : offset + address - start + size]
        raise AssertionError(hex(address))


def objects(text: str, arch: str = "gfx942") -> bytes:
    """The object of LLVM IR."""
    target = machine(arch)
    text = f'target triple = "{TRIPLE}"\n{text}'
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        return target.emit_object(module)


@pytest.fixture(scope="module")
def pair() -> tuple[Elf, Elf]:
    """Results of our linker and of LLVM's, for the same object."""
    ours = link((OBJECTS / "gfx942.o").read_bytes())
    return Elf(ours), Elf((OBJECTS / "gfx942.hsaco").read_bytes())


def test_same_as_llvms_linker(pair: tuple[Elf, Elf]) -> None:
    ours, theirs = pair
    assert ours.head == theirs.head
    assert ours.symbols(".dynsym") == theirs.symbols(".dynsym")
    assert set(ours.symbols(".dynsym")) == {"calls", "calls.kd"}
    expected = theirs.symbols(".symtab")
    expected.pop("_DYNAMIC")
    assert ours.symbols(".symtab") == expected
    for name in (".note", ".data.rel.ro", ".debug_line"):
        assert ours.section(name).data == theirs.section(name).data, name
    code, form = theirs.section(".text"), f"<{theirs.section('.text').size // 4}I"
    words = struct.unpack(form, ours.at(code.address, code.size))
    distances = {b - a for a, b in zip(words, struct.unpack(form, code.data), strict=True)}
    moved = theirs.section(".rodata").address - ours.section(".rodata").address
    assert distances == {0, moved}, "only the distance to constants differs"


def test_descriptor_refers_to_the_code(pair: tuple[Elf, Elf]) -> None:
    for elf in pair:
        descriptor = elf.section(".rodata").address + elf.symbols(".dynsym")["calls.kd"][3]
        (distance,) = struct.unpack("<q", elf.at(descriptor + 16, 8))
        code = elf.section(".text").address + elf.symbols(".dynsym")["calls"][3]
        assert descriptor + distance == code
    ours, theirs = ((e.at(e.section(".rodata").address, 64)) for e in pair)
    assert ours[:16] + ours[24:] == theirs[:16] + theirs[24:]


def test_symbols_are_found_by_hash(pair: tuple[Elf, Elf]) -> None:
    elf = pair[0]
    words = struct.unpack(f"<{elf.section('.hash').size // 4}I", elf.section(".hash").data)
    count = words[0]
    for number, name in enumerate(elf.symbols(".dynsym"), 1):
        value = 0
        for byte in name.encode():
            value = (value << 4) + byte
            high = value & 0xF0000000
            value = (value ^ high >> 24) & ~high
        at, seen = words[2 + value % count], []
        while at:
            seen.append(at)
            at = words[2 + count + at]
        assert number in seen


def test_segments_hold_their_sections(pair: tuple[Elf, Elf]) -> None:
    for elf in pair:
        loads = [s for s in elf.segments if s[0] == 1]
        assert [s[1] for s in loads] == [4, 5, 6]
        for before, after in pairwise(loads):
            assert (before[3] + before[6] - 1) // 4096 < after[3] // 4096
        for _, _, offset, address, _, filed, size, align in loads:
            assert offset % align == address % align and filed <= size
        for s in elf.sections:
            if s.flags & 2 and s.size and s.type != 8:
                rights = 4 | (s.flags & 1) << 1 | (s.flags & 4) >> 2
                (home,) = (g for g in loads if g[3] <= s.address < g[3] + g[6])
                assert home[1] == rights and s.offset - home[2] == s.address - home[3], s.name
        kinds = {6: (6, 4), 2: (2, 6), 4: (4, 4)}
        assert all((kind, rights) in [g[:2] for g in elf.segments]
                   for kind, rights in kinds.values())  # fmt: skip


KERNEL = "define amdgpu_kernel void @k(ptr addrspace(1) %p) {{ {0} ret void }} {1}"


@pytest.mark.parametrize(
    ("body", "more", "message"),
    [
        ("call void @missing()", "declare void @missing()", "undefined symbols: missing"),
        ("store i32 1, ptr addrspace(1) @g", "@g = addrspace(1) global i32 0", "relocation 8 of g"),
        ("", "@p = addrspace(1) global ptr addrspace(1) @g\n@g = addrspace(1) global i32 0",
         "relocation 3 of g in .data"),
    ],
)  # fmt: skip
def test_what_is_not_linked_is_named(body: str, more: str, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link(objects(KERNEL.format(body, "\n" + more)))


def test_memory_without_contents() -> None:
    text = "store i32 1, ptr addrspace(1) @g"
    more = "@g = internal addrspace(1) global [4096 x i32] zeroinitializer"
    elf = Elf(link(objects(KERNEL.format(text, "\n" + more))))
    section, data = elf.section(".bss"), [s for s in elf.segments if s[0] == 1][-1]
    assert section.size == 1 << 14
    assert data[3] <= section.address and section.address + section.size <= data[3] + data[6]
    assert section.address >= data[3] + data[5], "what the file holds comes before"


def test_other_files_are_refused() -> None:
    for code in (b"", b"\x7fELF" + bytes(60), bytes(100)):
        with pytest.raises(LinkError, match="no ELF object"):
            link(code)
    linked = link((OBJECTS / "gfx942.o").read_bytes())
    with pytest.raises(LinkError, match="no relocatable AMDGPU object"):
        link(linked)
