"""Put the computed operands of products without tensor cores into shared memory.

before:
    %1 = ttg.convert_layout %0 : tensor<128x64xf32, #blocked> -> tensor<128x64xf32, #dot_op>
    %d = tt.dot %1, %b, %c : ... -> tensor<128x128xf32, #blocked1>
after:
    %m = ttg.local_alloc %0 : (...) -> !ttg.memdesc<128x64xf32, #swizzled_shared, #smem>
    %1 = ttg.local_load %m : ... -> tensor<128x64xf32, #dot_op>
    %d = tt.dot %1, %b, %c : ... -> tensor<128x128xf32, #blocked1>

A thread needs whole rows of a and columns of b, more than its registers hold. From memory that
stays as it is, lowering reads them a part at a time; the scratch of a change of layout does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.regions import functions
from tritium.analysis.shared_memory import allocates_memory
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, BlockedEncoding, linear
from tritium.ops.base import Op, changes_layout
from tritium.ops.ttgir import LocalAllocOp, LocalLoadOp, memdesc_of
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.passes.ttgir.layout_propagation import processor_of
from tritium.passes.ttgir.pipeline import operand_encoding
from tritium.target import Processor

FITS = 64
"""Elements a thread of both operands together that stay in registers."""


@dataclass(frozen=True)
class StageOperands(Pass):
    """Put the computed operands of products without tensor cores into shared memory."""

    name: ClassVar[str] = "stage-operands"
    title: ClassVar[str] = "TritonGPUStageOperands"

    def run(self, module: ModuleOp) -> bool:
        changed, processor = False, processor_of(module)
        for function in functions(module):
            for op in [op for op in function.walk() if isinstance(op, MatrixProduct)]:
                if _is_large(op):
                    changed |= _stage(op, processor)
        return changed


def _is_large(op: MatrixProduct) -> bool:
    encoding = ir.encoding_of(op.results[0].type)
    if not isinstance(encoding, BlockedEncoding) or encoding.get("CGALayout"):
        return False
    kinds = op.a.type, op.b.type
    return sum(linear(ir.encoding_of(t), ir.shape_of(t)).in_size(REGISTER) for t in kinds) > FITS


def _stage(op: MatrixProduct, processor: Processor) -> bool:
    """All is stored before anything is loaded, so that threads synchronize once, and not
    between the loads and the product."""
    if not any(changes_layout(v.owner) for v in (op.a, op.b)):
        return False
    at, memories = Builder(op), dict[int, SSAValue]()
    for number, value in enumerate((op.a, op.b)):
        owner: Any = value.owner
        if changes_layout(owner):
            source = owner.operands[0]
            kind: Any = source.type
            shape, element = ir.shape_of(kind), ir.element_type(kind)
            type = memdesc_of(shape, element, operand_encoding(kind, processor), False)
            memories[number] = at.value(LocalAllocOp, source, result=type)
        elif isinstance(owner, LocalLoadOp) and _can_be_later(owner, op):
            memories[number] = owner.src
    for number, memory in memories.items():
        former = op.operands[number]
        op.operands[number] = at.value(LocalLoadOp, memory, None, result=former.type)
        op.operands[number].name_hint = former.name_hint
        if former.first_use is None:
            erase(former.owner)
    return True


def _can_be_later(load: Operation, op: Operation) -> bool:
    """True if nothing between the load and the product, which alone uses it, writes memory that
    was there before."""
    if not load.results[0].has_one_use() or load.parent is not op.parent:
        return False
    between = takewhile(lambda o: o is not op, _following(load))
    return all(allocates_memory(o) or _only_reads(o) for o in between)


def _only_reads(op: Operation) -> bool:
    return isinstance(op, Op) and op.only_reads


def _following(op: Operation) -> Iterator[Operation]:
    while (following := op.next_op) is not None:
        yield following
        op = following
