"""Fuse ops into loop nests: forward over each block.

before:
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>>
    %y = arith.addf %x, %x : tensor<1024xf32>
    tt.store %q, %y : tensor<1024x!tt.ptr<f32>>
after:
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>>
    %y = arith.addf %x, %x : tensor<1024xf32>
    tile.nest [1024] {
      tt.store %q, %y : tensor<1024x!tt.ptr<f32>>
    }

Ops that must happen somewhere become roots, and join the loops of an earlier root if their operands
are known there and no effect lies between (`fusion`). Others are computed where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import functions
from tritium.backends.cpu.lower.module import SCALARIZED, WHOLE_TILE
from tritium.backends.cpu.tiles.fusion import Fusion
from tritium.backends.cpu.tiles.ir import (
    TileFunction,
    copy_of,
    homes,
    name_buffers,
    runs_on_scalars,
)
from tritium.backends.cpu.tiles.loop_carried import keeps_places
from tritium.backends.cpu.tiles.views import Prefix, peel, prefix_masks
from tritium.ir import types as ir
from tritium.ops import scf
from tritium.ops.base import Op, is_constant
from tritium.ops.fields import integer_attr
from tritium.ops.terminators import is_terminator
from tritium.ops.tile.nests import OPERAND, VIEW_A, VIEW_B, ZERO, BufferOp, is_tile
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.reduction import CombiningOp
from tritium.passes.base import Pass


def _is_sum(op: MatrixProduct) -> bool:
    """True if a product is the only one of a loop, which sums along K."""
    block: Any = op.parent
    products = (inner for inner in block.ops if isinstance(inner, MatrixProduct))
    return block.parent_op().is_loop and list(products) == [op]


@dataclass(frozen=True)
class Fuse(Pass):
    """Move the ops that must be executed into nests, those that share loops into one."""

    name: ClassVar[str] = "tile-fuse"

    def run(self, module: ModuleOp) -> bool:
        for function in functions(module):
            _Builder(TileFunction(function)).run()
        return True


class _Builder:
    """Makes the nests of one function."""

    def __init__(self, function: TileFunction):
        self.function, self.op = function, function.op
        self.fusion = Fusion(function)
        self.times = self.fusion.times

    def run(self) -> None:
        """The whole function."""
        blocks = list(self.op.regions[0].blocks)
        arguments = self._keep(self.op)
        outputs: list[Any] = list(self.op.function_type.outputs)
        self.results = [
            self.function.new_buffer(f"result{n}", type) if ir.shape_of(type) else None
            for n, type in enumerate(outputs)
        ]
        if any(arguments) or any(self.results):
            name_buffers(self.op, [*arguments, *self.results])
        for block in blocks:
            self.body(block)

    def _keep(self, op: Operation, unused: bool = True) -> list[BufferOp | None]:
        """New buffers for the tiles that an op makes (None for scalars, and unless `unused` for
        those that nobody uses)."""
        found: list[BufferOp | None] = []
        for value, *same in homes(op):
            wanted = is_tile(value) and (unused or value.uses)
            found.append(self.function.keep(value) if wanted else None)
            if wanted:
                self.function.buffers.update(dict.fromkeys(same, self.function.buffers[value]))
        if any(found):
            name_buffers(op, found)
        return found

    def body(self, block: Block) -> None:
        """The ops of a block."""
        self.fusion.enter(block)
        for op in list(block.ops):
            if isinstance(op, Op) and op.controls:
                self._control(op)
            else:
                self._op(op)
        self.fusion.leave()

    def _op(self, op: Any) -> None:
        kind: type[Any] = type(op)  # pyright: ignore[reportUnknownVariableType]
        tiles = any(map(is_tile, op.results)) or any(map(is_tile, op.operands))
        if tiles and kind in WHOLE_TILE:
            self._whole(op)
            return
        if tiles and isinstance(op, MatrixProduct):
            self._dot(op)
            return
        self.times[op] = self.fusion.now()
        if is_terminator(op):
            self._leave(op)
        elif not tiles:
            self.fusion.effect(op)
        elif op.stores_elements or op.extracts:
            self.fusion.root(op, op)
        elif isinstance(op, CombiningOp):
            self._combine(op)
        elif kind in SCALARIZED:
            self._scalarized(op)
        else:
            self.fusion.value(op)

    def _combine(self, op: Any) -> None:
        """A reduction or scan: results that are tiles get buffers."""
        self._keep(op, unused=False)
        scalars = runs_on_scalars(op)
        if scalars:
            self.body(op.regions[0].blocks[0])
        if op.running or scalars:
            self.fusion.unfused(op, op)
        else:
            self.fusion.root(op, op)

    def _scalarized(self, op: Any) -> None:
        """An op that is done element by element; for one operand after another, where it may be."""
        if not op.per_operand:
            self._keep(op, unused=False)
            self.fusion.unfused(op, op)
            return
        following: Any = op.next_op
        for number in range(len(op.operands)):
            one: Any = op.clone() if number else op  # pyright: ignore[reportUnknownVariableType]
            one.attributes[OPERAND] = integer_attr(number, ir.i32)
            self.times[one] = self.times[op]
            self.fusion.unfused(one, following if number else op)

    def copy(self, value: SSAValue, buffer: BufferOp, before: Operation) -> None:
        """Fill `buffer` with a tile, in the current block."""
        if self.function.buffers.get(value) is not buffer:
            self.fusion.root(copy_of(value, buffer), before, ends=is_terminator(before))

    def fill(
        self, buffers: Sequence[BufferOp | None], values: Sequence[SSAValue], before: Operation
    ) -> None:
        """Copy the tiles among some values to their buffers."""
        for value, buffer in zip(values, buffers, strict=False):
            if buffer is not None:
                self.copy(value, buffer, before)

    def _whole(self, op: Any) -> None:
        """An op on whole tiles: all operands in buffers, results too."""
        for operand in op.operands:
            if is_tile(operand):
                self.operand(operand, op)
        self.times[op] = self.fusion.now()
        name_buffers(op, self._keep(op))
        if op.regions:
            if len(op.regions[0].blocks) != 1:
                raise NotImplementedError(f"{op.name}: a region of several blocks")
            self.body(op.regions[0].block)
        self.fusion.effect(op)

    def operand(self, value: SSAValue, op: Operation) -> None:
        """See to it that a tile is in a buffer when `op` is executed."""
        if value in self.function.buffers:
            return
        buffer = self.function.buffer_for(value)
        copy, owner = copy_of(value, buffer, keeps=True), value.owner
        if owner.parent is self.fusion.block:
            self.fusion.root(copy, op)
        else:
            self.fusion.elsewhere(copy)
        self.function.buffers[value] = buffer

    # Dot

    def _dot(self, op: MatrixProduct) -> None:
        views = self._views(op)
        for value, view in zip((op.a, op.b), views, strict=False):
            if not view:
                flat = len(ir.shape_of(value.type)) == 2
                source = peel(value, self.function.buffers)[0] if flat else value
                self.operand(source, op)
        buffer, zero = self._accumulator(op)
        self.times[op] = self.fusion.now()
        self.function.buffers[op.result] = buffer
        name_buffers(op, [buffer])
        for flag, holds in ((ZERO, zero), (VIEW_A, views[0]), (VIEW_B, views[1])):
            if holds:
                op.attributes[flag] = UnitAttr()
        if any(views):  # what it reads in place it reads where it stands
            self.fusion.reads(op)

    def _views(self, op: MatrixProduct) -> tuple[bool, bool]:
        """For each operand, whether it is read where it is: a load from memory that nothing changes
        in between, without masks but for ends of rows and columns, and the end of K in both."""
        masks = [self._masks(value, axis, op) for value, axis in ((op.a, 1), (op.b, 0))]
        ends = [mask is not None and any(prefix.along_k for prefix in mask) for mask in masks]
        a, b = (
            mask is not None and end in (False, all(ends))
            for mask, end in zip(masks, ends, strict=True)
        )
        return a, b

    def _masks(self, value: SSAValue, axis: int, op: MatrixProduct) -> list[Prefix] | None:
        """The mask of the load that an operand comes from; None if the dot cannot read it where it
        is. K runs along `axis` of the operand."""
        if len(ir.shape_of(value.type)) != 2:
            return None
        value, swapped = peel(value, self.function.buffers)
        load: Any = value.owner
        if value in self.function.buffers or isinstance(load, Block) or not load.loads_elements:
            return None
        if load.isVolatile or load.parent is not op.parent:
            return None
        if self.fusion.changed_since(self.times[load]):
            return None
        masks = prefix_masks(load, 1 - axis if swapped else axis)
        within = masks is None or all(prefix.along_k for prefix in masks)
        # Elsewhere the second form, for ends, is longer to compile than the first is faster.
        return masks if within or _is_sum(op) else None

    def _accumulator(self, op: MatrixProduct) -> tuple[BufferOp, bool]:
        """The buffer of the result, filled with the third operand (or not, if that is zero)."""
        constant: Any = op.c.owner
        if is_constant(op.c) and not any(bytes(constant.value.data.data)):
            return self.function.buffer_for(op.result), True
        held = self.function.buffers.get(op.c)
        if held is not None and len(list(op.c.uses)) == 1 and self._owned(op.c, op):
            return held, False
        target = self._carried_slot(op)
        buffer = target or self.function.buffer_for(op.result)
        self.copy(op.c, buffer, op)
        return buffer, False

    def _owned(self, value: SSAValue, op: Operation) -> bool:
        """True if a buffered value belongs to this iteration of the block, so may be
        overwritten."""
        owner: Any = value.owner
        if isinstance(owner, Block):
            return owner is op.parent and owner.parent_op() is not self.op
        return owner.parent is op.parent and (isinstance(owner, MatrixProduct) or owner.controls)

    def _carried_slot(self, op: MatrixProduct) -> BufferOp | None:
        """The carried buffer that the result of `acc = f(acc); acc = dot(a, b, acc)` goes back
        to, if `f` is elementwise and the old value is not used otherwise."""
        uses = list(op.result.uses)
        if len(uses) != 1 or not isinstance(uses[0].operation, scf.YieldOp):
            return None
        block = op.parent
        value = op.c
        while not isinstance(value.owner, Block):
            owner: Any = value.owner
            if owner.parent is not block or len(list(value.uses)) != 1:
                return None
            if not keeps_places(owner):
                return None
            same = [v for v in owner.operands if v.type == value.type]
            carriers = [v for v in same if self._leads_to_carried(v, block)]
            if len(carriers) != 1 or value in self.function.buffers:
                return None
            value = carriers[0]
        if value.owner is not block or len(list(value.uses)) != 1:
            return None
        if value.index - 1 != uses[0].index:  # pyright: ignore
            return None
        return self.function.buffers.get(value)

    def _leads_to_carried(self, value: SSAValue, block: Any, depth: int = 4) -> bool:
        owner: Any = value.owner
        if isinstance(owner, Block):
            return owner is block and value in self.function.buffers
        if depth == 0 or owner.parent is not block or value in self.function.buffers:
            return False
        return any(
            self._leads_to_carried(v, block, depth - 1)
            for v in owner.operands if v.type == value.type
        )  # fmt: skip

    # Control flow

    def _control(self, op: Any) -> None:
        """A loop, or a choice: what it carries, and its results, are in buffers."""
        buffers = self._keep(op)
        if op.is_loop:
            self.fill(buffers, op.inits, op)
        self.times[op] = self.fusion.now()
        self.fusion.effect(op)
        for region in op.regions:
            if region.blocks:
                self.body(region.blocks[0])

    def _leave(self, op: Any) -> None:
        """Tiles that a terminator passes on go to the buffers of where they arrive."""
        owner: Any = op if op.successors else op.parent_op()
        if owner is self.op:
            self.fill(self.results, op.operands, op)
        passed = (
            (value, self.function.buffers[target])
            for edge in owner.control_edges() if edge.source is op
            for value, target in zip(edge.values, edge.targets, strict=True) if is_tile(value)
        )  # fmt: skip
        copies = dict.fromkeys(passed)
        if len({buffer for _, buffer in copies}) < len(copies):
            raise NotImplementedError(f"{op.name} to one block with different tiles")
        for value, buffer in copies:
            self.copy(value, buffer, op)
