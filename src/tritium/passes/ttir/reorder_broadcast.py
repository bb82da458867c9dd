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

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.shape import BroadcastOp, ExpandDimsOp, SplatOp, splat_source
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Pattern, Rewriter, copy_names
from tritium.passes.simplify.arithmetic import elementwise_classes, owner_of
from tritium.passes.simplify.tiles import given_attrs, shape_of_splat


@dataclass(frozen=True)
class ReorderBroadcast(FunctionPass):
    """Compute before elements are repeated, not after."""

    name: ClassVar[str] = "reorder-broadcast"
    title: ClassVar[str] = "TritonReorderBroadcast"

    def function(self, function: FuncOp) -> bool:
        return Rewriter(function, _patterns()).run()


Smaller = Callable[[SSAValue], Any]
"""Gives the operand before it was repeated: a value, a number for a constant, or None."""


def splats(op: Op, rewriter: Rewriter) -> bool:
    """f(splat x, splat y, c) -> splat f(x, y, c)"""
    if not ir.shape_of(op.results[0].type):
        return False

    def smaller(value: SSAValue) -> Any:
        scalar = splat_source(value)
        return rewriter.known(value) if scalar is None else scalar

    if all(splat_source(v) is None for v in op.operands):
        return False
    operands = _smaller_operands(op, smaller, (), rewriter)
    if operands is None:
        return False
    return _compute_smaller(op, operands, (), SplatOp, rewriter)


def broadcasts(op: Op, rewriter: Rewriter) -> bool:
    """f(broadcast x, broadcast y, splat z, c) -> broadcast f(x, y, splat z, c)"""
    found = [b for v in op.operands if (b := owner_of(v, BroadcastOp)) is not None]
    if not found:
        return False
    shape = ir.shape_of(found[0].operands[0].type)

    def smaller(value: SSAValue) -> Any:
        broadcast = owner_of(value, BroadcastOp)
        if broadcast is not None:
            return broadcast.operands[0]
        scalar = splat_source(value)
        if scalar is not None:
            target = ir.tensor_of(shape, scalar.type)
            return rewriter.insert(SplatOp, scalar, result=target, before=op).results[0]
        return rewriter.known(value)

    if any(not _is_repeated(v, shape, rewriter) for v in op.operands):
        return False
    operands = _smaller_operands(op, smaller, shape, rewriter)
    assert operands is not None
    return _compute_smaller(op, operands, shape, BroadcastOp, rewriter)


def _is_repeated(value: SSAValue, shape: tuple[int, ...], rewriter: Rewriter) -> bool:
    broadcast = owner_of(value, BroadcastOp)
    if broadcast is not None:
        return ir.shape_of(broadcast.operands[0].type) == shape
    scalar = not ir.shape_of(value.type)
    return scalar or splat_source(value) is not None or rewriter.known(value) is not None


def _smaller_operands(
    op: Op, smaller: Smaller, shape: tuple[int, ...], rewriter: Rewriter
) -> list[SSAValue] | None:
    operands: list[SSAValue] = []
    for value in op.operands:
        found: Any = value if not ir.shape_of(value.type) else smaller(value)
        if found is None:
            return None
        if not isinstance(found, SSAValue):
            kind = ir.tensor_of(shape, ir.element_type(value.type))
            found = rewriter.constant(found, kind, op)
        operands.append(cast(SSAValue, found))
    return operands


def _compute_smaller(
    op: Op, operands: list[SSAValue], shape: tuple[int, ...], cls: type[Op], rewriter: Rewriter
) -> bool:
    result = op.results[0]
    attrs = given_attrs(op)
    if type(op).takes_result:
        attrs["result"] = ir.tensor_of(shape, ir.element_type(result.type))
    new = rewriter.insert(type(op), *operands, before=op, attributes=op.attributes, **attrs)
    copy_names([result], new.results)
    return rewriter.become(op, cls, new.results[0], result=result.type)


@lru_cache(maxsize=1)
def _patterns() -> dict[type[Op], tuple[Pattern, ...]]:
    classes = elementwise_classes()
    table: dict[type[Op], tuple[Pattern, ...]] = dict.fromkeys(classes, (splats, broadcasts))
    table[BroadcastOp] = table[ExpandDimsOp] = (shape_of_splat,)
    return table
