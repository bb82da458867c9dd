"""Ops done element by element, in row-major order: atomics, printing, assertions."""

from __future__ import annotations

from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.tiles.ir import Root
from tritium.codegen.registry import rules


def each(e: Emitter, root: Root, at: At) -> None:
    """Write the op for the element at `at`; rules are in RULES["cpu.each"]."""
    op = root.op
    assert op is not None
    rule = rules("cpu.each").get(type(op))
    if rule is None:
        raise e.context.unsupported(op)
    rule(e, op, root, at)
