"""Move what does not change from one iteration to the next out of loops.

before:
    scf.for %i = %lo to %hi step %s : i32 {
      %t = tt.splat %x : f32 -> tensor<64xf32>
      use %t, %i
    }
after:
    %t = tt.splat %x : f32 -> tensor<64xf32>
    scf.for %i = %lo to %hi step %s : i32 {
      use %t, %i
    }

Ops without effects always move, and allocations whose contents never change after they are filled.
Reads, and divisions by what may be zero, move only where the loop is known to run at least once;
reads move only out of loops that write nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from tritium.analysis.regions import ops_around, outside_values
from tritium.ir.graph import ops_of
from tritium.ops.attributes import DISABLE_LICM
from tritium.ops.base import Op
from tritium.ops.effects import only_read
from tritium.ops.terminators import is_terminator
from tritium.passes.base import Pass
from tritium.passes.rewriting import insert_before


@dataclass(frozen=True)
class LICM(Pass):
    """Move what does not change from one iteration to the next out of loops."""

    name: ClassVar[str] = "licm"
    title: ClassVar[str] = "LoopInvariantCodeMotion"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        # Inner loops first, so that what leaves them can leave outer ones as well.
        for op in ops_around(module):
            if isinstance(op, Op) and op.is_loop and DISABLE_LICM not in op.attributes:
                for region in op.regions:
                    changed |= hoist(op, region)
        return changed


def hoist(loop: Op, region: Region) -> bool:
    """Move invariant ops from a region of a loop to before it."""
    block = region.block
    if not any(_is_invariant(op, block) for op in ops_of(block)):
        return False
    writes, runs = not loop.only_reads, loop.surely_runs(region)
    changed = False
    for op in ops_of(block):
        if _is_invariant(op, block) and _may_move(op, writes, runs):
            block.detach_op(op)
            insert_before(loop, op)
            changed = True
    return changed


def _is_invariant(op: Operation, block: Block) -> bool:
    if is_terminator(op):
        return False
    for value in outside_values(op):
        owner = value.owner
        # What an op can see is defined in its own block or in one around it.
        if owner is block or (isinstance(owner, Operation) and owner.parent is block):
            return False
    return True


def _may_move(op: Operation, writes: bool, runs: bool) -> bool:
    if not isinstance(op, Op):
        return False
    effects = op.memory_effects()
    if effects and not op.is_constant_memory:
        return only_read(effects) and not writes and runs
    return runs or all(not isinstance(n, Op) or n.is_speculatable for n in op.walk())
