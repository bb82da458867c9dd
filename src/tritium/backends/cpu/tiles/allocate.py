"""Allocate places in scratch: buffers that are never needed at the same time may share.

before:
    tile.buffer @a : tensor<64xf32>
    tile.buffer @b : tensor<64xf32>
after (if `a` is read for the last time before `b` is filled):
    tile.buffer @a {offset = 0 : i32} : tensor<64xf32>
    tile.buffer @b {offset = 0 : i32} : tensor<64xf32>
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tritium.analysis.lifetimes import Lifetimes, Piece, Span, place
from tritium.analysis.recursion import resolve
from tritium.backends.cpu.tiles.ir import TileFunction, functions_of, homes
from tritium.ir import types as ir
from tritium.ops.fields import integer_attr
from tritium.ops.tile.nests import BUFFERS, BufferOp, is_nest, tiles_of
from tritium.passes.base import Pass

ALIGNMENT = 64


@dataclass(frozen=True)
class Allocate(Pass):
    """Give each buffer its place in scratch."""

    name: ClassVar[str] = "tile-allocate"
    keeps_analyses: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> bool:
        for function in functions_of(module, buffered=True):
            _allocate(function)
        return True


def _allocate(function: TileFunction) -> None:
    """Set the offset of every buffer and the function's `scratch_bytes`."""
    lifetimes, blocks = _Lifetimes(function), function.op.regions[0].blocks
    for block in blocks:
        lifetimes.body(block)
    if len(blocks) > 1:
        # Blocks that branch to each other: what one fills, any other may read.
        for held in lifetimes.spans:
            lifetimes.spans[held] = Span(0, lifetimes.clock)
    for held in external(function):
        lifetimes.spans.pop(held, None)
    pieces = [Piece(b, b.bytes, ALIGNMENT, span) for b, span in lifetimes.spans.items()]
    pieces.sort(key=lambda piece: -piece.size)
    offsets = place(pieces)
    for buffer, offset in offsets.items():
        buffer.properties["offset"] = integer_attr(offset, ir.i32)
    size = max((offsets[piece.key] + piece.size for piece in pieces), default=0)
    function.scratch_bytes = -(-size // ALIGNMENT) * ALIGNMENT


def external(function: TileFunction) -> list[BufferOp]:
    """The buffers that the caller provides: tiles among the arguments and results."""
    arguments = [function.buffers.get(a) for a in function.op.body.args]
    return [b for b in (*arguments, *function.results) if b is not None]


class _Lifetimes(Lifetimes[BufferOp]):
    """The spans of the buffers of a function: of the steps, numbered in order, that touch them."""

    def __init__(self, function: TileFunction):
        super().__init__()
        self.function = function
        self._number = {buffer: n for n, buffer in enumerate(function.named.values())}
        self._memo: dict[SSAValue, frozenset[BufferOp]] = {}

    def touch(self, key: BufferOp | None) -> None:
        """A buffer is needed at the current step; None: a value without one."""
        if key is not None:
            super().touch(key)

    def reads(self, value: SSAValue, top: bool = True) -> None:
        for buffer in sorted(self._buffers(value), key=self._number.__getitem__):
            self.touch(buffer)
        owner: Any = value.owner
        if top and value in self.function.buffers and not isinstance(owner, Block):
            for operand in owner.operands:
                self.reads(operand, False)

    def _buffers(self, value: SSAValue) -> frozenset[BufferOp]:
        return resolve(value, self._read_for, self._memo)

    def _read_for(
        self, value: SSAValue
    ) -> Generator[SSAValue, frozenset[BufferOp], frozenset[BufferOp]]:
        """The buffers that computing a value reads."""
        held = self.function.buffers.get(value)
        result: frozenset[BufferOp] = frozenset()
        if held is not None:
            result = frozenset({held})
        elif isinstance(value.type, ir.TensorType) and not isinstance(value.owner, Block):
            for operand in value.owner.operands:
                result |= yield operand
        return result

    def body(self, block: Block) -> None:
        for op in block.ops:
            self.clock += 1
            self.step(op)

    def step(self, op: Any) -> None:
        if not op.regions and BUFFERS not in op.attributes:
            return
        held = self.function.held(op)
        if is_nest(op):
            for root in op.roots:
                for buffer in self.function.touched(root):
                    self.touch(buffer)
                for value in tiles_of(root):
                    self.reads(value)
        elif op.is_loop:
            self._loop(op)
        elif op.controls:
            for buffer in held:
                self.touch(buffer)
            for region in op.regions:
                if region.blocks:
                    self.body(region.block)
            self.clock += 1
            for buffer in held:
                self.touch(buffer)
        else:
            for buffer in held:
                self.touch(buffer)
            for value in op.operands:
                self.reads(value)
            for region in op.regions:
                self.body(region.block)

    def _loop(self, op: Any) -> None:
        carried = [b for values in homes(op) if (b := self.function.buffers.get(values[0]))]
        with self.loop():
            for held in carried:
                self.touch(held)
            for region in op.regions:
                self.body(region.block)
            self.clock += 1
            for held in carried:
                self.touch(held)
