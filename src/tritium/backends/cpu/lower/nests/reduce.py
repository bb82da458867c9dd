"""Combine regions: reductions by vector accumulators, then across lanes by halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.access import store_buffer
from tritium.backends.cpu.lower.analysis.index_compares import known_in_order
from tritium.backends.cpu.lower.context import Context, as_tuple
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.moves.shape import scalar_constant
from tritium.backends.cpu.lower.types import fp, value_type
from tritium.backends.cpu.lower.values import Uniform, Vec
from tritium.backends.cpu.tiles.ir import runs_on_scalars
from tritium.backends.cpu.tiles.version import extreme_of
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, const, lanes, vector
from tritium.codegen.registry import rules
from tritium.ir import types as ir
from tritium.ops.arith import CmpFOp, OrIOp, attr_value
from tritium.ops.ttir.reduction import CombiningOp, combining_op

_PAIRS = {"oeq": "une", "ogt": "ule", "oge": "ult", "olt": "uge", "ole": "ugt", "one": "ueq",
          "ord": "uno", "true": "false"}  # fmt: skip
_INVERSE = _PAIRS | {b: a for a, b in _PAIRS.items()}
"""LLVM's names of float comparisons, and of those that are true where they are false."""
NOTHING_SETTLED: Mapping[SSAValue, bool] = MappingProxyType({})


def combine_region(
    context: Context,
    root: CombiningOp,
    arguments: Sequence[Value],
    why: str,
    settled: Mapping[SSAValue, bool] = NOTHING_SETTLED,
) -> list[Value]:
    """Write the combine region of a reduction or scan on scalars or vectors; returns what it
    returns.

    Scalars from outside the region are spread over the lanes; `settled` are conditions whose values
    are known. Raises NotImplementedError for ops that do not act on each element alone.
    """
    block: Any = root.regions[0].block
    if runs_on_scalars(root):
        context.scalars.update(zip(block.args, arguments, strict=True))
        context.run(context, block)
        return [context.scalars[v] for v in block.last_op.operands]
    table = rules("cpu")
    width = lanes(arguments[0].type)
    known: dict[SSAValue, Value] = dict(zip(block.args, arguments, strict=True))

    def value_of(value: SSAValue) -> Value:
        found = known.get(value)
        if found is None:
            held = context.scalars.get(value)
            if held is None:
                raise context.unsupported(block.parent_op(), f" ({why} uses a tile)")
            found = known[value] = context.f.splat(held, width)
        return found

    inverses: dict[SSAValue, Value] = {}
    for op in block.ops:
        if op is block.last_op:
            return [value_of(v) for v in op.operands]
        if op.is_constant:
            held = scalar_constant(attr_value(op.value), op.results[0].type)
            known[op.results[0]] = context.f.splat(held, width)
            continue
        if op.results[0] in settled:
            known[op.results[0]] = const(vector("i1", width), int(settled[op.results[0]]))
            continue
        if op.chooses and op.operands[0] in settled:
            chosen = op.operands[1 if settled[op.operands[0]] else 2]
            known[op.results[0]] = value_of(chosen)
            if chosen in inverses:
                inverses[op.results[0]] = inverses[chosen]
            continue
        if isinstance(op, OrIOp) and width > 1 and all(map(_is_float_compare, op.operands)):
            inverses[op.results[0]] = _neither(context, op, value_of)
        if op.chooses and op.operands[0] in inverses:
            _, then, other = map(value_of, op.operands)
            known[op.results[0]] = context.f.select(inverses[op.operands[0]], other, then)
            continue
        rule = table.get(type(op))  # pyright: ignore
        if rule is None:
            raise context.unsupported(op, f" in {why}")
        results = rule(context, op, *(value_of(v) for v in op.operands))
        known.update(zip(op.results, as_tuple(results), strict=True))
    raise AssertionError("a region without a terminator")


def _is_float_compare(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, CmpFOp) and ir.bit_width(op.operands[0].type) >= 32


