"""Backward slice of a nest: the values that its roots depend on and that are not in memory yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.ir import Nest
from tritium.ir import types as ir
from tritium.ops.base import Movement
from tritium.ops.tile.nests import CopyOp, tiles_of


def rearranged(c: Context, nest: Nest) -> set[SSAValue]:
    """Those of the values that are put into another order before they get to where the nest stores
    them or what they become."""
    ops = dict(computed(c, nest))
    stack = [v for op in ops.values() if op.movement is Movement.REORDERED
             for v in op.operands]  # fmt: skip
    found: set[SSAValue] = set()
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack.extend(ops[value].operands if value in ops else ())
    return found


def computed(c: Context, nest: Nest) -> Iterator[tuple[SSAValue, Any]]:
    """Each value once, with the op that defines it. Numbers are given, but not followed further."""
    copies = [root for root in nest.roots if isinstance(root, CopyOp)]
    copied, filling = {r for r in copies if r.source}, {r.value for r in copies}
    stack = [v for root in nest.roots if root not in copied for v in tiles_of(root)]
    seen: set[SSAValue] = set()
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        held = value in c.filled and value not in filling
        if value in seen or isinstance(owner, Block) or held:
            continue
        seen.add(value)
        yield value, owner
        if isinstance(value.type, ir.TensorType):
            stack.extend(owner.operands)
