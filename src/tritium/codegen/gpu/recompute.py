"""The tiles that are computed again behind a loop, instead of being held in registers.

A thread holds a loop's accumulators and operands. Offsets, coordinates and masks of tiles that are
used before the loop and behind it, for the stores of results say, would be held, or spilled, as
well.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tritium.analysis.regions import is_repeatable
from tritium.codegen.gpu.hardware import Hardware
from tritium.ir import types as ir
from tritium.ops.base import Op


def computed_again(loop: Op, hardware: Hardware) -> list[Op]:
    """The ops before a loop, in order, whose results are used behind it, not held in it, and cheap:
    integers, from scalars and from tiles that are held or computed again."""
    block = loop.parent
    assert block is not None
    held = {v for op in loop.walk() for v in op.operands}
    before, behind = list[Any](), list[Operation]()
    found = before
    for op in block.ops:
        if op is loop:
            found = behind
        else:
            found.append(op)
    cheap = dict[SSAValue, Op]()
    for op in before:
        tiles = [v for v in op.operands if _is_tile(v)]
        if _is_cheap(op, hardware) and all(v in held or v in cheap for v in tiles):
            cheap.update((v, op) for v in op.results if v not in held)
    wanted, chosen = [v for op in behind for o in op.walk() for v in o.operands], set[Operation]()
    while wanted:
        op = cheap.get(wanted.pop())
        if op is not None and op not in chosen:
            chosen.add(op)
            wanted += op.operands
    return [op for op in before if op in chosen]


def _is_tile(value: SSAValue) -> bool:
    return bool(ir.shape_of(value.type))


def _is_cheap(op: Operation, hardware: Hardware) -> bool:
    """Each thread computes an op's tiles of integers from its own registers."""
    if not isinstance(op, Op) or not is_repeatable(op) or hardware.scratch_bytes(op):
        return False
    local = op.tile_source or op.follows_layout or op.is_elementwise
    return local and all(_is_tile(v) and not ir.is_float(v.type) for v in op.results)
