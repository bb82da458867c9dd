"""Blocks of K: products without matrix units that read operands from shared memory themselves, a
block at a time (`fma`)."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from xdsl.ir import Operation

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, BlockedEncoding
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops.base import Op
from tritium.ops.ttir.dot import MatrixProduct

PRODUCTS = 2048
"""The multiplications that a thread does in one iteration of the loop, about. Fewer than two
iterations are no loop."""


def k_block(c: Context, dot: Any) -> int:
    """The extent of K that one iteration of the product's loop takes; 0 where there is no loop.

    Its operands are then loaded where the product is, instead of where their `local_load` is: no
    barrier may stand in between, and nothing may be written.
    """
    result: Any = dot.results[0].type
    if not isinstance(result.encoding, BlockedEncoding):
        return 0
    block = max(PRODUCTS // len(distinct_registers(layout_of(result))), 1)
    if 2 * block > dot.k or not _loaded_before(c, dot):
        return 0
    rank = len(ir.shape_of(result))
    layouts = (layout_of(dot.a.type), rank - 1), (layout_of(dot.b.type), rank - 2)
    iterations = (dot.k // block).bit_length() - 1
    known = all(len(outer_bits(layout, axis, block)) == iterations for layout, axis in layouts)
    return block if known else 0


def outer_bits(layout: LinearLayout, axis: int, block: int) -> list[int]:
    """The register bits that are `block`, 2 `block`, 4 `block`, ... further along an axis."""
    bases = layout.bases(REGISTER)
    rank = len(layout.out_names)
    wanted = (
        tuple(block << i if a == axis else 0 for a in range(rank)) for i in range(len(bases))
    )
    return [bases.index(step) for step in takewhile(bases.__contains__, wanted)]


def feeds_blocks(c: Context, load: Any) -> bool:
    """True if what a `local_load` reads is read by a product instead."""
    use = load.results[0].first_use
    return use is not None and isinstance(use.operation, MatrixProduct) and \
        k_block(c, use.operation) > 0  # fmt: skip


def _is_harmless(c: Context, op: Operation) -> bool:
    """True if the op may stand between the loads and the product: it writes no memory, and has no
    scratch, which may lie where the operands do."""
    return isinstance(op, Op) and not op.regions and op.only_reads and op not in c.offsets


def _loaded_before(c: Context, dot: Any) -> bool:
    waiting: set[Operation] = set()
    for operand in (dot.a, dot.b):
        load = operand.owner
        if not isinstance(load, Op) or load.tile_memory is None or not operand.has_one_use():
            return False
        waiting.add(load)
    op: Operation | None = dot
    while waiting and op is not None:
        if op in c.barriers:
            return False
        op = op.prev_op
        waiting.discard(op)  # pyright: ignore[reportArgumentType]
        if op is not None and waiting and not _is_harmless(c, op):
            return False
    return not waiting
