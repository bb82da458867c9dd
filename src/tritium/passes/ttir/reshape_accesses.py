"""Access memory in the shape in which a tile is rearranged.

before:
    %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
    %f = tt.reshape %t : tensor<8x4xf32> -> tensor<32xf32>
    %r = tt.make_range {start = 0, end = 32} : tensor<32xi32>
    %p = tt.addptr (tt.splat %out), %r : tensor<32x!tt.ptr<f32>>
    tt.store %p, %f : tensor<32x!tt.ptr<f32>>
after:
    %i = (tt.make_range 0 .. 8)[:, None] * 4 : tensor<8x1xi32>
    %j = (tt.make_range 0 .. 4)[None, :] : tensor<1x4xi32>
    %q = tt.addptr (tt.splat %out), %i + %j : tensor<8x4x!tt.ptr<f32>>
    tt.store %q, %t : tensor<8x4x!tt.ptr<f32>>

The same for a load whose elements get more axes to be rearranged. For targets that compile loops
over a tile's axes: they see along which of them either side's elements are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, MulIOp, constant_value
from tritium.ops.base import Op, permutes
from tritium.ops.ttir.memory import ElementAccess, StoreOp
from tritium.ops.ttir.shape import ExpandDimsOp, MakeRangeOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.passes.simplify.tiles import given_attrs

Groups = tuple[tuple[int, ...], ...]
"""For each axis the sizes of those that it becomes."""


@dataclass(frozen=True)
class ReshapeAccesses(Pass):
    """Access memory in the shape in which a tile is rearranged."""

    name: ClassVar[str] = "reshape-accesses"

    def run(self, module: ModuleOp) -> bool:
        ops = list(module.walk())
        changed = [_store(op) for op in ops if isinstance(op, ElementAccess) and not op.is_load]
        changed += [_load(op) for op in ops if isinstance(op, Op) and op.reshapes]
        return any(changed)


def _of_block(op: Operation) -> bool:
    """True for an access by a block pointer, which `tensor-pointers` rewrites."""
    return isinstance(op, ElementAccess) and ir.is_block_pointer(op.ptr.type)


def _store(op: ElementAccess) -> bool:
    """store p, (reshape v) -> store p', v"""
    reshape: Any = op.value.owner
    if _of_block(op) or isinstance(reshape, Block) or not reshape.reshapes:
        return False
    if not _is_rearranged(reshape.src):
        return False
    groups = _groups(ir.shape_of(op.value.type), ir.shape_of(reshape.src.type))
    unfold = _Unfolding(op)
    if groups is None or not all(unfold.can(v) for v in (op.ptr, op.mask) if v is not None):
        return False
    ptr, mask = (None if v is None else unfold(v, groups) for v in (op.ptr, op.mask))
    unfold.make(StoreOp, ptr, reshape.src, mask, **given_attrs(op))
    erase(op)
    return True


def _load(reshape: Any) -> bool:
    """reshape (load p) -> load p'"""
    op: Any = reshape.src.owner
    if not isinstance(op, ElementAccess) or _of_block(op) or len(list(op.results[0].uses)) != 1:
        return False
    if not any(permutes(use.operation) for use in reshape.results[0].uses):
        return False
    groups = _groups(ir.shape_of(reshape.src.type), ir.shape_of(reshape.results[0].type))
    unfold, given = _Unfolding(op), (op.ptr, op.mask, op.other)
    if groups is None or not all(unfold.can(v) for v in given if v is not None):
        return False
    operands = [None if v is None else unfold(v, groups) for v in given]
    found = unfold.value(type(op), *operands, **given_attrs(op))
    reshape.results[0].replace_all_uses_with(found)
    erase(reshape)
    erase(op)
    return True


def _is_rearranged(value: SSAValue) -> bool:
    """True if a tile is a transposed one, or computed from one element by element."""
    stack, seen = [value], set[SSAValue]()
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        if value in seen or not isinstance(owner, Operation):
            continue
        seen.add(value)
        if permutes(owner):
            return True
        if isinstance(owner, Op) and owner.elementwise:
            stack.extend(owner.operands)
    return False


