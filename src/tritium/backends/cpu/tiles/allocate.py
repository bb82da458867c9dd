"""Allocate places in scratch: buffers that are never needed at the same time may share.

before:
    buffer a: 64xf32
    buffer b: 64xf32
after (if `a` is read for the last time before `b` is filled):
    buffer a: 64xf32 at 0
    buffer b: 64xf32 at 0
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, SSAValue

from tritium.analysis.recursion import resolve
from tritium.backends.cpu.tiles.ir import (
    Body,
    Buffer,
    Dot,
    For,
    If,
    Nest,
    Step,
    TileFunction,
    While,
    WholeTile,
)
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.ir import types as ir
from tritium.passes.base import Pass

ALIGNMENT = 64


@dataclass(frozen=True)
class Allocate(Pass[TileProgram]):
    """Give each buffer its place in scratch."""

    name: ClassVar[str] = "tile-allocate"
    title: ClassVar[str] = "TileAllocate"

    def run(self, module: TileProgram) -> bool:
        for function in module.functions:
            _allocate(function)
        return True


def _allocate(function: TileFunction) -> None:
    """Set the offset of every buffer and the function's `scratch_bytes`."""
    lifetimes = _Lifetimes(function)
    for body in function.blocks:
        lifetimes.body(body)
    if len(function.blocks) > 1:
        # Blocks that branch to each other: what one fills, any other may read.
        for held in lifetimes.spans:
            lifetimes.spans[held] = (0, lifetimes.clock)
    for held in external(function):
        lifetimes.spans.pop(held, None)
    placed: list[tuple[int, int, int, int]] = []
    order = sorted(lifetimes.spans, key=lambda b: -b.bytes)
    for buffer in order:
        start, stop = lifetimes.spans[buffer]
        taken = sorted((low, high) for s, e, low, high in placed if s <= stop and start <= e)
        offset, size = 0, buffer.bytes
        for low, high in taken:
            if offset + size <= low:
                break
            offset = max(offset, -(-high // ALIGNMENT) * ALIGNMENT)
        buffer.offset = offset
        placed.append((start, stop, offset, offset + size))
    size = max((high for *_, high in placed), default=0)
    function.scratch_bytes = -(-size // ALIGNMENT) * ALIGNMENT


def external(function: TileFunction) -> list[Buffer]:
    """The buffers that the caller provides: tiles among the arguments and results."""
    arguments = [function.buffers.get(a) for a in function.blocks[0].block.args]
    return [b for b in (*arguments, *function.results) if b is not None]


class _Lifetimes:
    """For each buffer the first and last step (numbered in order) that touches it; a step within
    a loop counts as the whole loop for buffers that are touched outside of it as well."""

    def __init__(self, function: TileFunction):
        self.function = function
        self.clock = 0
        self.spans: dict[Buffer, tuple[int, int]] = {}
        self._number = {buffer: n for n, buffer in enumerate(function.all_buffers)}
        self._memo: dict[SSAValue, frozenset[Buffer]] = {}

    def touch(self, buffer: Buffer | None) -> None:
        if buffer is not None:
            start, stop = self.spans.get(buffer, (self.clock, self.clock))
            self.spans[buffer] = (min(start, self.clock), max(stop, self.clock))

    def reads(self, value: SSAValue, top: bool = True) -> None:
        for buffer in sorted(self._buffers(value), key=self._number.__getitem__):
            self.touch(buffer)
        owner: Any = value.owner
        if top and value in self.function.buffers and not isinstance(owner, Block):
            for operand in owner.operands:
                self.reads(operand, False)

    def _buffers(self, value: SSAValue) -> frozenset[Buffer]:
        return resolve(value, self._read_for, self._memo)

    def _read_for(
        self, value: SSAValue
    ) -> Generator[SSAValue, frozenset[Buffer], frozenset[Buffer]]:
        """The buffers that computing a value reads."""
        held = self.function.buffers.get(value)
        result: frozenset[Buffer] = frozenset()
        if held is not None:
            result = frozenset({held})
        elif isinstance(value.type, ir.TensorType) and not isinstance(value.owner, Block):
            for operand in value.owner.operands:
                result |= yield operand
        return result

    def body(self, body: Body) -> None:
        for step in body.steps:
            self.clock += 1
            self.step(step)

    def step(self, step: Step) -> None:
        if isinstance(step, Nest):
            for root in step.roots:
                for buffer in (*root.buffers, root.source):
                    self.touch(buffer)
                for value in root.values:
                    self.reads(value)
        elif isinstance(step, (Dot, WholeTile)):
            for buffer in [step.buffer] if isinstance(step, Dot) else step.buffers:
                self.touch(buffer)
            for value in step.op.operands:
                self.reads(value)
            if isinstance(step, WholeTile) and step.body is not None:
                self.body(step.body)
        elif isinstance(step, If):
            for held in step.buffers:
                self.touch(held)
            self.body(step.then)
            if step.otherwise is not None:
                self.body(step.otherwise)
            self.clock += 1
            for held in step.buffers:
                self.touch(held)
        elif isinstance(step, For):
            self._loop([step.body], step.buffers)
        elif isinstance(step, While):
            self._loop([step.before, step.after], (*step.before_buffers, *step.after_buffers))

    def _loop(self, bodies: list[Body], carried: tuple[Buffer | None, ...]) -> None:
        start, before = self.clock, dict(self.spans)
        for held in carried:
            self.touch(held)
        for body in bodies:
            self.body(body)
        self.clock += 1
        for held in carried:
            self.touch(held)
        # Filled before the loop and read in it: needed in every iteration.
        for buffer, (first, last) in self.spans.items():
            if buffer in before and last > start:
                self.spans[buffer] = (first, self.clock)
