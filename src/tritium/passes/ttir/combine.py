"""Use the combined form of ops that the `tt` dialect has one for.

before:
    %d = tt.dot %a, %b, %zero
    %s = arith.addf %d, %c
    %x = tt.load %p, %m
    %y = arith.select %m, %x, %other
    %m = arith.mulf (tt.broadcast (tt.expand_dims %k {axis = 2})),
                    (tt.broadcast (tt.expand_dims %n {axis = 0}))
    %r = tt.reduce %m {axis = 1}, of arith.addf
    %t = tt.reshape (tt.descriptor_load %q[%b, %h, %i, %zero])
after:
    %s = tt.dot %a, %b, %c
    %y = tt.load %p, %m, %other
    %r = tt.dot %k, %n, %zero
    %t = tt.descriptor_load %q[%b, %h, %i, %zero]

A descriptor's load and store take a matrix in place of a block whose other axes have size 1.

The sum then takes part in the dot's accumulation: a floating-point result may differ in its
rounding (it is the only pass here that may change one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith.floating import MulFOp
from tritium.ops.base import Op, repeated
from tritium.ops.dialects import op_classes
from tritium.ops.elementwise import BinaryOp
from tritium.ops.ttir.descriptor import DescriptorLoadOp, DescriptorReduceOp, DescriptorStoreOp
from tritium.ops.ttir.dot import DotOp, InputPrecision, MatrixProduct
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.memory import ElementAccess
from tritium.ops.ttir.reduction import ReduceOp
from tritium.ops.ttir.shape import ExpandDimsOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Pattern, Rewriter
from tritium.passes.simplify.arithmetic import is_zero, owner_of
from tritium.passes.simplify.tiles import given_attrs


@dataclass(frozen=True)
class Combine(FunctionPass):
    """Add into a dot's accumulator; select a load's default in the load; take a sum of products for
    the dot that it is."""

    name: ClassVar[str] = "combine"
    title: ClassVar[str] = "TritonCombineOps"

    def function(self, function: FuncOp) -> bool:
        return Rewriter(function, _PATTERNS).run()


def add_to_dot(op: Op, rewriter: Rewriter) -> bool:
    """dot(a, b, 0) + c, c + dot(a, b, 0) -> dot(a, b, c)"""
    left, right = op.operands
    for value, added in ((left, right), (right, left)):
        dot = value.owner
        if not isinstance(dot, MatrixProduct) or dot.asynchronous:
            continue
        if dot.parent is not op.parent or not value.has_one_use():
            continue
        # Hardware that accumulates imprecisely adds the sum precisely afterwards.
        if dot.maxNumImpreciseAcc or not is_zero(rewriter.known(dot.operands[2])):
            continue
        a, b, _ = dot.operands
        new = rewriter.insert(
            type(dot), a, b, added, before=op, attributes=dot.attributes, **given_attrs(dot)
        )
        new.results[0].name_hint = op.results[0].name_hint or dot.results[0].name_hint
        new.location = dot.location
        return rewriter.replace(op, new.results[0])
    return False


def select_to_load(op: Op, rewriter: Rewriter) -> bool:
    """select(m, load(p, m, ...), other) -> load(p, m, other)"""
    mask, loaded, other = op.operands
    load: Any = loaded.owner
    if not isinstance(load, ElementAccess) or load.mask is not mask or load.isVolatile:
        return False
    if not loaded.has_one_use() or not _available(other, load):
        return False
    new = rewriter.insert(
        type(load), load.ptr, mask, other, before=load, attributes=load.attributes,
        **given_attrs(load),
    )  # fmt: skip
    new.results[0].name_hint = op.results[0].name_hint or loaded.name_hint
    return rewriter.replace(op, new.results[0])


_LEAST = 16
"""The smallest extent of a sum of products that is computed as a dot."""


def sum_of_products(op: ReduceOp, rewriter: Rewriter) -> bool:
    """sum(a[:, :, None] * b[None, :, :], 1) -> dot(a, b, 0), of float32 and float64 numbers, which
    a dot multiplies and sums as exactly"""
    if op.axis != 1 or len(op.operands) != 1 or not _adds(op):
        return False
    product = owner_of(op.operands[0], MulFOp)
    if product is None or not product.results[0].has_one_use():
        return False
    shape = ir.shape_of(product.results[0].type)
    if len(shape) != 3:
        return False
    m, k, n = shape
    if ir.element_type(op.results[0].type) not in (ir.f32, ir.f64) or min(m, n, k) < _LEAST:
        return False
    for left, right in (product.operands, product.operands[::-1]):
        a, b = _stretched(left, 2), _stretched(right, 0)
        if a is None or b is None:
            continue
        if ir.shape_of(a.type) == (m, k) and ir.shape_of(b.type) == (k, n):
            zero = rewriter.constant(0.0, op.results[0], op)
            dot = rewriter.insert(
                DotOp, a, b, zero, before=op, inputPrecision=InputPrecision.IEEE,
                maxNumImpreciseAcc=0,
            )  # fmt: skip
            dot.results[0].name_hint = op.results[0].name_hint
            return rewriter.replace(op, dot.results[0])
    return False


def reshape_to_load(op: Op, rewriter: Rewriter) -> bool:
    """reshape(descriptor_load(d)) -> descriptor_load(d) of a tile without leading axes of size 1"""
    load = owner_of(op.operands[0], DescriptorLoadOp)
    if load is None or not load.results[0].has_one_use():
        return False
    if not _is_without_ones(load.results[0], op.results[0]):
        return False
    new = rewriter.insert(
        DescriptorLoadOp, load.desc, load.indices, before=load, result=op.results[0].type,
        attributes=load.attributes, **given_attrs(load),
    )  # fmt: skip
    new.results[0].name_hint = op.results[0].name_hint or load.results[0].name_hint
    return rewriter.replace(op, new.results[0])


def reshape_to_store(op: Op, rewriter: Rewriter) -> bool:
    """descriptor_store(d, reshape(x)) -> descriptor_store(d, x) of a tile without leading ones"""
    access: Any = op
    reshape: Any = access.src.owner
    if isinstance(reshape, Block) or not reshape.reshapes or reshape.allow_reorder:
        return False
    if not _is_without_ones(access.src, reshape.operands[0]):
        return False
    rewriter.insert(
        type(op), access.desc, reshape.operands[0], access.indices, before=op,
        attributes=op.attributes, **given_attrs(op),
    )  # fmt: skip
    return rewriter.erase(op)


def _is_without_ones(block: SSAValue, matrix: SSAValue) -> bool:
    """True if a tile of two or more axes lacks of another only leading ones of size 1."""
    whole, kept = ir.shape_of(block.type), ir.shape_of(matrix.type)
    missing = len(whole) - len(kept)
    return missing > 0 and len(kept) >= 2 and whole == (1,) * missing + kept


def _adds(op: ReduceOp) -> bool:
    """True if a reduction sums floating-point numbers."""
    block = op.regions[0].block
    first = block.first_op
    return (
        isinstance(first, BinaryOp)
        and first.adds
        and set(first.operands) == set(block.args)
        and block.last_op is first.next_op
        and block.last_op is not None
        and list(block.last_op.operands) == [first.results[0]]
    )


def _stretched(value: SSAValue, axis: int) -> SSAValue | None:
    """The matrix that is repeated along a new axis of a tile with three; None if it is none."""
    source = repeated(value)
    thin = None if source is None else owner_of(source, ExpandDimsOp)
    if thin is None or thin.axis != axis or len(ir.shape_of(value.type)) != 3:
        return None
    return thin.operands[0]


def _available(value: SSAValue, op: Op) -> bool:
    """True if `value` is defined before `op` (the load must stay where it is in memory order)."""
    owner: Any = value.owner
    if not isinstance(owner, Op) or owner.parent is not op.parent:
        return True
    return owner.is_before_in_block(op)


_PATTERNS: dict[type[Op], tuple[Pattern, ...]] = {
    **{cls: (add_to_dot,) for cls in op_classes("arith") if issubclass(cls, BinaryOp) and cls.adds},
    **{cls: (select_to_load,) for cls in op_classes("arith") if cls.chooses},
    **{cls: (reshape_to_load,) for cls in op_classes("tt") if cls.reshapes},
    ReduceOp: (sum_of_products,),
    DescriptorStoreOp: (reshape_to_store,),
    DescriptorReduceOp: (reshape_to_store,),
}
