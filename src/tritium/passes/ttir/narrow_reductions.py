"""Reduce integers as narrow as they are in memory, and extend the result.

before:
    %w = arith.extsi %x : tensor<1024xi8> to tensor<1024xi32>
    %m = "tt.reduce"(%w) ({ arith.maxsi })
after:
    %n = "tt.reduce"(%x) ({ arith.maxsi })
    %m = arith.extsi %n : i8 to i32

A vector of narrow elements has more of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.ir import types as ir
from tritium.ops.arith.casts import IntegerExtensionOp
from tritium.ops.ttir.reduction import CombiningOp, combining_op, is_reduction
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, reduced_along


@dataclass(frozen=True)
class NarrowReductions(Pass):
    """Reduce integers before they are extended, where that gives the same."""

    name: ClassVar[str] = "narrow-reductions"

    def run(self, module: ModuleOp) -> bool:
        found = [op for op in module.walk() if is_reduction(op) and _matches(op)]
        for op in found:
            _rewrite(op)
        return bool(found)


def _matches(op: CombiningOp) -> bool:
    if len(op.operands) > 1 or len(op.regions[0].blocks) > 1:
        return False
    extension, combine = op.operands[0].owner, combining_op(op.regions[0].block)
    if not isinstance(extension, IntegerExtensionOp) or not extension.widens or combine is None:
        return False
    signs = "u" if extension.non_negative else "s"
    return signs in combine.extends and ir.bit_width(extension.operand.type) >= 8


def _rewrite(op: CombiningOp) -> None:
    extension, kind = op.operands[0].owner, combining_op(op.regions[0].block)
    assert kind is not None
    narrow, at = extension.operand, Builder(op)
    extend: Any = extension.__class__
    result = at.value(extend, reduced_along(at, narrow, op.axis, kind), result=op.results[0].type)
    op.results[0].replace_all_uses_with(result)
    erase(op)
    if not extension.results[0].uses:
        erase(extension)
