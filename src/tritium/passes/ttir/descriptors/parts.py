"""Descriptors that are to be plain addresses go through loops, branches and calls in parts.

before:
    %r = scf.for ... iter_args(%d = %d0) -> (!tt.tensordesc<tensor<64xf32>>) { ... yield %e }
after (%d0 was made of %a, [%n], [%s]):
    %r:3 = scf.for ... iter_args(%b = %a, %m = %n, %t = %s) -> (!tt.ptr<f32>, i32, i64) {
      %d = tt.make_tensor_descriptor %b, [%m], [%t]
      ...
      yield the parts of %e
    }

Then each of them is the result of a `tt.make_tensor_descriptor` in the function that uses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.source_errors import unsupported_at
from tritium.ops.base import Op
from tritium.ops.declared import SEGMENTS
from tritium.ops.fields import i32_array
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.descriptor import MakeTensorDescOp, block_of
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.memory import PaddingOption
from tritium.passes.rewriting import Builder, erase, insert_before, recreate
from tritium.passes.ttir.descriptors.flow import (
    Groups,
    flow,
    is_descriptor,
    made_descriptors,
    maker_of,
)


def split_descriptors(module: ModuleOp, kept: set[SSAValue]) -> None:
    """Take apart all descriptors but `kept` that are passed on. Those that kernels take must have
    been replaced. Raises `NotImplementedError` where such with different padding meet."""
    _Descriptors(module, kept).run(module)


class Splitter(ABC):
    """Passes some values on in parts. Subclasses say which, what their parts are, and how they are
    made of them."""

    def __init__(self) -> None:
        self.groups = Groups()

    @abstractmethod
    def is_split(self, value: SSAValue) -> bool:
        """True if a value is passed on in parts."""

    @abstractmethod
    def kinds(self, value: SSAValue) -> list[ir.Type]:
        """The types of a value's parts."""

    @abstractmethod
    def parts(self, value: SSAValue) -> list[SSAValue]:
        """The parts of a value that was made of them."""

    @abstractmethod
    def build(self, parts: Sequence[SSAValue], old: SSAValue) -> Op:
        """The op that makes a value of its parts, in place of another."""

    def run(self, module: ModuleOp) -> None:
        """Rewrite a module. First all such values that blocks take and ops give are made there of
        their parts, so that the operands that are passed have such."""
        for op in list(module.walk()):
            for region in op.regions:
                for block in region.blocks:
                    self._block(block, op)
        passing: list[Operation] = []
        for op in list(module.walk()):
            if isinstance(op, Op) and op.chooses and self.is_split(op.result):
                self._select(op)
            elif _hands_on(op):
                passing.append(self._results(op))
            elif is_terminator(op):
                passing.append(op)
        for op in passing:
            self._operands(op)
        for function in functions(module):
            function.update_type()

    def _made(self, parts: Sequence[SSAValue], old: SSAValue) -> Op:
        made = self.build(parts, old)
        made.result.name_hint = old.name_hint
        old.replace_all_uses_with(made.result)
        self.groups.join(made.result, old)
        return made

    def _block(self, block: Block, owner: Operation) -> None:
        split = [a for a in block.args if self.is_split(a)]
        for argument in split:
            index = argument.index
            parts = [
                block.insert_arg(kind, index + 1 + i) for i, kind in enumerate(self.kinds(argument))
            ]
            made = self._made(parts, argument)
            assert block.first_op is not None
            insert_before(block.first_op, made)
            block.erase_arg(argument)
            if isinstance(owner, FuncOp) and owner.arg_attrs:
                attributes = list(owner.arg_attrs)
                attributes[index : index + 1] = [{}] * len(parts)
                owner.set_arg_attrs(attributes)

    def _results(self, op: Op) -> Operation:
        """The op with its results in parts; its operands stay."""
        if not any(self.is_split(r) for r in op.results):
            return op
        kinds = [self.kinds(r) if self.is_split(r) else [r.type] for r in op.results]
        new = recreate(op, op.operands, [k for group in kinds for k in group])
        start = 0
        for old, group in zip(op.results, kinds, strict=True):
            parts = new.results[start : start + len(group)]
            start += len(group)
            if self.is_split(old):
                insert_before(op, self._made(parts, old))
            else:
                parts[0].name_hint = old.name_hint
                old.replace_all_uses_with(parts[0])
        erase(op)
        return new

    def _select(self, op: Op) -> None:
        at, (condition, first, second) = Builder(op), op.operands
        chosen = [
            at.chosen(condition, yes, no)
            for yes, no in zip(self.parts(first), self.parts(second), strict=True)
        ]
        insert_before(op, self._made(chosen, op.result))
        erase(op)

    def _operands(self, op: Any) -> None:
        if not any(self.is_split(v) for v in op.operands):
            return
        groups: list[list[SSAValue]] = []
        for group in op.operand_groups():
            groups.append([])
            for value in group:
                groups[-1] += self.parts(value) if self.is_split(value) else [value]
        op.operands = [value for group in groups for value in group]
        if SEGMENTS in op.properties:
            op.properties[SEGMENTS] = i32_array(tuple(map(len, groups)))


def _hands_on(op: Operation) -> TypeGuard[Op]:
    """True if an op hands values into and out of its regions, or of another function."""
    return isinstance(op, Op) and (op.is_call or op.controls)


class _Descriptors(Splitter):
    def __init__(self, module: ModuleOp, kept: set[SSAValue]):
        super().__init__()
        self._kept = kept
        for source, target in flow(module):
            self.groups.join(source, target)
        self._padding: dict[SSAValue, PaddingOption] = {}
        for op in made_descriptors(module):
            known = self._padding.setdefault(self.groups.find(op.result), op.padding)
            if known is not op.padding:
                raise unsupported_at(op.location, (
                    "one variable holds this descriptor and, on another path, one that pads "
                    "differently (one with zeros, the other with NaN); give both the same "
                    "padding_option"
                ))

    def is_split(self, value: SSAValue) -> bool:
        return is_descriptor(value) and value not in self._kept

    def kinds(self, value: SSAValue) -> list[ir.Type]:
        return part_types(value)

    def parts(self, value: SSAValue) -> list[SSAValue]:
        made = maker_of(value)
        assert made is not None, value
        return [made.base, *made.shape, *made.strides]

    def build(self, parts: Sequence[SSAValue], old: SSAValue) -> Op:
        rank = (len(parts) - 1) // 2
        padding = self._padding.get(self.groups.find(old), PaddingOption.PAD_ZERO)
        return MakeTensorDescOp.build(
            parts[0], parts[1 : 1 + rank], parts[1 + rank :], result=old.type, padding=padding
        )


def part_types(value: Any) -> list[ir.Type]:
    """The types of base, shape and strides of a descriptor."""
    block = block_of(ir.TensorDescType.name, value.type)
    rank = len(block.get_shape())
    return [ir.pointer_to(block.element_type), *[ir.i32] * rank, *[ir.i64] * rank]
