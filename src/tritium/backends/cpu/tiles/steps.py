"""Steps: the change of a value from one element of a tile, or iteration of a loop, to the next.

`Steps(...).along(value, axis)` is the difference that is the same all over the tile: for a pointer
in elements, for an integer as it is. It is what makes a tile of addresses a strided view. Numbers
that are known when compiling are integers, all others are `DYNAMIC`. Nothing is taken to wrap
around; `lower/analysis/strides.py` finds the same numbers in code, where that is tested.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.analysis.recursion import resolve
from tritium.backends.cpu.dot.operand import Step, static
from tritium.codegen.llvm.writer import Value
from tritium.ir import types as ir
from tritium.ops.arith import constant_value
from tritium.ops.arith.integer import addend
from tritium.ops.base import Op, retypes_pointers
from tritium.ops.effects import only_read

DYNAMIC = Value("i64", "%dynamic")
"""A number that is known when the program runs."""

_Key = tuple[SSAValue, int | None]
_Rule = Generator[_Key, Step | None, Step | None]


def is_narrower(value: SSAValue, op: Op) -> bool:
    """True if an operand has fewer bits than the op's result."""
    return ir.bit_width(value.type) < ir.bit_width(op.results[0].type)


class Steps:
    """Differences along a dimension of tiles (`dim`), or between iterations of `loop` (an
    `scf.for`); `buffers` are the values that are in memory."""

    def __init__(self, buffers: Container[SSAValue], loop: Any = None):
        self.buffers, self.loop = buffers, loop
        self._found: dict[tuple[SSAValue, int | None], Step | None] = {}

    # Arithmetic

    def sum(self, left: Step, right: Step) -> Step:
        """left + right."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return right if left == 0 else left if right == 0 else DYNAMIC

    def negative(self, step: Step) -> Step:
        """-step."""
        return -step if isinstance(step, int) else DYNAMIC

    def product(self, left: Step, right: Step) -> Step:
        """left * right, not both known."""
        return DYNAMIC

    def scaled(self, step: Step, factor: int) -> Step:
        """step * factor."""
        return step * factor if isinstance(step, int) else DYNAMIC

    def scalar(self, value: SSAValue) -> Step | None:
        """A scalar that is no constant; None for pointers and what is not known yet."""
        return DYNAMIC if ir.is_integer(value.type) else None

    def wraps(self, value: SSAValue) -> bool:
        """True if a tile of integers may wrap around in its own type."""
        return False

    # The analysis

    def along(self, value: SSAValue, dim: int | None) -> Step | None:
        """The difference along axis `dim` (None: from one iteration to the next), or None if there
        is no one such number."""
        return resolve((value, dim), self._along, self._found)

    def uniform(self, value: SSAValue) -> Step | None:
        """The number in all elements of a tile (or the scalar); None if not uniform."""
        held = constant_value(value)
        if held is not None:
            return int(held.flat[0]) if (held == held.flat[0]).all() else None
        if isinstance(value.type, ir.TensorType):
            owner: Any = value.owner
            if owner.__class__ is Block or (owner.source_axes() is None and owner.weights != (1,)):
                return None
            return self.uniform(owner.operands[0])
        return self.scalar(value)

    def _along(self, key: _Key) -> _Rule:
        value, dim = key
        owner: Any = value.owner
        if dim is not None and ir.extent(value.type, dim) == 1:
            return 0
        if owner.__class__ is Block:
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
        operands: tuple[SSAValue, ...] = tuple(op.operands)
        if not op.is_elementwise:
            shape = ir.shape_of(op.results[0].type)
            if any(ir.shape_of(v.type) not in ((), shape) for v in operands):
                return None
        steps: list[Step | None] = []
        for operand in operands:
            steps.append((yield operand, dim))
        if any(s is None for s in steps):
            return None
        if op.weights:
            return self._sum(op, steps)
        if retypes_pointers(op):
            return steps[0]
        if op.multiplies:
            return self._product(op, steps)
        # Along an axis, equal addresses hold equal elements; an iteration may change them.
        effects = op.memory_effects()
        same = only_read(effects) and (dim is not None or not effects)
        return 0 if same and not op.regions and all(static(s) == 0 for s in steps) else None  # pyright: ignore

    def _sum(self, op: Op, steps: Sequence[Any]) -> Step | None:
        total: Step = 0
        for value, step, weight in zip(op.operands, steps, op.weights, strict=True):
            # A number that wraps around changes by another amount where it is widened.
            if static(step) != 0 and self.wraps(value) and is_narrower(value, op):
                return None
            total = self.sum(total, step if weight == 1 else self.negative(step))
        return total

    def _product(self, op: Any, steps: list[Step | None]) -> Step | None:
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
            return scalar if known == 1 else self.product(step, scalar)
        return None

    def _argument(self, value: SSAValue, block: Block, dim: int | None) -> Step | None:
        """An argument of a block: between iterations, what the loop adds to it."""
        if dim is not None:
            return None if value in self.buffers else 0
        if self.loop is None or block is not self.loop.body:
            return 0 if self._outside(block) else None
        number: int = value.index  # pyright: ignore
        if number == 0:
            return self.uniform(self.loop.step)
        following: SSAValue = block.last_op.operands[number - 1]  # pyright: ignore
        if following is value:
            return 0
        op: Any = following.owner
        by = addend(op, value)
        if by is None or op.parent is not block or not self._invariant(by):
            return None
        return self.uniform(by)

    def _invariant(self, value: SSAValue) -> bool:
        owner: Any = value.owner
        return self._outside(owner) if owner.__class__ is Block else not self._inside(owner)

    def _inside(self, op: Any) -> bool:
        """True if an op is in the loop."""
        while op is not None:
            if op is self.loop:
                return True
            op = op.parent_op()
        return False

    def _outside(self, block: Block) -> bool:
        return not self._inside(block.parent_op())
