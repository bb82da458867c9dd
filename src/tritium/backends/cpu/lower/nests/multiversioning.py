"""Versions of a nest, of which one is chosen when the nest is reached.

One-dimensional nests have

    whole    all masks are true (`fast_path`): nothing is compared, loads and stores are plain;
             of stores there is one more that bypasses the caches
    general  else

Reductions that look for the largest or smallest float are quick: a maximum whose accumulator
starts at -inf need not test each element for NaN, since one that compares as not larger is left
out anyway. Only if nothing was larger than -inf may the answer be wrong (NaN where all elements
are NaN), and then the nest runs once more, exactly. The results of several rows are looked at
when all of them are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Protocol

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.analysis.fast_path import unmasked
from tritium.backends.cpu.lower.context import Context, either
from tritium.backends.cpu.lower.nests.streaming import Lines, may_stream
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import NOTHING, Facts
from tritium.backends.cpu.tiles.ir import Nest
from tritium.backends.cpu.tiles.slices import Slice
from tritium.backends.cpu.tiles.version import extreme_of, masks_of
from tritium.codegen.llvm.writer import Value, const, mangle, vector
from tritium.ir import types as ir
from tritium.ops.tile.nests import BufferOp


class Write(Protocol):
    """Writes one version of a nest."""

    def __call__(
        self, facts: Facts = ..., *, lines: Lines | None = ..., quick: bool = ...
    ) -> None: ...


def scalar_results(nest: Nest) -> list[SSAValue]:
    """The scalars that a nest computes."""
    return [
        result
        for root in nest.roots
        for result in root.results
        if not isinstance(result.type, ir.TensorType)
    ]


def lower_versions(c: Context, part: Slice, write: Write) -> None:
    """Write a nest of copies, stores and reductions in its versions."""
    nest = part.nest
    quick, results = "quick" in nest.versions, scalar_results(nest)

    def first(facts: Facts) -> None:
        if "streaming" in nest.versions:
            holds, lines = may_stream(c, part)
            past_caches = partial(write, facts, lines=lines)
            either(c, (), holds, past_caches, partial(write, facts), ("past", "cached"))
        else:
            write(facts, quick=quick)

    masks = masks_of(part)
    holds = unmasked(c, masks) if "unmasked" in nest.versions else None
    if holds is not None:
        facts = Facts(frozenset(masks))
        either(c, results, holds, partial(first, facts), partial(write, quick=quick))
    elif part.masks:
        write(quick=quick)
    else:
        first(NOTHING)
    if quick:
        _exactly_if_in_doubt(c, nest, results, write)


def _exactly_if_in_doubt(c: Context, nest: Nest, results: Sequence[SSAValue], write: Write) -> None:
    """A nest once more if a quick reduction found nothing."""
    doubtful = const("i1", False)
    for root in nest.roots:
        if (extreme := extreme_of(root)) is not None:
            (buffer,) = c.function.held(root)
            if buffer is not None:
                same = _holds(c, buffer, extreme[1])
            else:
                value = c.scalars[root.results[0]]
                same = c.f.fcmp("oeq", value, const(value.type, extreme[1]))
            doubtful = c.f.op("or", doubtful, same)
    either(c, results, doubtful, write, lambda: None, ("exact", "certain"))


def _holds(c: Context, buffer: BufferOp, number: float) -> Value:
    """A condition (i1), that an element of a buffer of floats is a number."""
    f, size = c.f, prod(buffer.shape)
    width = min(size, 64 // buffer.element_bytes)
    if width == 1:
        value = f.load(value_type(buffer.element), c.address(buffer), buffer.element_bytes)
        return f.fcmp("oeq", value, const(value.type, number))
    type_ = vector(value_type(buffer.element), width)
    start, none = c.address(buffer), const(vector("i1", width), 0)
    with f.loop(const("i64", 0), const("i64", size), const("i64", width), [none],
                at_least_once=True) as loop:  # fmt: skip
        element = f"i{8 * buffer.element_bytes}"
        value = f.load(type_, f.gep(element, start, loop.index), buffer.element_bytes)
        loop.next = [f.op("or", loop.carried[0], f.fcmp("oeq", value, const(type_, number)))]
    found = loop.results[0]
    return f.call("i1", f"llvm.vector.reduce.or.{mangle(found.type)}", found)
