"""Fuse ops into loop nests: forward over each block.

before:
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>>
    %y = arith.addf %x, %x : tensor<1024xf32>
    tt.store %q, %y : tensor<1024x!tt.ptr<f32>>
after:
    loops [1024] {
      %x = tt.load %p
      %y = arith.addf %x, %x
      store %q, %y
    }

Ops that must happen somewhere become roots, and join the loops of an earlier root if their operands
are known there and no effect lies between (`grouping`). Others are computed where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.module import SCALARIZED, WHOLE_TILE
from tritium.backends.cpu.tiles.grouping import Grouping
from tritium.backends.cpu.tiles.ir import (
    Body,
    Buffer,
    Dot,
    For,
    If,
    Root,
    RootKind,
    Scalar,
    TileFunction,
    While,
    WholeTile,
)
from tritium.backends.cpu.tiles.loop_carried import keeps_places
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.backends.cpu.tiles.views import peel, prefix_mask
from tritium.ir import types as ir
from tritium.ops import scf
from tritium.ops.arith import ConstantOp
from tritium.ops.base import Op
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.debug import PrintOp
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.memory import LoadOp, StoreOp
from tritium.ops.ttir.reduction import ReduceOp, ScanOp
from tritium.ops.ttir.shape import UnsplatOp
from tritium.passes.base import Pass


@dataclass(frozen=True)
class Fuse(Pass[TileProgram]):
    """Make steps of the ops of each block, and nests of the ops that share loops."""

    name: ClassVar[str] = "tile-fuse"
    title: ClassVar[str] = "TileFuse"

    def run(self, module: TileProgram) -> bool:
        for function in module.functions:
            module.groupings[function] = _Builder(function).run()
        return True


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile."""
    return isinstance(value.type, ir.TensorType)


