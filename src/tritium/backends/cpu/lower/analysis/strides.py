"""Strides: the change of a value from one element, or one iteration of a loop, to the next.

`Strides(...).along(value)` is the difference that is the same all over the tile: for a pointer in
elements, for an integer as it is. It is what makes a tile of addresses a strided view.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.analysis.recursion import resolve
from tritium.backends.cpu.dot.operand import Step, add, as_value, static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.alias import retypes_pointers
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, MulIOp, constant_value
from tritium.ops.base import Op
from tritium.ops.effects import only_read

_Key = tuple[SSAValue, int | None]
_Rule = Generator[_Key, Step | None, Step | None]


class Strides:
    """Differences along a dimension of tiles (`dim`), or between iterations of `loop` (an
    `scf.for`).

    Code for them is emitted at the current position, i64.
    """

    def __init__(self, context: Context, loop: Any = None):
        self.c, self.f, self.loop = context, context.f, loop
        self._found: dict[tuple[SSAValue, int | None], Step | None] = {}

    def along(self, value: SSAValue, dim: int | None) -> Step | None:
        """The difference along axis `dim` (None: from one iteration to the next), or None if there
        is no one such number."""
        return resolve((value, dim), self._along, self._found)

    def _along(self, key: _Key) -> _Rule:
        value, dim = key
        owner: Any = value.owner
        tile = isinstance(value.type, ir.TensorType)
        if dim is not None and (not tile or ir.shape_of(value.type)[dim] == 1):
            return 0
        if isinstance(owner, Block):
            return self._argument(value, owner, dim)
        if dim is None and not self._inside(owner):
            return 0
        if owner.tile_source and not owner.operands:
            return 0 if dim is None else owner.spacing(dim)
        axes = owner.source_axes()
        if axes is not None:
            inner = None if dim is None else axes[dim]
            repeats = dim is not None and inner is None
            return 0 if repeats else (yield owner.operands[0], inner)
        return (yield from self._arithmetic(owner, dim))

    def _arithmetic(self, op: Any, dim: int | None) -> _Rule:
        shape = ir.shape_of(op.results[0].type)
        if any(ir.shape_of(v.type) not in ((), shape) for v in op.operands):
            return None
        steps: list[Step | None] = []
        for operand in op.operands:
            steps.append((yield operand, dim))
        if any(s is None for s in steps):
            return None
        if op.weights:
            return self._sum(op, steps)
        if retypes_pointers(op):
            return steps[0]
        if type(op) is MulIOp:
            return self._product(op, steps, dim)
        # Along an axis, equal addresses hold equal elements; an iteration may change them.
        effects = op.memory_effects()
        same = only_read(effects) and (dim is not None or not effects)
        return 0 if same and not op.regions and all(static(s) == 0 for s in steps) else None  # pyright: ignore

    def _sum(self, op: Op, steps: Sequence[Any]) -> Step | None:
        width = ir.bit_width(op.results[0].type)
        total: Step = 0
        unwrapped = self.c.assumed.unwrapped
        for value, step, weight in zip(op.operands, steps, op.weights, strict=True):
            # A number that wraps around changes by another amount where it is widened.
            if static(step) != 0 and ir.bit_width(value.type) < width and value not in unwrapped:
                return None
            total = add(self.f, total, step if weight == 1 else self._negative(step))
        return total

    def _negative(self, step: Step) -> Step:
        known = static(step)
        if known is not None:
            return -known
        return self.f.op("sub", const("i64", 0), as_value(step))

    def _product(self, op: Any, steps: list[Step | None], dim: int | None) -> Step | None:
        first, second = steps
        if static(first) == 0 and static(second) == 0:  # pyright: ignore
            return 0
        for step, other, factor in ((first, second, op.rhs), (second, first, op.lhs)):
            if static(other) != 0:  # pyright: ignore
                continue
            scalar = self.uniform(factor)
            if scalar is None or step is None:
                return None
            known, times = static(step), static(scalar)
            if known is not None and times is not None:
                return known * times
            if known == 1:
                return scalar
            return self.f.op("mul", as_value(step), as_value(scalar))
        return None

    def uniform(self, value: SSAValue) -> Step | None:
        """The number in all elements of a tile (or the scalar), i64; None if not uniform."""
        held = constant_value(value)
        if held is not None:
            return int(held.flat[0]) if (held == held.flat[0]).all() else None
        if isinstance(value.type, ir.TensorType):
            owner: Any = value.owner
            if isinstance(owner, Block) or (owner.source_axes() is None and owner.weights != (1,)):
                return None
            return self.uniform(owner.operands[0])
        scalar = self.c.scalars.get(value)
        if scalar is None or value_type(value.type) == "ptr":
            return None
        return self.as_i64(scalar)

    def as_i64(self, value: Value) -> Step:
        """A scalar integer, sign-extended."""
        known = static(value)
        if known is not None:
            return known
        return self.f.cast("sext", value, "i64")

    def _argument(self, value: SSAValue, block: Block, dim: int | None) -> Step | None:
        """An argument of a block: between iterations, what the loop adds to it."""
        if dim is not None:
            return None if value in self.c.buffers else 0
        if self.loop is None or block is not self.loop.body:
            return 0 if self._outside(block) else None
        number: int = value.index  # pyright: ignore
        if number == 0:
            return self.uniform(self.loop.step)
        following: SSAValue = block.last_op.operands[number - 1]  # pyright: ignore
        op: Any = following.owner
        if following is value:
            return 0
        if not isinstance(op, AddIOp) or op.parent is not block:
            return None
        first, second = op.operands
        if second is value:
            first, second = second, first
        if first is not value or not self._invariant(second):
            return None
        return self.uniform(second)

    def _invariant(self, value: SSAValue) -> bool:
        owner: Any = value.owner
        return self._outside(owner) if isinstance(owner, Block) else not self._inside(owner)

    def _inside(self, op: Any) -> bool:
        """Whether an op is in the loop."""
        while op is not None:
            if op is self.loop:
                return True
            op = op.parent_op()
        return False

    def _outside(self, block: Block) -> bool:
        return not self._inside(block.parent_op())
