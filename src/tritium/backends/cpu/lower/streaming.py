"""A second version of a nest for whole tiles: without masks, with stores past the caches.

Where a launch writes far more than the caches hold, stores that bypass them save reading every
line before it is written (vector add from DRAM: 1.2 to 1.3 of torch instead of .8 to .95). Such
stores must be aligned and whole, so the nest is written twice, and which one runs is decided when
the nest is reached.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.steps import Steps
from tritium.backends.cpu.lower.types import memory_bytes
from tritium.backends.cpu.tiles.ir import Nest, TileFunction
from tritium.backends.cpu.tiles.ir import Step as TileStep
from tritium.ir import types as ir
from tritium.lowering.llvm import Value, const

ALIGNMENT = 16
"""Bytes: what stores past the caches must be aligned to; NumPy's large arrays are to no more."""


def stored_bytes(function: TileFunction) -> int:
    """What one program writes at least, in bytes, by stores of tiles outside of loops."""
    total = 0
    for body in function.blocks:
        for step in body.steps:
            if can_stream(step):
                assert isinstance(step, Nest)
                for root in step.roots:
                    size = memory_bytes(root.values[1].type)
                    total += size * step.domain[0]
    return total


def can_stream(step: TileStep) -> bool:
    """Whether a nest is of the kind that gets a second version: stores of one-dimensional tiles."""
    if not isinstance(step, Nest) or len(step.domain) != 1 or step.domain[0] < 64:
        return False
    return all(root.kind == "store" for root in step.roots)


def condition(c: Context, nest: Nest) -> tuple[Value, frozenset[SSAValue]] | None:
    """When the second version may run, and the masks that are true then; None if it never may."""
    f, steps = c.f, Steps(c)
    (size,) = nest.domain
    holds = c.program["stream"]
    zero, last = const("i64", 0), const("i64", size - 1)
    for root in nest.roots:
        pointer = root.values[0]
        step = steps.along(pointer, 0)
        if step is None or static(step) != 1:
            return None
        address = f.cast("ptrtoint", number_at(c, pointer, (zero,)), "i64")
        low = f.op("and", address, const("i64", ALIGNMENT - 1))
        holds = f.op("and", holds, f.icmp("eq", low, zero))
    masks = _masks(c, nest)
    for mask in masks:
        if not _monotone(steps, mask):
            return None
        for place in (zero, last):
            holds = f.op("and", holds, number_at(c, mask, (place,)))
    return holds, frozenset(masks)


def _masks(c: Context, nest: Nest) -> list[SSAValue]:
    """The masks of the stores and of the loads that they depend on."""
    found: dict[SSAValue, None] = {}
    stack = [v for root in nest.roots for v in root.values]
    for root in nest.roots:
        op: Any = root.op
        if op.mask is not None:
            found[op.mask] = None
    seen: set[SSAValue] = set()
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        if value in seen or isinstance(owner, Block) or value in c.filled:
            continue
        seen.add(value)
        if owner.name == "tt.load" and owner.mask is not None:
            found[owner.mask] = None
        if isinstance(value.type, ir.TensorType):
            stack.extend(owner.operands)
    return list(found)


def _monotone(steps: Steps, mask: SSAValue) -> bool:
    """Whether a mask that is true at both ends of a tile is true in between."""
    owner: Any = mask.owner
    name = getattr(owner, "name", "")
    if name == "arith.andi":
        return all(_monotone(steps, v) for v in owner.operands)
    if name == "tt.splat":
        return True
    return (
        name == "arith.cmpi"
        and owner.predicate.name[:1] == "S"
        and all(steps.along(v, 0) is not None for v in owner.operands)
    )
