"""What is usual of a one-dimensional nest, and a number that tells whether it is so: all masks are
true, and the numbers that tiles are divided by are neither huge nor tiny."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.division import is_ordinary
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.reach import computed
from tritium.backends.cpu.lower.steps import Steps
from tritium.backends.cpu.lower.values import Facts
from tritium.backends.cpu.tiles.ir import Nest
from tritium.ir import types as ir
from tritium.lowering.llvm import Value, const


def usual(c: Context, nest: Nest) -> tuple[Value, Facts] | None:
    """The facts of the nest, and whether they hold (i1); None if that cannot be told from the
    ends of a tile. Without any facts there is nothing to tell."""
    masks, divisors = _find(c, nest)
    f, steps, holds = c.f, Steps(c), const("i1", True)
    for mask in masks:
        if not _is_convex(steps, mask):
            return None
        for corner in _corners(ir.shape_of(mask.type)):
            holds = f.op("and", holds, number_at(c, mask, corner))
    for divisor in divisors:
        number = number_at(c, divisor, (const("i64", 0),))
        holds = f.op("and", holds, is_ordinary(f, number))
    return holds, Facts(frozenset(masks), frozenset(divisors))


def _find(c: Context, nest: Nest) -> tuple[list[SSAValue], list[SSAValue]]:
    """The masks of the stores and of the loads that they depend on, and the divisors that are one
    number in all of a tile."""
    masks, divisors = dict[SSAValue, None](), dict[SSAValue, None]()
    for root in nest.roots:
        op: Any = root.op
        if root.kind == "store" and op.mask is not None:
            masks[op.mask] = None
    for _, owner in computed(c, nest):
        if owner.name == "tt.load" and owner.mask is not None:
            masks[owner.mask] = None
        elif owner.name == "arith.divf" and _is_one_number(owner.rhs):
            divisors[owner.rhs] = None
    return list(masks), list(divisors)


def _is_one_number(value: SSAValue) -> bool:
    wide = ir.bit_width(ir.element_type(value.type)) >= 32
    return wide and getattr(value.owner, "name", "") == "tt.splat"


def _corners(shape: tuple[int, ...]) -> Iterator[tuple[Value, ...]]:
    """The positions at the ends of a tile along every dimension. The tile is that of the mask: a
    load that is rearranged on its way has another domain than the nest."""
    for corner in product(*(sorted({0, size - 1}) for size in shape)):
        yield tuple(const("i64", place) for place in corner)


def _is_convex(steps: Steps, mask: SSAValue) -> bool:
    """Whether a mask that is true at the corners of its tile is true in all of it."""
    owner: Any = mask.owner
    name = getattr(owner, "name", "")
    if name == "arith.andi":
        return all(_is_convex(steps, v) for v in owner.operands)
    if name == "tt.splat":
        return True
    return (
        name == "arith.cmpi"
        and owner.predicate.name[:1] == "S"
        and all(
            steps.along(v, dim) is not None
            for v in owner.operands
            for dim in range(len(ir.shape_of(v.type)))
        )
    )
