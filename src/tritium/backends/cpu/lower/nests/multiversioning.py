"""Versions of a nest, of which one is chosen when the nest is reached.

One-dimensional nests have

    whole    all masks are true (`fast_path`): nothing is compared, loads and stores are plain;
             of stores there is one more that bypasses the caches
    general  else

Reductions that look for the largest or smallest float are quick: a maximum whose accumulator
starts at -inf need not test each element for NaN, since one that compares as not larger is left
out anyway. Only if nothing was larger than -inf may the answer be wrong (NaN where all elements
are NaN), and then the nest runs once more, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.analysis.fast_path import usual
from tritium.backends.cpu.lower.context import Context, either
from tritium.backends.cpu.lower.nests.reduce import Reduction
from tritium.backends.cpu.lower.nests.streaming import Lines, can_stream, may_stream
from tritium.backends.cpu.lower.values import NOTHING, Facts
from tritium.backends.cpu.tiles.ir import Nest
from tritium.codegen.llvm.writer import const
from tritium.ir import types as ir
from tritium.ops.tile import CopyOp
from tritium.ops.ttir.reduction import ReduceOp
from tritium.ops.ttir.shape import UnsplatOp


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
        if isinstance(root, (ReduceOp, UnsplatOp))
        for result in root.results
        if not isinstance(result.type, ir.TensorType)
    ]


def lower_versions(c: Context, nest: Nest, width: int, write: Write) -> None:
    """Write a nest of copies, stores and reductions, in as many versions as are worth it; `width`
    is that of its chunks."""
    if can_stream(nest):
        past = may_stream(c, nest, width)

        def store(facts: Facts) -> None:
            if past is None:
                write(facts)
            else:
                holds, lines = past
                past_caches = partial(write, facts, lines=lines)
                either(c, (), holds, past_caches, partial(write, facts), ("past", "cached"))

        _usual_or_not(c, nest, (), store, write)
    elif _is_plain_reduction(nest):
        _lower_reduction(c, nest, write)
    else:
        write()


def _usual_or_not(
    c: Context,
    nest: Nest,
    results: Sequence[SSAValue],
    first: Callable[[Facts], None],
    second: Callable[[], None],
) -> None:
    """`first` where the nest's facts hold, `second` where they do not."""
    found = usual(c, nest)
    if found is None:
        second()
    elif found[1] == NOTHING:
        first(NOTHING)
    else:
        holds, facts = found
        either(c, results, holds, lambda: first(facts), second)


def _is_plain_reduction(nest: Nest) -> bool:
    kinds = set(map(type, nest.roots))
    plain = ReduceOp in kinds and kinds <= {ReduceOp, CopyOp}
    return plain and len(nest.domain) == 1 and nest.domain[0] >= 64


def _lower_reduction(c: Context, nest: Nest, write: Write) -> None:
    reductions = [Reduction(c, root) for root in nest.roots if isinstance(root, ReduceOp)]
    extremes = [r for r in reductions if r.extreme is not None]
    results, quick = scalar_results(nest), bool(extremes)
    quickly = partial(write, quick=quick)
    _usual_or_not(c, nest, results, quickly, quickly)
    if not quick:
        return
    doubtful = const("i1", False)
    for reduction in extremes:
        op: Any = reduction.root
        value = c.scalars[op.results[0]]
        same = c.f.fcmp("oeq", value, const(value.type, reduction.extreme or 0.0))
        doubtful = c.f.op("or", doubtful, same)
    either(c, results, doubtful, write, lambda: None, ("exact", "certain"))
