"""Compute before elements are repeated, not after.

before:
    %a = tt.splat %x : f32 -> tensor<64xf32>
    %b = tt.splat %y : f32 -> tensor<64xf32>
    %c = arith.mulf %a, %b : tensor<64xf32>
    %d = tt.broadcast %v : tensor<64x1xf32> -> tensor<64x64xf32>
    %e = math.exp %d : tensor<64x64xf32>
after:
    %s = arith.mulf %x, %y : f32
    %c = tt.splat %s : f32 -> tensor<64xf32>
    %w = math.exp %v : tensor<64x1xf32>
    %e = tt.broadcast %w : tensor<64x1xf32> -> tensor<64x64xf32>

Splats, broadcasts, and with `expand_dims` a new axis, move below elementwise ops all of whose
other operands are constants or repeated in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.base import Op, repeated
from tritium.ops.dialects import op_classes
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.shape import AxesOp, repetition
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Pattern, Rewriter, copy_names
from tritium.passes.simplify.arithmetic import elementwise_classes
from tritium.passes.simplify.tiles import given_attrs, shape_of_splat


@dataclass(frozen=True)
class ReorderBroadcast(FunctionPass):
    """Compute before elements are repeated, not after."""

    name: ClassVar[str] = "reorder-broadcast"
    title: ClassVar[str] = "TritonReorderBroadcast"

    def function(self, function: FuncOp) -> bool:
        return Rewriter(function, _patterns()).run()


def repeat_later(op: Op, rewriter: Rewriter) -> bool:
    """f(splat x, splat y, c) -> splat f(x, y, c);
    f(broadcast x, broadcast y, splat z, c) -> broadcast f(x, y, splat z, c)"""
    sources = [source for v in op.operands if (source := repeated(v)) is not None]
    if not sources:
        return False
    shape = next((shape for v in sources if (shape := ir.shape_of(v.type))), ())
    if any(not _has_smaller(v, shape, rewriter) for v in op.operands):
        return False
    operands = [_smaller(v, shape, op, rewriter) for v in op.operands]
    result = op.results[0]
    attrs = given_attrs(op)
    if type(op).takes_result:
        attrs["result"] = ir.tensor_of(shape, ir.element_type(result.type))
    new = rewriter.insert(type(op), *operands, before=op, attributes=op.attributes, **attrs)
    copy_names([result], new.results)
    return rewriter.become(op, repetition(new.results[0].type), new.results[0], result=result.type)


def _has_smaller(value: SSAValue, shape: tuple[int, ...], rewriter: Rewriter) -> bool:
    """True for a scalar, a constant, and what repeats a scalar or a tile of this shape."""
    source = repeated(value)
    if source is not None:
        return ir.shape_of(source.type) in ((), shape)
    return not ir.shape_of(value.type) or rewriter.known(value) is not None


def _smaller(value: SSAValue, shape: tuple[int, ...], op: Op, rewriter: Rewriter) -> SSAValue:
    """An operand of `op` in this shape; a scalar as it is."""
    if not ir.shape_of(value.type):
        return value
    kind = ir.tensor_of(shape, ir.element_type(value.type))
    source = repeated(value)
    if source is None:
        return rewriter.constant(rewriter.known(value), kind, op)
    if source.type == kind:
        return source
    return rewriter.insert(repetition(source.type), source, result=kind, before=op).results[0]


@lru_cache(maxsize=1)
def _patterns() -> dict[type[Op], tuple[Pattern, ...]]:
    moving = [cls for cls in op_classes("tt") if issubclass(cls, AxesOp)]
    later = dict.fromkeys(elementwise_classes(), (repeat_later,))
    return {**later, **dict.fromkeys(moving, (shape_of_splat,))}
