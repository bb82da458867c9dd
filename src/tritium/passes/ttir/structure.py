"""Turn branches without cycles into structured conditionals: those of functions, and those of the
regions of scalars that reductions, scans and `tt.map_elementwise` run.

before:
      cf.cond_br %c, ^bb1, ^bb2
    ^bb1:
      tt.return
    ^bb2:
      tt.store %p, %x : !tt.ptr<f32>
      tt.return
after:
      scf.if %c {
      } else {
        tt.store %p, %x : !tt.ptr<f32>
      }
      tt.return

Where paths do not meet again before they leave the region, the blocks that they share are
copied; regions that would grow too much stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.analysis.cfg import has_cycle, immediate_postdominators, reverse_postorder
from tritium.ops.scf import IfOp, YieldOp
from tritium.ops.terminators import RegionEnd, terminator
from tritium.passes.base import Pass
from tritium.passes.rewriting import copy_op, remove_unreachable

MAX_COPIES = 64
"""The most blocks of a region that may be copied."""


@dataclass(frozen=True)
class Structure(Pass):
    """Turn branches without cycles into structured conditionals.

    `bodies`: those of functions too, not only those of regions within them.
    """

    name: ClassVar[str] = "structure"
    title: ClassVar[str] = "StructureControlFlow"
    bodies: bool = True

    def run(self, module: ModuleOp) -> bool:
        # Inner regions first: what surrounds them may be copied.
        found = [
            op for op in module.walk(region_first=True)
            if _branches(op) and (self.bodies or op.parent is not module.body.block)
        ]  # fmt: skip
        for op in found:
            structure(op)
        return bool(found)


def _branches(op: Operation) -> bool:
    return len(op.regions) == 1 and len(op.regions[0].blocks) > 1


def structure(op: Operation) -> bool:
    """Make an op's region a single block if it can be; returns whether it is now."""
    region = op.regions[0]
    remove_unreachable(region)
    if region.first_block is region.last_block:
        return True
    order = reverse_postorder(region)
    if has_cycle(order) or not all(_leads_on(terminator(b)) for b in order):
        return False
    leaving = next(b.last_op for b in order if not b.last_op.successors)  # pyright: ignore
    builder = _Builder(region, order, leaving)
    if not builder.count(order[0], None) or not builder.fits():
        return False
    builder.build()
    return True


def _leads_on(op: Operation) -> bool:
    return bool(op.successors) or isinstance(op, RegionEnd)


class _Builder:
    """Rewrites a region. `leaving` is one of the ops by which it is left."""

    def __init__(self, region: Region, order: list[Block], leaving: Any):
        self.region, self.order = region, order
        self.end: type[RegionEnd] = type(leaving)
        self.results: list[Attribute] = [v.type for v in leaving.operands]
        self.join = immediate_postdominators(order)
        self.times = dict.fromkeys(order, 0)
        self.values: dict[SSAValue, SSAValue] = {}

    def fits(self) -> bool:
        return sum(self.times.values()) - len(self.order) <= MAX_COPIES

    def count(self, block: Block | None, stop: Block | None) -> bool:
        """Count how often each block will be written; False once that is too much."""
        while block is not None and block is not stop:
            self.times[block] += 1
            if not self.fits():
                return False
            last = terminator(block)
            if len(last.successors) == 2:
                join = self.join[block]
                if not all(self.count(s, join) for s in last.successors):
                    return False
                block = join
            else:
                block = last.successors[0] if last.successors else None
        return True

    def build(self) -> None:
        entry, *others = self.order
        last = terminator(entry)
        values, location = self.path(entry, (), entry, None)
        last.erase()
        entry.add_op(self.end.build(values, location=location))
        for block in others:
            self.region.detach_block(block)
            block.drop_all_references()

    def path(
        self, block: Block, arguments: Sequence[SSAValue], target: Block, stop: Block | None
    ) -> tuple[list[SSAValue], LocationAttr]:
        """Write what runs from `block` until `stop` (or the region's end) to the end of `target`.

        Returns the values with which it arrives there, and the location of the last branch.
        """
        while True:
            last = self.write(block, arguments, target)
            if isinstance(last, self.end):
                return self.mapped(last.operands), last.location
            if len(last.successors) == 2:
                join = self.join[block]
                values = self.conditional(last, target, join)
                if join is None:
                    return values, last.location
                following = join
            else:
                values, following = self.mapped(last.operands), last.successors[0]
            if following is stop:
                return values, last.location
            block, arguments = following, values

    def conditional(self, last: Any, target: Block, join: Block | None) -> list[SSAValue]:
        types = self.results if join is None else [a.type for a in join.args]
        condition = self.mapped([last.condition])[0]
        regions: list[Region] = []
        starts = zip(last.successors, (last.then_values, last.else_values), strict=True)
        for start, passed in list(starts):
            side = Block()
            regions.append(Region(side))
            arguments = self.mapped(passed)
            if start is join:
                values, location = arguments, last.location
            else:
                values, location = self.path(start, arguments, side, join)
            side.add_op(YieldOp.build(values, location=location))
        if not types and len(list(regions[1].block.ops)) == 1:
            regions[1] = Region()
        op = IfOp.build(condition, regions=regions, result=types, location=last.location)
        target.add_op(op)
        if join is not None:
            for result, arg in zip(op.results, join.args, strict=True):
                result.name_hint = arg.name_hint
        return list(op.results)

    def write(self, block: Block, arguments: Sequence[SSAValue], target: Block) -> Operation:
        """Append the block's ops to `target`, all but the terminator, which is returned."""
        last = terminator(block)
        if block is target:
            block.detach_op(last)
            return last
        if self.times[block] == 1:
            for arg, value in zip(block.args, arguments, strict=True):
                arg.replace_all_uses_with(value)
            for op in list(block.ops)[:-1]:
                block.detach_op(op)
                target.add_op(op)
            return last
        self.values.update(zip(block.args, arguments, strict=True))
        for op in list(block.ops)[:-1]:
            target.add_op(copy_op(op, self.values))
        return last

    def mapped(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [self.values.get(v, v) for v in values]