def _neither(c: Context, op: Any, value_of: Callable[[SSAValue], Value]) -> Value:
    """The inverse of an `or` of comparisons, as an `and` of their inverses: AVX-512 compares under
    a mask, and moves what replaces the accumulator under one. Tests of one element, for NaN, do
    not wait for the accumulator and go first."""
    compares: list[Any] = sorted(
        (operand.owner for operand in op.operands), key=lambda one: len(set(one.operands))
    )
    inverses: list[Value] = []
    for one in compares:
        left, right = map(value_of, one.operands)
        inverses.append(c.f.fcmp(_INVERSE[one.predicate.name.lower()], left, right))
    first, second = inverses
    return c.f.op("and", first, second)


class Reduction:
    """A `tt.reduce`: its operands' accumulators are vectors, one list a chunk.

    `quick`: should it look for the largest or smallest float, do so without a test for NaN.
    """

    def __init__(self, context: Context, root: Any, quick: bool = False):
        self.context, self.root = context, root
        op: Any = root
        if len(op.regions[0].blocks) != 1:
            raise context.unsupported(op, " (branches in the combine function)")
        self.block: Block = op.regions[0].block
        self.operator = combining_op(self.block)
        self.type = ir.element_type(root.operands[0].type)
        self.neutral = None if self.operator is None else self.operator.identity_of(self.type)
        # Sixteen-bit floats would be converted there and back for each element; in float, a sum is
        # rounded once.
        small = ir.is_float(self.type) and ir.bit_width(self.type) == 16
        self.narrow = FORMATS[self.type] if small and self.neutral is not None else None
        self.extreme = extreme_of(root) if quick else None
        self._in_order = known_in_order(op)

    def identity(self, width: int) -> list[Value] | None:
        """Values that change nothing when combined, if the region is known to have some."""
        number = self.extreme[1] if self.extreme else self.neutral
        held = "float" if self.narrow else value_type(self.type)
        return None if number is None else [const(vector(held, width), number)]

    def elements(self, e: Emitter, at: At) -> list[Value]:
        """The operands at a position, as they are accumulated."""
        values = [e.vec(e.emit(v, at)) for v in self.root.operands]
        if self.narrow is None:
            return values
        c = self.context
        return [fp(c.f, v, self.narrow, "fp32", features=c.features) for v in values]

    def combine(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """The region on two lists of operands."""
        if self.extreme:
            f, (old,), (new,) = self.context.f, left, right
            return [f.select(f.fcmp(self.extreme[0], new, old), new, old)]
        return combine_region(self.context, self.root, [*left, *right], "a reduction")

    def accumulate(self, total: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """The region on what has been accumulated and elements that come after it."""
        if self.extreme or not self._in_order:
            return self.combine(total, new)
        operands = [*total, *new]
        return combine_region(self.context, self.root, operands, "a reduction", self._in_order)

    def fold(self, chunks: list[list[Value]]) -> list[Value]:
        """The accumulators of several chunks in one."""
        while len(chunks) > 1:
            half = len(chunks) // 2
            chunks = [self.combine(chunks[i], chunks[i + half]) for i in range(half)]
        return chunks[0]

    def lanes(self, e: Emitter, values: list[Value]) -> list[Value]:
        """Combine all lanes in one scalar, by halves."""
        f, width = e.f, lanes(values[0].type)
        while width > 2:
            half = width // 2
            low = [f.shuffle(v, None, list(range(half))) for v in values]
            high = [f.shuffle(v, None, list(range(half, width))) for v in values]
            values, width = self.combine(low, high), half
        if width == 2:
            values = self.combine([f.extract(v, 0) for v in values],
                                  [f.extract(v, 1) for v in values])  # fmt: skip
        return values

    def finish(self, e: Emitter, values: list[Value], at: At) -> None:
        """Keep the results: scalars as such, elements of tiles in their buffers."""
        op: Any = self.root
        if self.narrow is not None:
            c = self.context
            values = [fp(c.f, v, "fp32", self.narrow, features=c.features) for v in values]
        buffers = self.context.function.held(op)
        for result, buffer, value in zip(op.results, buffers, values, strict=True):
            if buffer is None:
                if not isinstance(result.type, ir.TensorType):
                    self.context.scalars[result] = value
                continue
            if lanes(value.type) > 1:
                store_buffer(e, buffer, at, Vec(value, e.depth))
            else:
                width, e.width = e.width, 1
                store_buffer(e, buffer, at, Uniform(value, e.depth))
                e.width = width
