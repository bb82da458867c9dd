"""Reads of shared memory that turn small matrices on the way (`ir.layouts.fragments`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import NoMatrixMoves, SharedMemory
from tritium.codegen.gpu.memory.access import distinct_registers, with_copies
from tritium.codegen.gpu.memory.shared import Gaps, shared_pointers
from tritium.codegen.llvm.writer import Value, mangle
from tritium.ir.layouts.fragments import turned_addresses, turned_rows
from tritium.ir.layouts.linear import LinearLayout


class Turned(NamedTuple):
    """The register bits of rows, and what moves addresses (see `find_load`)."""

    rows: tuple[int, int]
    origin: int
    gaps: Gaps


class TurnedReads(NoMatrixMoves):
    """Reads of four elements of 16 bits a lane by an intrinsic, whose name the type ends; none
    where there is no name."""

    def __init__(self, intrinsic: str, shared: SharedMemory):
        self._intrinsic, self._shared = intrinsic, shared

    def find_load(
        self, place: LinearLayout, size: int, origin: int = 0, gaps: Any = ()
    ) -> Turned | None:
        moved = origin
        for pair in gaps:
            moved |= pair[0] | pair[1]
        rows = turned_rows(place, size, moved) if self._intrinsic else None
        return None if rows is None else Turned(rows, origin, gaps)

    def load(
        self, e: Emitter, tile: LinearLayout, place: LinearLayout, base: Value, element: str,
        how: Turned,
    ) -> list[Value]:  # fmt: skip
        inner = sum(1 << bit for bit in how.rows)
        firsts = [r for r in distinct_registers(tile) if not r & inner]
        addresses = turned_addresses(place, how.rows)
        pointers = shared_pointers(e, base, addresses, firsts, element, how.origin, how.gaps)
        loaded: dict[int, Value] = {}
        column, metadata = f"<4 x {element}>", self._shared.read_metadata(e)
        name = f"llvm.{self._intrinsic}.{mangle(column)}"
        for first, pointer in zip(firsts, pointers, strict=True):
            found = e.f.call(column, name, pointer, suffix=metadata)
            for number in range(4):
                register = first | (number & 1) << how.rows[0] | (number >> 1) << how.rows[1]
                loaded[register] = e.f.extract(found, number)
        return with_copies(tile, loaded)
