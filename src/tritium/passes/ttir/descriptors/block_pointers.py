"""Block pointers that meet others, or go through `while`, branches and calls, are passed in parts.

before:
    %p = scf.if %c -> (!tt.ptr<tensor<64xf32>>) { yield %a } else { yield %b }
after (%a was made of %x, [%n], [%s], [%i]):
    %r:4 = scf.if %c -> (!tt.ptr<f32>, i64, i64, i32) { yield %x, %n, %s, %i } else { ... }
    %p = tt.make_tensor_ptr %r#0, [%r#1], [%r#2], [%r#3]

One that only `for` loops carry needs its offsets alone there (`tensor_pointers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AddIOp
from tritium.ops.base import Op
from tritium.ops.scf import is_counted
from tritium.ops.ttir.memory import AdvanceOp, MakeTensorPtrOp
from tritium.passes.rewriting import Builder
from tritium.passes.ttir.descriptors.flow import flow
from tritium.passes.ttir.descriptors.parts import Splitter


def split_block_pointers(module: ModuleOp) -> None:
    """Take apart the block pointers of a module that are passed on by more than `for` loops."""
    _BlockPointers(module).run(module)


def _is_block_pointer(value: SSAValue) -> bool:
    return ir.is_block_pointer(value.type)


def _passes_on(op: Operation) -> bool:
    """True if the op hands values on unchanged: all branches, calls and choices but `for`."""
    if not isinstance(op, Op) or is_counted(op):
        return False
    return op.is_call or any(op.forwarded_values())


class _BlockPointers(Splitter):
    def __init__(self, module: ModuleOp):
        super().__init__()
        for source, target in flow(module, _is_block_pointer):
            self.groups.join(source, target)
        made: list[SSAValue] = []
        mixed: list[SSAValue] = []
        for op in module.walk():
            if isinstance(op, AdvanceOp):
                self.groups.join(op.ptr, op.result)
            elif isinstance(op, MakeTensorPtrOp):
                made.append(op.result)
            elif _passes_on(op):
                mixed += filter(_is_block_pointer, (*op.operands, *op.results))
        makers = Counter(map(self.groups.find, made))
        self._split = {self.groups.find(value) for value in mixed}
        self._split |= {group for group, count in makers.items() if count > 1}
        self._order = {
            self.groups.find(op.result): op.order
            for op in module.walk() if isinstance(op, MakeTensorPtrOp)
        }  # fmt: skip

    def is_split(self, value: SSAValue) -> bool:
        return _is_block_pointer(value) and self.groups.find(value) in self._split

    def kinds(self, value: SSAValue) -> list[ir.Type]:
        tile: Any = value.type
        rank = len(tile.pointee.get_shape())
        pointer = ir.pointer_to(tile.pointee.element_type)
        return [pointer, *[ir.i64] * rank, *[ir.i64] * rank, *[ir.i32] * rank]

    def parts(self, value: SSAValue) -> list[SSAValue]:
        op = value.owner
        if isinstance(op, MakeTensorPtrOp):
            return [op.base, *op.shape, *op.strides, *op.offsets]
        assert isinstance(op, AdvanceOp), value
        parts, at = self.parts(op.ptr), Builder(op)
        start = len(parts) - len(op.offsets)
        for index, step in enumerate(op.offsets, start):
            parts[index] = at.value(AddIOp, parts[index], step)
        return parts

    def build(self, parts: Sequence[SSAValue], old: SSAValue) -> Op:
        rank = (len(parts) - 1) // 3
        shape, strides, offsets = (parts[1 + k * rank : 1 + (k + 1) * rank] for k in range(3))
        return MakeTensorPtrOp.build(
            parts[0], shape, strides, offsets,
            result=old.type, order=self._order[self.groups.find(old)],
        )  # fmt: skip
