"""Nests whose loads and stores go through different kernel arguments that may overlap.

A nest loads and stores chunk by chunk, which is what the program says as long as the tiles of
memory are apart, or are the same element by element. Before such a nest that is tested, once for
each pair of tiles, by first and last addresses; if it does not hold, the nest's parts are done one
whole after the other, in the order of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot.operand import Step, as_value, static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.reach import computed, rearranged
from tritium.backends.cpu.lower.steps import Steps
from tritium.backends.cpu.tiles.alias import base_of
from tritium.backends.cpu.tiles.ir import Nest
from tritium.ir import types as ir
from tritium.lowering.llvm import Function, Value, const


@dataclass(frozen=True)
class Extent:
    """A tile of addresses: its first element's, the lowest, the end of the highest (i64), and the
    distances between neighbours (elements) along each dimension longer than one."""

    first: Value
    low: Value
    end: Value
    steps: tuple[Step, ...]
    size: int


def loads_of(c: Context, nest: Nest) -> list[Any]:
    """The loads that a nest does, in no order."""
    return [op for value, op in computed(c, nest)
            if op.name == "tt.load" and isinstance(value.type, ir.TensorType)]  # fmt: skip


def apart(c: Context, nest: Nest) -> Value | None:
    """Whether the nest can be done chunk by chunk: an i1, or None if that needs no test. Code goes
    to the current position."""
    stores: list[Any] = [root.op for root in nest.roots if root.kind == "store"]
    if not stores:
        return None
    others = [*loads_of(c, nest), *stores]
    steps, extents = Steps(c), dict[SSAValue, Extent | None]()
    result: Value | None = None
    tested: set[tuple[SSAValue, SSAValue]] = set()
    moved = rearranged(c, nest)
    for number, store in enumerate(stores):
        for access in others[: len(others) - len(stores) + number]:
            pair = (access.ptr, store.ptr)
            if pair in tested or base_of(access.ptr) is base_of(store.ptr):
                continue
            tested.add(pair)
            for pointer in pair:
                if pointer not in extents:
                    extents[pointer] = _extent(c, steps, pointer)
            in_order = access in stores or access.results[0] not in moved
            holds = _pair(c.f, extents[pair[0]], extents[pair[1]], in_order)
            result = holds if result is None else c.f.op("and", result, holds)
    return result


def _extent(c: Context, steps: Steps, pointer: SSAValue) -> Extent | None:
    f, shape, size = c.f, ir.shape_of(pointer.type), c.pointee_bytes(pointer.type)
    distances: list[Step] = []
    for dim, count in enumerate(shape):
        if count == 1:
            continue
        step = steps.along(pointer, dim)
        if step is None:
            return None
        distances.append(step)
    zero = const("i64", 0)
    first = f.cast("ptrtoint", number_at(c, pointer, (zero,) * len(shape)), "i64")
    below, above = 0, size
    low, end = first, first
    for step, count in zip(distances, (n for n in shape if n > 1), strict=True):
        known = static(step)
        if known is not None:
            reach = known * size * (count - 1)
            below, above = below + min(reach, 0), above + max(reach, 0)
            continue
        span = f.op("mul", as_value(step), const("i64", size * (count - 1)))
        low = f.op("add", low, f.intrinsic("smin", span, zero))
        end = f.op("add", end, f.intrinsic("smax", span, zero))
    if below:
        low = f.op("add", low, const("i64", below))
    end = f.op("add", end, const("i64", above))
    return Extent(first, low, end, tuple(distances), size)


def _pair(f: Function, a: Extent | None, b: Extent | None, in_order: bool) -> Value:
    """Whether two tiles are apart, or the same element by element, which will do where each is read
    `in_order`: when the same one is written."""
    if a is None or b is None:
        return const("i1", False)
    holds = f.op("or", f.icmp("ule", a.end, b.low), f.icmp("ule", b.end, a.low))
    if not in_order or a.size != b.size or len(a.steps) != len(b.steps):
        return holds
    same = f.icmp("eq", a.first, b.first)
    for left, right in zip(a.steps, b.steps, strict=True):
        known, other = static(left), static(right)
        if known is not None and other is not None:
            if known != other:
                return holds
        elif left != right:
            same = f.op("and", same, f.icmp("eq", as_value(left), as_value(right)))
    return f.op("or", holds, same)