def _groups(folded: tuple[int, ...], shape: tuple[int, ...]) -> Groups | None:
    """The axes of `shape` that make up each axis of `folded`, in order; None where they do not, or
    where `shape` has no more axes."""
    sizes, found = list(shape), list[tuple[int, ...]]()
    for extent in folded:
        group: list[int] = []
        while sizes and (prod(group) < extent or not group):
            group.append(sizes.pop(0))
        if prod(group) != extent:
            return None
        found.append(tuple(group))
    if any(size > 1 for size in sizes) or len(shape) <= len(folded):
        return None
    if sizes:
        found[-1] = (*found[-1], *sizes)
    return tuple(found)


class _Unfolding(Builder):
    """Makes values with more axes of those that have been folded, right before an op."""

    def __init__(self, before: Operation):
        super().__init__(before)
        self._made: dict[tuple[SSAValue, Groups], SSAValue] = {}

    def can(self, value: SSAValue) -> bool:
        """True if a value is made of what has a form with more axes."""
        return all(
            not isinstance(v.type, ir.TensorType)
            or isinstance(v.owner, (MakeRangeOp, ExpandDimsOp))
            or (isinstance(v.owner, Op) and (v.owner.elementwise or v.owner.repeats))
            or _splat_constant(v) is not None
            for v in _operands(value)
        )

    def __call__(self, value: SSAValue, groups: Groups) -> SSAValue:
        """The value with these axes; groups of those that it has one element along count as many
        of size 1."""
        if not isinstance(value.type, ir.TensorType):
            return value
        key = (value, groups)
        if key not in self._made:
            self._made[key] = self._make(value, groups)
        return self._made[key]

    def _make(self, value: SSAValue, groups: Groups) -> SSAValue:
        op: Any = value.owner
        extents = ir.shape_of(value.type)
        shape = tuple(
            size if extent > 1 else 1
            for extent, group in zip(extents, groups, strict=True)
            for size in group
        )
        kind = ir.tensor_of(shape, ir.element_type(value.type))
        number = _splat_constant(value)
        if number is not None:
            return self.constant(number, kind)
        if isinstance(op, MakeRangeOp):
            return self._range(op.start, groups[0])
        if op.repeats:
            return self.repeated(self(op.src, groups), kind)
        if isinstance(op, ExpandDimsOp):
            axis: int = op.axis
            inner = self(op.src, (*groups[:axis], *groups[axis + 1 :]))
            if not isinstance(inner.type, ir.TensorType):  # of an axis of size 1 that none is for
                return self.repeated(inner, kind)
            first = sum(len(group) for group in groups[:axis])
            for _ in groups[axis]:
                inner = self.value(ExpandDimsOp, inner, axis=first)
            return inner
        attrs = given_attrs(op)
        if type(op).takes_result:
            attrs["result"] = kind
        computed = cast(Op, op)
        operands = [self(v, groups) for v in computed.operands]
        return self.value(type(computed), *operands, **attrs)

    def _range(self, start: int, group: tuple[int, ...]) -> SSAValue:
        """start, start + 1, ... in row-major order."""
        whole = ir.tensor_of(group, ir.i32)
        total: SSAValue | None = None
        for axis, size in enumerate(group):
            stride = prod(group[axis + 1 :])
            if size == 1:
                continue
            part = self.value(MakeRangeOp, start=0, end=size)
            for other in range(len(group)):
                if other != axis:
                    part = self.value(ExpandDimsOp, part, axis=other)
            if stride > 1:
                part = self.value(MulIOp, part, self.constant(stride, part))
            part = self.repeated(part, whole)
            total = part if total is None else self.value(AddIOp, total, part)
        first = self.constant(start, whole)
        if total is None:
            return first
        return self.value(AddIOp, total, first) if start else total


def _operands(value: SSAValue) -> Iterator[SSAValue]:
    """A value and those it is computed from, each once, up to splats, ranges and constants."""
    stack, seen = [value], set[SSAValue]()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        owner: Any = value.owner
        if isinstance(owner, Operation):
            stack.extend(v for v in owner.operands if isinstance(v.type, ir.TensorType))


def _splat_constant(value: SSAValue) -> Any:
    """The number in all elements of a constant tile, or None."""
    held = constant_value(value)
    if held is None or not (held == held.flat[0]).all():
        return None
    return held.flat[0].item()
