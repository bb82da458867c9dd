"""Filling buffers, chunk by chunk, in the loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.ops.tile import CopyOp


def inlined(roots: Sequence[object]) -> frozenset[SSAValue]:
    """The values whose buffers these roots fill: to be computed, not read."""
    return frozenset(root.value for root in roots if isinstance(root, CopyOp) and root.keeps)


def copy(e: Emitter, roots: Sequence[object], at: At) -> None:
    """The copies among `roots` for one chunk."""
    named = e.context.function.named
    copies = [r for r in roots if type(r) is CopyOp]
    values = [
        load_buffer(e, named[r.source], at) if r.source else e.emit(r.value, at) for r in copies
    ]
    for root, value in zip(copies, values, strict=True):
        store_buffer(e, named[root.target], at, value)
