"""Demand analysis: the registers of each tile that are used; the others are not computed.

A copy of 16 bytes takes the address of its first element. The addresses of the other seven, which
the tile of pointers also has, are dead from the loop's phis to the tile's first `tt.make_range`.
LLVM would find that too, but writing and removing them costs more than all other code of a matmul.

Demands go backwards, as masks (bit r is register r; -1 is all), around loops until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.codegen.gpu.context import register_count
from tritium.codegen.gpu.elementwise import first_of_equal, repeating_bits
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.gpu.memory.access import Facts, register_groups
from tritium.codegen.gpu.memory.async_copy import copy_groups
from tritium.codegen.gpu.shape import moved_registers
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ops import scf, ttgir, ttir
from tritium.ops.scf import is_counted
from tritium.ops.terminators import is_terminator

ALL = -1


class Demand:
    """Finds the masks of a function's values: `of`."""

    def __init__(self, axis_info: Facts, address_info: Facts, hardware: Hardware):
        self._hardware = hardware
        self._axis_info, self._facts = axis_info, (axis_info, address_info)
        self._masks: dict[SSAValue, int] = {}
        self._accesses: dict[Operation, list[int]] = {}
        self._sources: dict[Operation, Sequence[int] | None] = {}

    def of(self, value: SSAValue) -> int:
        """The mask of a value's registers that are used; 0 where nothing uses it."""
        return self._masks.get(value, 0)

    def find(self, blocks: Sequence[Block]) -> Demand:
        """Walk a function, whose blocks pass no tiles to each other; returns itself."""
        for block in reversed(blocks):
            self._block(block)
        return self

    def _need(self, value: SSAValue, mask: int) -> None:
        self._masks[value] = self._masks.get(value, 0) | mask

    def _block(self, block: Block) -> None:
        for op in reversed(ops_of(block)):
            self._op(op)

    def _op(self, op: Operation) -> None:
        if is_counted(op):
            self._loop(op)
            return
        if is_terminator(op) and is_counted(op.parent_op()):
            return  # by the loop
        for region in op.regions:
            for block in reversed(region.blocks):
                self._block(block)
        for value, mask in zip(op.operands, self._operands(op), strict=True):
            self._need(value, mask)

    def _loop(self, op: scf.ForOp) -> None:
        """Demand of loop-carried values: as results, or by the body in this or a later
        iteration."""
        end: Any = op.body.last_op
        carried = list(zip(op.results, op.body.args[1:], end.operands, op.inits, strict=True))
        while True:
            # Noted first: a body that yields one argument as another one changes both below.
            before = [self.of(argument) for _, argument, _, _ in carried]
            for result, argument, following, _ in carried:
                self._need(argument, self.of(result))
                self._need(following, self.of(argument))
            self._block(op.body)
            if before == [self.of(argument) for _, argument, _, _ in carried]:
                break
        for _, argument, _, init in carried:
            self._need(init, self.of(argument))
        for value in (op.lower, op.upper, op.step):
            self._need(value, ALL)

    def _operands(self, op: Any) -> list[int]:
        """The demand for an op's operands, given the demand for its results."""
        if isinstance(op, (ttir.ElementAccess, ttgir.ElementCopy)):
            if op not in self._accesses:
                self._accesses[op] = self._accessed(op)
            return self._accesses[op]
        if type(op) in self._hardware.elementwise:
            result = op.results[0]
            used = self.of(result)
            if used and (repeating := repeating_bits(self._axis_info, result)):
                used = first_of_equal(used, repeating, register_count(result.type))
            return [used if ir.shape_of(v.type) else ALL for v in op.operands]
        if op not in self._sources:
            self._sources[op] = moved_registers(op)
        if (source := self._sources[op]) is not None:
            used = self.of(op.results[0])
            return [sum({1 << s for r, s in enumerate(source) if used >> r & 1})]
        return [ALL] * len(op.operands)

    def _accessed(self, op: Any) -> list[int]:
        """The demand of an access to memory, whatever is used of its results: of addresses and
        masks, those of the first register of each group."""
        if isinstance(op, ttgir.ElementCopy):
            address, groups = op.pointers, copy_groups(*self._facts, op)
        elif ir.shape_of(op.ptr.type):
            address, groups = op.ptr, register_groups(*self._facts, op.ptr, op.mask)
        else:
            return [ALL] * len(op.operands)
        firsts = sum(1 << group[0] for group in groups)
        return [firsts if v is address or v is op.mask else ALL for v in op.operands]
