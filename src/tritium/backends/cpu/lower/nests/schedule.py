"""Choosing the lane dimension, the number of lanes and the unrolling of a nest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.moves.transpose import block_dimension, store_dimension
from tritium.backends.cpu.tiles.ir import Nest, runs_on_scalars
from tritium.ir import types as ir
from tritium.ops.tile.nests import tiles_of
from tritium.ops.ttir.memory import LoadOp
from tritium.ops.ttir.reduction import ReduceOp, ScanOp

_HEAVY = 24
"""From so many ops on, a chunk has enough parallelism of its own: unroll less."""


@dataclass(frozen=True)
class Shape:
    """`lane`: the dimension that runs over lanes; `width` lanes; `unroll` chunks at a time.
    `block`: the dimension along which blocks are transposed in registers."""

    lane: int
    width: int
    unroll: int
    block: int | None = None

    def in_order(self, nest: Nest) -> bool:
        """Whether chunks come in the row-major order of their elements."""
        last = max(len(nest.domain) - 1, 0)
        return self.lane == last and self.block is None and nest.axis in (None, last)


def choose(context: Context, nest: Nest, in_order: bool = False) -> Shape:
    """The shape of a nest of pointwise roots and reductions; `in_order` if chunks must be (of a
    nest that does not reduce)."""
    domain = nest.domain
    if not domain:
        return Shape(0, 1, 1)
    values = [v for root in nest.roots for v in tiles_of(root)]
    seen: set[SSAValue] = set()
    bits, weight = 0, 0
    stack = list(values)
    while stack:
        value: Any = stack.pop()
        if value in seen or not ir.shape_of(value.type):
            continue
        seen.add(value)
        owner: Any = value.owner
        leaf = isinstance(owner, Block) or value in context.buffers
        loaded = type(owner) is LoadOp
        data = leaf or value in values or loaded or ir.is_float(value.type)
        if data and not ir.is_pointer(value.type):
            bits = max(bits, _lane_bits(value.type))
        weight += ir.is_float(value.type)
        if not isinstance(owner, Block) and (not leaf or value in values):
            stack.extend(owner.operands)
    lane = len(domain) - 1 if in_order else store_dimension(context, nest)
    lane = _lane_dimension(domain) if lane is None else lane
    if any(isinstance(r, (ReduceOp, ScanOp)) and runs_on_scalars(r) for r in nest.roots):
        return Shape(lane, 1, 1)
    size = domain[lane]
    width = min(context.host.bits // max(bits, 8), size)
    block = block_dimension(context, nest, lane, min(width, context.host.registers))
    if block is not None and not in_order:
        return Shape(lane, min(width, context.host.registers), 1, block)
    unroll = 4 if weight < _HEAVY else 2
    return Shape(lane, width, max(1, min(unroll, size // width)))


def _lane_bits(type: ir.Type) -> int:
    """Bits that a lane computes in: sixteen-bit floats are computed as float."""
    bits = ir.bit_width(type)
    if ir.is_float(type):
        return max(bits, 32)
    return 8 if bits == 1 else bits


def _lane_dimension(domain: tuple[int, ...]) -> int:
    last = len(domain) - 1
    if domain[last] >= 8:
        return last
    return max(range(len(domain)), key=lambda d: (domain[d] if domain[d] <= 16 else 16, d))