class _Builder:
    """Builds the steps of one function."""

    def __init__(self, function: TileFunction):
        self.function, self.op = function, function.op
        self.positions: dict[Any, float] = {}
        self.grouping = Grouping(function, self.positions)
        self._count = 0

    def run(self) -> Grouping:
        """The whole function."""
        self._number(self.op.regions[0].blocks)
        blocks = list(self.op.regions[0].blocks)
        for block in blocks:
            self.buffers(block.args)
        for number, type in enumerate(self.op.function_type.outputs):
            tile = isinstance(type, ir.TensorType)
            shape, element = ir.shape_of(type), ir.element_type(type)
            self.function.results.append(
                Buffer(f"result{number}", shape, element) if tile else None
            )
        for block in blocks:
            self.function.blocks.append(self.body(block))
        return self.grouping

    def _number(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            for op in block.ops:
                self._count += 1
                self.positions[op] = self._count
                for region in op.regions:
                    self._number(region.blocks)

    def buffer(self, value: SSAValue) -> Buffer:
        """A new buffer for a tile."""
        held = self.function.buffers[value] = self.grouping.new_buffer(value)
        return held

    def buffers(
        self, values: Sequence[SSAValue], same: Sequence[SSAValue] = ()
    ) -> tuple[Buffer | None, ...]:
        """A new buffer for each tile (None for scalars), in which those of `same` are as well."""
        found = tuple(self.buffer(v) if is_tile(v) else None for v in values)
        pairs = zip(same, found, strict=False)
        self.function.buffers.update((v, held) for v, held in pairs if held is not None)
        return found

    def body(self, block: Block) -> Body:
        """The steps of a block."""
        body = Body(block)
        self.grouping.enter(body)
        for op in block.ops:
            self._op(body, op)
        self.grouping.leave()
        return body

    def _op(self, body: Body, op: Any) -> None:
        position = self.positions[op]
        tiles = any(map(is_tile, op.operands)) or any(map(is_tile, op.results))
        if isinstance(op, scf.ForOp):
            self._for(body, op, position)
        elif isinstance(op, scf.IfOp):
            self._if(body, op, position)
        elif isinstance(op, scf.WhileOp):
            self._while(body, op, position)
        elif is_terminator(op):
            self._leave(op, position)
        elif not tiles:
            body.add(Scalar(position, op))
            self.grouping.effect(op, position)
        elif isinstance(op, StoreOp):
            shape = ir.shape_of(op.ptr.type)
            self.grouping.root(Root(RootKind.STORE, op, tuple(op.operands), shape, position))
        elif isinstance(op, (ReduceOp, ScanOp)):
            self._combine(op, position)
        elif isinstance(op, MatrixProduct):
            self._dot(body, op, position)
        elif isinstance(op, UnsplatOp):
            self.grouping.root(Root(RootKind.EXTRACT, op, tuple(op.operands), (), position))
        elif type(op) in SCALARIZED:
            self._scalarized(op, position)
        elif type(op) in WHOLE_TILE:
            self._whole(body, op, position)
        else:
            self.grouping.value(op, position)

    def _combine(self, op: Any, position: float) -> None:
        """A reduction or scan: results that are tiles get buffers."""
        buffers = tuple(self.buffer(r) if is_tile(r) and r.uses else None for r in op.results)
        values = tuple(op.operands)
        domain = ir.shape_of(values[0].type)
        kind = RootKind.SCAN if isinstance(op, ScanOp) else RootKind.REDUCE
        root = Root(kind, op, values, domain, position, op.axis, buffers)
        block = op.regions[0].blocks[0]
        if any(isinstance(o, Op) and (o.regions or o.memory_effects()) for o in block.ops):
            root.body = self.body(block)
        if isinstance(op, ScanOp) or root.body is not None:
            self.grouping.alone(root)
        else:
            self.grouping.root(root)

    def _scalarized(self, op: Any, position: float) -> None:
        """An op that is done element by element; of what is printed one operand after another."""
        if isinstance(op, PrintOp):
            for number, value in enumerate(op.operands):
                shape = ir.shape_of(value.type)
                at = position + number / 1024
                root = Root(RootKind.SCALARIZED, op, (value,), shape, at, number=number)
                self.grouping.alone(root)
            return
        shape = max((ir.shape_of(v.type) for v in op.operands), key=len)
        buffers = tuple(self.buffer(r) if r.uses else None for r in op.results)
        values: tuple[SSAValue, ...] = tuple(filter(is_tile, op.operands))
        self.grouping.alone(Root(RootKind.SCALARIZED, op, values, shape, position, None, buffers))

    def copy(self, value: SSAValue, buffer: Buffer, position: float) -> None:
        """Fill `buffer` with a tile, in the current block."""
        if self.function.buffers.get(value) is buffer:
            return
        root = Root.copy(value, ir.shape_of(value.type), position, buffer)
        self.grouping.root(root)

    def fill(
        self, buffers: Sequence[Buffer | None], values: Sequence[SSAValue], position: float
    ) -> None:
        """Copy the tiles among some values to their buffers."""
        for value, buffer in zip(values, buffers, strict=True):
            if buffer is not None:
                self.copy(value, buffer, position)

    def _whole(self, body: Body, op: Any, position: float) -> None:
        """An op on whole tiles: all operands in buffers, results too."""
        for operand in op.operands:
            if is_tile(operand):
                self.operand(operand, position)
        buffers = self.buffers(op.results)
        inner = None
        if op.regions:
            if len(op.regions[0].blocks) != 1:
                raise NotImplementedError(f"{op.name}: a region of several blocks")
            inner = self.body(op.regions[0].block)
        step = WholeTile(position, op, buffers, inner)
        body.add(step)
        self.grouping.effect(op, position)

    def operand(self, value: SSAValue, position: float) -> None:
        """See to it that a tile is in a buffer at `position`."""
        if value in self.function.buffers:
            return
        buffer = self.grouping.new_buffer(value)
        owner: Any = value.owner
        if owner.parent is self.grouping.block:
            self.copy(value, buffer, position - 0.5)
        else:
            self.grouping.elsewhere(value, buffer, self.positions[owner] + 0.25)
        self.function.buffers[value] = buffer

    # Dot

    def _dot(self, body: Body, op: MatrixProduct, position: float) -> None:
        views = self._views(op)
        for value, view in zip((op.a, op.b), views, strict=False):
            if not view:
                flat = len(ir.shape_of(value.type)) == 2
                source = peel(value, self.function.buffers)[0] if flat else value
                self.operand(source, position)
        buffer, zero = self._accumulator(op, position)
        self.function.buffers[op.result] = buffer
        step = Dot(position, op, buffer, zero, *views)
        self.grouping.uses(step)
        body.add(step)

    def _views(self, op: MatrixProduct) -> tuple[bool, bool]:
        """Which operands are read where they are: loads in memory that nothing changes in
        between, without masks but for one that cuts off the end of K in both."""
        a, b = self._viewed(op.a, op), self._viewed(op.b, op)
        masks = [load is not None and load.mask is not None for load in (a, b)]
        if any(masks):
            prefixes = [
                load is not None and load.mask is not None and self._prefix(load, value, axis)
                for load, value, axis in ((a, op.a, 1), (b, op.b, 0))
            ]
            if not all(prefixes):
                return a is not None and not masks[0], b is not None and not masks[1]
        return a is not None, b is not None

    def _prefix(self, load: Any, value: SSAValue, axis: int) -> bool:
        """Whether the mask of an operand's load cuts off the end of K, the operand's `axis`."""
        swapped = peel(value, self.function.buffers)[1]
        return prefix_mask(load, 1 - axis if swapped else axis) is not None

    def _viewed(self, value: SSAValue, op: MatrixProduct) -> Any:
        """The load that an operand comes from, if it can be delayed until the dot."""
        if len(ir.shape_of(value.type)) != 2:
            return None
        value, _ = peel(value, self.function.buffers)
        load: Any = value.owner
        if value in self.function.buffers or not isinstance(load, LoadOp):
            return None
        if load.isVolatile or load.parent is not op.parent:
            return None
        changed = self.grouping.changed_between(self.positions[load], self.positions[op])
        return None if changed else load

    def _accumulator(self, op: MatrixProduct, position: float) -> tuple[Buffer, bool]:
        """The buffer of the result, filled with the third operand (or not, if that is zero)."""
        constant: Any = op.c.owner
        if isinstance(constant, ConstantOp) and not any(bytes(constant.value.data.data)):
            return self.grouping.new_buffer(op.result), True
        held = self.function.buffers.get(op.c)
        if held is not None and len(list(op.c.uses)) == 1 and self._owned(op.c, op):
            return held, False
        target = self._carried_slot(op)
        buffer = target or self.grouping.new_buffer(op.result)
        self.copy(op.c, buffer, position - 0.5)
        return buffer, False

    def _owned(self, value: SSAValue, op: Op) -> bool:
        """Whether a buffered value belongs to this iteration of the block, so may be
        overwritten."""
        owner: Any = value.owner
        if isinstance(owner, Block):
            return owner is op.parent and owner.parent_op() is not self.op
        return owner.parent is op.parent and isinstance(owner, (MatrixProduct, scf.ForOp, scf.IfOp))

    def _carried_slot(self, op: MatrixProduct) -> Buffer | None:
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

    def _for(self, body: Body, op: scf.ForOp, position: float) -> None:
        buffers = self.buffers(op.body.args[1:], op.results)
        self.fill(buffers, op.inits, position - 0.5)
        self.grouping.effect(op, position)
        body.add(For(position, op, self.body(op.body), buffers))

    def _if(self, body: Body, op: scf.IfOp, position: float) -> None:
        buffers = self.buffers(op.results)
        self.grouping.effect(op, position)
        bodies = [self.body(r.blocks[0]) for r in op.regions if r.blocks]
        otherwise = bodies[1] if len(bodies) > 1 else None
        body.add(If(position, op, bodies[0], otherwise, buffers))

    def _while(self, body: Body, op: scf.WhileOp, position: float) -> None:
        before, after = (region.block for region in op.regions)
        first = self.buffers(before.args)
        self.fill(first, op.inits, position - 0.5)
        second = self.buffers(after.args, op.results)
        self.grouping.effect(op, position)
        body.add(While(position, op, self.body(before), self.body(after), first, second))

    def _leave(self, op: Any, position: float) -> None:
        """Tiles that a terminator passes on go to the buffers of where they arrive."""
        owner: Any = op if op.successors else op.parent_op()
        if owner is self.op:
            self.fill(self.function.results, op.operands, position)
        passed = (
            (value, self.function.buffers[target])
            for edge in owner.control_edges() if edge.source is op
            for value, target in zip(edge.values, edge.targets, strict=True) if is_tile(value)
        )  # fmt: skip
        for value, buffer in dict.fromkeys(passed):
            self.copy(value, buffer, position)
