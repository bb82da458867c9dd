"""Reference semantics of the tile stage: nests in order, tiles in buffers, NumPy for the rest.

Tiles exist only in buffers, which hold garbage until a nest fills them; those with a place in
scratch share its bytes. What is in no buffer is computed where it is needed, from memory as it is
then: so a pass that lets a nest read too early or too late, or that gives two live buffers the
same place, changes what the program computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.ir import types as ir
from tritium.ops import scf
from tritium.ops.evaluation import Evaluator, Jump, Return
from tritium.ops.tile.nests import BUFFERS, OPERAND, ZERO, BufferOp, CopyOp, NestOp, is_tile
from tritium.ops.ttir.debug import PrintOp
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.function import FuncOp

GARBAGE = 0xA5
NONE: frozenset[SSAValue] = frozenset()


class TileEvaluator(Evaluator):
    """Runs functions of a module after `tile-fuse`."""

    frame: _Frame

    def call(self, symbol: str, *arguments: Any) -> tuple[Any, ...]:
        function: Any = self._functions[symbol]
        outer = getattr(self, "frame", None)
        self.frame = frame = _Frame(function)
        for argument, value in zip(function.body.args, arguments, strict=True):
            if is_tile(argument):
                frame.fill(argument, value)
        with np.errstate(all="ignore"):
            results = self.run_region(function.regions[0], *arguments)
        found = tuple(
            value if buffer is None else frame.arrays[buffer].copy()
            for value, buffer in zip(results, frame.function.results, strict=True)
        )
        if outer is not None:
            self.frame = outer
        return found

    def _run_block(self, block: Block, arguments: Sequence[Any]) -> Jump | Return:
        environment = self._environment
        environment.update(
            (a, v) for a, v in zip(block.args, arguments, strict=True) if not is_tile(a)
        )
        frame = self.frame
        frame.filled -= frame.filled_in(block)  # by the iteration before
        frame.filled.update(a for a in block.args if a in frame.function.buffers)
        for op in block.ops:
            outcome = self._run(op)
            if isinstance(outcome, (Jump, Return)):
                return outcome
        raise AssertionError("a block ended without a terminator")

    def _run(self, op: Any) -> Any:
        known: dict[SSAValue, Any] = {}
        if isinstance(op, BufferOp):
            return None
        if isinstance(op, NestOp):
            self._nest(op)
            return None
        if isinstance(op, (scf.ForOp, scf.WhileOp, scf.IfOp)):
            values = [None if is_tile(v) else self._environment[v] for v in op.operands]
            groups = iter(values)
            self._define(op, op.evaluate(self, *(
                tuple(groups) if field.kind == "variadic" else next(groups)
                for field in op.operand_fields
            )))  # fmt: skip
            return None
        if op is op.parent.last_op:  # tiles have been copied to where they go
            return op.evaluate(self, *self._grouped(op, [
                None if is_tile(v) else self._environment[v] for v in op.operands
            ]))  # fmt: skip
        if any(map(is_tile, (*op.operands, *op.results))):
            if BUFFERS not in op.attributes:
                return None  # computed where it is needed
            if isinstance(op, MatrixProduct):
                held = self.frame.array(op.result)
                known[op.c] = np.zeros_like(held) if ZERO in op.attributes else held.copy()
        self._define(op, self._evaluate(op, known))
        return None

    def _nest(self, nest: NestOp) -> None:
        """Everything is computed before anything is written; of copies half of the elements
        first."""
        frame, half = self.frame, int(np.prod(nest.domain)) // 2
        copies = [root for root in nest.roots if isinstance(root, CopyOp)]
        keeps = frozenset(root.value for root in copies if root.keeps)
        parts = [slice(None)] if len(copies) < len(nest.roots) else [slice(half), slice(half, None)]
        for part in parts:
            known = self._needed(nest, keeps)
            sources = [frame.named(r.source).copy() if r.source else known[r.value] for r in copies]
            for root, source in zip(copies, sources, strict=True):
                frame.named(root.target).reshape(-1)[part] = source.reshape(-1)[part]
        frame.filled |= keeps
        for root in nest.roots:
            if isinstance(root, CopyOp):
                continue
            if not (isinstance(root, PrintOp) and root.attributes[OPERAND].value.data):
                self._define(root, self._evaluate(root, known))  # the first has printed all

    def _needed(self, nest: NestOp, keeps: frozenset[SSAValue]) -> dict[SSAValue, Any]:
        """Values that the roots of a nest read."""
        known: dict[SSAValue, Any] = {}
        for root in nest.roots:
            if not (isinstance(root, CopyOp) and root.source):
                for value in root.operands:
                    self._value(value, known, keeps)
        return known

    def _define(self, op: Any, outcome: Any) -> None:
        values = (outcome,) if len(op.results) == 1 else outcome or ()
        for result, value in zip(op.results, values, strict=True):
            if not is_tile(result):
                self._environment[result] = value
            elif value is not None and result in self.frame.function.buffers:
                self.frame.array(result)[...] = value
        self.frame.filled.update(r for r in op.results if r in self.frame.function.buffers)

    def _evaluate(self, op: Any, known: dict[SSAValue, Any]) -> Any:
        return op.evaluate(self, *self._grouped(op, [self._value(v, known) for v in op.operands]))

    def _grouped(self, op: Any, values: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        position = 0
        for field, group in zip(op.operand_fields, op.operand_groups(), strict=True):
            part = tuple(values[position : position + len(group)])
            position += len(group)
            found.append(part if field.kind == "variadic" else (part[0] if part else None))
        return found

    def _value(
        self, value: SSAValue, known: dict[SSAValue, Any], keeps: frozenset[SSAValue] = NONE
    ) -> Any:
        """A scalar, or a tile from its buffer, or computed now."""
        if not is_tile(value):
            return self._environment[value]
        if value not in known:
            if value in self.frame.filled and value not in keeps:
                known[value] = self.frame.array(value).copy()
            else:
                op: Any = value.owner
                assert not isinstance(op, Block), f"{value} is in no buffer"
                operands = [self._value(v, known, keeps) for v in op.operands]
                outcome = op.evaluate(self, *self._grouped(op, operands))
                results = (outcome,) if len(op.results) == 1 else outcome
                known.update(zip(op.results, results, strict=True))
        return known[value]


class _Frame:
    """The buffers of one call."""

    def __init__(self, op: FuncOp):
        self.function = TileFunction.of(op)
        self.filled: set[SSAValue] = set()
        scratch = np.full(self.function.scratch_bytes, GARBAGE, np.uint8)
        self.arrays: dict[BufferOp, np.ndarray] = {}
        for buffer in self.function.named.values():
            dtype = ir.numpy_dtype(buffer.element)
            raw = np.full(buffer.bytes, GARBAGE, np.uint8)
            if buffer.offset >= 0:
                raw = scratch[buffer.offset : buffer.offset + buffer.bytes]
                assert raw.size == buffer.bytes
            size = dtype.itemsize * int(np.prod(buffer.shape))
            assert size <= buffer.bytes
            self.arrays[buffer] = raw[:size].view(dtype).reshape(buffer.shape)

    def filled_in(self, block: Block) -> set[SSAValue]:
        """The values whose buffers the ops of a block fill."""
        roots = [root for op in block.ops if isinstance(op, NestOp) for root in op.roots]
        results = {result for op in (*block.ops, *roots) for result in op.results}
        return results | {root.value for root in roots if isinstance(root, CopyOp) and root.keeps}

    def array(self, value: SSAValue) -> np.ndarray:
        return self.arrays[self.function.buffers[value]]

    def named(self, name: str) -> np.ndarray:
        return self.arrays[self.function.named[name]]

    def fill(self, value: SSAValue, array: Any) -> None:
        self.array(value)[...] = array
        self.filled.add(value)
