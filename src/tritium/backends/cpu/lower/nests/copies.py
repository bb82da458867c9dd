"""Filling buffers, chunk by chunk, in the loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.tiles.ir import Root, RootKind


def inlined(context: Context, roots: Sequence[Root]) -> frozenset[SSAValue]:
    """The values whose buffers these roots fill: to be computed, not read."""
    return frozenset(
        root.values[0]
        for root in roots
        if root.kind == RootKind.COPY
        and root.source is None
        and context.function.buffers.get(root.values[0]) is root.buffers[0]
    )


def copy(e: Emitter, roots: Sequence[Root], at: At) -> None:
    """The copies among `roots` for one chunk."""
    copies = [r for r in roots if r.kind == RootKind.COPY]
    values = [
        e.emit(r.values[0], at) if r.source is None else load_buffer(e, r.source, at)
        for r in copies
    ]
    for root, value in zip(copies, values, strict=True):
        buffer = root.buffers[0]
        assert buffer is not None
        store_buffer(e, buffer, at, value)
