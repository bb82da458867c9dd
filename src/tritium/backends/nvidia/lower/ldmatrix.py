"""`ldmatrix` and `stmatrix`: a warp moves four 8x8 matrices at once (`ir.layouts.fragments`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.memory.access import distinct_registers
from tritium.codegen.llvm.writer import Value
from tritium.ir.layouts.encodings import LANE, REGISTER
from tritium.ir.layouts.fragments import Matrices, find
from tritium.ir.layouts.linear import LinearLayout


class WarpMatrices:
    """`ldmatrix`, and from sm_90 on `stmatrix`."""

    loads = True

    def __init__(self, *, stores: bool):
        self.stores = stores

    def find_load(
        self, place: LinearLayout, size: int, origin: int = 0, gaps: Any = ()
    ) -> Matrices | None:
        return None if origin or gaps else find(place, size)

    def find_store(self, place: LinearLayout, size: int) -> Matrices | None:
        return find(place, size) if self.stores else None

    def load(
        self, e: Emitter, tile: LinearLayout, place: LinearLayout, base: Value, element: str,
        how: Matrices,
    ) -> list[Value]:  # fmt: skip
        loaded: dict[int, Value] = {}
        firsts = _firsts(tile, how)
        for first, pointer in zip(firsts, _rows(e, place, base, element, how, firsts), strict=True):
            words = _load(e, pointer, 1 << len(how.which), how.trans)
            for number, word in enumerate(words):
                register = first | _bits(how.which, number)
                for index, part in enumerate(e.unpack([word], element)):
                    loaded[register | _bits(how.word, index)] = part
        return [loaded[r] for r in range(tile.in_size(REGISTER))]

    def store(
        self, e: Emitter, values: Sequence[Value], tile: LinearLayout, place: LinearLayout,
        base: Value, element: str, how: Matrices,
    ) -> None:  # fmt: skip
        firsts = _firsts(tile, how)
        for first, pointer in zip(firsts, _rows(e, place, base, element, how, firsts), strict=True):
            registers = [first | _bits(how.which, n) for n in range(1 << len(how.which))]
            inner = [_bits(how.word, index) for index in range(1 << len(how.word))]
            words = [e.pack([values[r | b] for b in inner], "i32")[0] for r in registers]
            _store(e, pointer, words, how.trans)


def _firsts(tile: LinearLayout, how: Matrices) -> list[int]:
    """The first register of each instruction."""
    inner = sum(1 << b for b in (*how.word, *how.which))
    return [r for r in distinct_registers(tile) if not r & inner]


def _rows(
    c: Emitter, place: LinearLayout, base: Value, element: str, how: Matrices, firsts: list[int]
) -> list[Value]:
    """For each instruction the row whose address this lane gives."""
    registers = place.columns_of(REGISTER)
    rows = (*how.rows, *(registers[b] for b in how.which))
    rows += (0,) * (5 - len(rows))
    addresses = LinearLayout(
        ((REGISTER, len(registers)), (LANE, 5), *place.in_dims[2:]), place.out_dims,
        (*registers, *rows, *[x for n in place.in_names[2:] for x in place.columns_of(n)]),
    )  # fmt: skip
    return c.pointers(base, addresses, firsts, element)


def _bits(places: Sequence[int], number: int) -> int:
    return sum(1 << place for i, place in enumerate(places) if number >> i & 1)


def _shape(count: int, trans: bool) -> str:
    return f"sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"


def _load(c: Emitter, pointer: Value, count: int, trans: bool) -> list[Value]:
    address, offset = c.immediate(pointer)
    outputs = ", ".join(f"${i}" for i in range(count))
    text = f"ldmatrix.{_shape(count, trans)} {{{outputs}}}, [${count}{offset}];"
    struct = "i32" if count == 1 else "{ " + ", ".join(["i32"] * count) + " }"
    constraints = ",".join([*["=r"] * count, "r", "~{memory}"])
    return c.members(c.asm(struct, text, constraints, address), ["i32"] * count)


def _store(c: Emitter, pointer: Value, words: list[Value], trans: bool) -> None:
    address, offset = c.immediate(pointer)
    inputs = ", ".join(f"${i + 1}" for i in range(len(words)))
    text = f"stmatrix.{_shape(len(words), trans)} [$0{offset}], {{{inputs}}};"
    c.asm("void", text, ",".join(["r"] * (len(words) + 1) + ["~{memory}"]), address, *words)
