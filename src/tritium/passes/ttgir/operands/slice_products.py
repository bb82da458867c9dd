"""Multiply slices along K one after another in loops short of registers.

before (the loop carries the sums and the next tiles, and each operand is read, then converted):
    scf.for ... {
      %v = ttg.local_load %m : !ttg.memdesc<128x128xf8E5M2, ...> -> tensor<128x128xf8E5M2, #dot_op>
      %a = tt.fp_to_fp %v : ... -> tensor<128x128xf16, #dot_op>
      ... the same for %b
      %d = tt.dot %a, %b, %c
    }
after, for each slice:
      %s = ttg.memdesc_subslice %m[0, 16] : ... -> !ttg.memdesc<128x16xf8E5M2, ..., 128x128>
      %v = ttg.local_load %s
      %a = tt.fp_to_fp %v
      ... the same for %b
      %d = tt.dot %a, %b, %c : tensor<128x16xf16, #dot_op> * ...
      rocdl.sched.barrier none

LLVM reads the next operands while it multiplies, up to all registers by its count, and spills where
it cannot place them as it has counted. With a slice's reads kept behind the products before, a
thread holds the operands of one slice; other waves multiply meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.loops import innermost_loops
from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import MatrixEncoding
from tritium.ops.base import Op
from tritium.ops.elementwise import CastOp
from tritium.ops.scf import ForOp
from tritium.ops.ttgir import MemDescSubsliceOp, SchedBarrierOp, memdesc_of
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_before, recreate
from tritium.passes.ttgir.layout_propagation import num_warps_of, processor_of
from tritium.passes.ttgir.operands.reload_operands import SPARE, registers_of


@dataclass(frozen=True)
class SliceProducts(Pass):
    """Multiply slices along K one after another in loops short of registers."""

    name: ClassVar[str] = "slice-products"

    def run(self, module: ModuleOp) -> bool:
        processor, changed = processor_of(module), False
        threads = num_warps_of(module) * processor.lanes
        budget = min(processor.registers[1], processor.registers[0] // threads) - SPARE
        for function in functions(module):
            for loop in innermost_loops(function):
                for op in [op for op in loop.body.ops if isinstance(op, MatrixProduct)]:
                    if _needed(op, loop) > budget:
                        _slice(op)
                        changed = True
        return changed


def _needed(op: MatrixProduct, loop: ForOp) -> int:
    """The registers of a loop's tiles while a product multiplies, 0 for one that is not sliced:
    those of what the loop carries, of the larger operand's part that is multiplied, and of the
    parts of both that are read meanwhile, where they are converted then."""
    step, chains = _step(op), [_chain(v, op) for v in (op.a, op.b)]
    if step == op.k or not all(chains):
        return 0
    read = sum(registers_of(chain[0].results[0]) for chain in chains if len(chain) > 1)
    parts = (max(map(registers_of, (op.a, op.b))) + read) * step // op.k
    return sum(map(registers_of, loop.body.args)) + parts


def _step(op: MatrixProduct) -> int:
    """The extent along K of an instruction's operands, as threads have them; all of K where that is
    not known to be less."""
    result: Any = op.results[0].type
    parent: Any = ir.encoding_of(result)
    if not isinstance(parent, MatrixEncoding) or len(ir.shape_of(result)) != 2:
        return op.k
    step: int = parent.get("instrShape")[-1]
    for index, value in enumerate((op.a, op.b)):
        encoding: Any = ir.encoding_of(value.type)
        width = encoding.get("kWidth")
        step = max(step, parent.operand_part(index == 0, "k", "outer", width).out_size("k"))
    return step if op.k % step == 0 else op.k


def _chain(value: SSAValue, user: Operation) -> list[Op]:
    """The read of an operand from shared memory and its conversions, in the block of the op that
    alone uses them; none if it is another operand."""
    owner = value.owner
    if not isinstance(owner, Op) or owner.parent is not user.parent or not value.has_one_use():
        return []
    if owner.tile_memory is not None:
        return [owner]
    before = _chain(owner.operands[0], owner) if isinstance(owner, CastOp) else []
    return [*before, owner] if before else []


def _slice(op: MatrixProduct) -> None:
    at, step, total = Builder(op), _step(op), op.c
    operands = {op.a: (_chain(op.a, op), 1), op.b: (_chain(op.b, op), 0)}
    for start in range(0, op.k, step):
        parts = {v: _part(at, *found, start, step) for v, found in operands.items()}
        total = at.copy(op, {**parts, op.c: total}).results[0]
        at.make(SchedBarrierOp, mask=0)
    op.results[0].replace_all_uses_with(total)
    for former in (op, *(o for chain, _ in operands.values() for o in reversed(chain))):
        erase(former)


def _part(at: Builder, chain: list[Op], axis: int, start: int, step: int) -> SSAValue:
    """The result of a chain for `step` elements along an axis."""
    memory: Any = chain[0].operands[0].type
    shape, offsets = list(memory.get_shape()), [0, 0]
    shape[axis], offsets[axis] = step, start
    part = memdesc_of(
        tuple(shape), memory.element_type, memory.encoding, memory.mutable,
        tuple(memory.allocation_shape()), memory.memory_space,
    )  # fmt: skip
    found = at.value(MemDescSubsliceOp, chain[0].operands[0], offsets=tuple(offsets), result=part)
    for former in chain:
        kind: Any = former.results[0].type
        kind = ir.tensor_of(tuple(shape), ir.element_type(kind), ir.encoding_of(kind))
        operation = recreate(former, [found], [kind])
        operation.detach()
        insert_before(at.before, operation)
        found = operation.results[0]
    return found
