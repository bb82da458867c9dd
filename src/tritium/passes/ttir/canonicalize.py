"""Bring the IR into the one form that other passes look for.

before:
    %a = arith.constant 2 : i32
    %b = arith.constant 3 : i32
    %c = arith.addi %a, %b : i32
    %d = arith.muli %x, %c : i32
    %e = tt.splat %c : i32 -> tensor<8xi32>
    %f = arith.addi %d, %z : i32        // %z is the constant 0
    use %f, %e
after:
    %c5_i32 = arith.constant 5 : i32
    %cst = arith.constant dense<5> : tensor<8xi32>
    %d = arith.muli %x, %c5_i32 : i32
    use %d, %cst

Constants are folded, unique, and at the start of the function; identities of arithmetic, shapes,
pointers, masks, loops, conditionals and branches are applied (`passes/simplify`); what nothing
needs is gone. Floating-point identities are applied only where they are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from xdsl.ir import Operation

from tritium.ops.base import Op
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Pattern, Rewriter
from tritium.passes.simplify import arithmetic, control, tiles
from tritium.passes.ttir.dce import remove_dead


@dataclass(frozen=True)
class Canonicalize(FunctionPass):
    """Fold constants, apply identities, and remove what nothing needs."""

    name: ClassVar[str] = "canonicalize"
    title: ClassVar[str] = "Canonicalizer"

    def function(self, function: FuncOp) -> bool:
        return canonicalize(function)


@lru_cache(maxsize=1)
def all_patterns() -> dict[type[Op], tuple[Pattern, ...]]:
    """The patterns by the class of the op that they look at."""
    table: dict[type[Op], tuple[Pattern, ...]] = {}
    for part in (arithmetic, tiles, control):
        for cls, found in part.patterns().items():
            table[cls] = (*table.get(cls, ()), *found)
    return table


def canonicalize(function: Op) -> bool:
    """Canonicalize one function; returns whether it changed. What is dead goes when no pattern
    applies; then those around it and control flow, which may fold now, are looked at again."""
    changed = cleaned = False
    near: list[Operation] | None = None
    while True:
        rewriter = Rewriter(function, all_patterns())
        hoisted = rewriter.constants.hoist_all(function)
        again = rewriter.run(None if hoisted else near)
        blocks = control.simplify_blocks(function.regions[0])
        again |= blocks
        changed |= hoisted
        near = None if blocks else []
        if hoisted or again or not cleaned:
            again |= remove_dead(function, near)
            cleaned = True
        changed |= again
        if not again or not _worth_another(function):
            break
    return changed


def _worth_another(function: Op) -> bool:
    """Loops, conditionals and blocks that lost something may now fold further."""
    body = function.regions[0]
    return body.first_block is not body.last_block or any(op.regions for op in body.blocks[0].ops)
