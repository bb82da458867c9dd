"""Roots of pointers: the function arguments whose memory a pointer may lead to.

    %q = tt.addptr %p, %i        roots(%q) = {%p}
    %r = arith.select %c, %p, %s  roots(%r) = {%p, %s}

The analysis follows `Op.memory_edges` backwards: through pointer arithmetic, rearrangements,
choices, loops and branches of any kind. A pointer that is loaded from memory has no root.
"""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import Block, Operation, SSAValue

from tritium.ops.base import Op


class PointerRoots:
    """The roots of all values of a module."""

    def __init__(self, module: Operation):
        self._sources: defaultdict[SSAValue, list[SSAValue]] = defaultdict(list)
        for op in module.walk():
            if isinstance(op, Op):
                for source, target in op.memory_edges():
                    self._sources[target].append(source)

    def of(self, pointer: SSAValue) -> set[SSAValue]:
        """The function arguments that a pointer, a tile of pointers, a block pointer or a
        descriptor may be derived from."""
        found, pending, seen = set[SSAValue](), [pointer], set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            sources = self._sources.get(value, ())
            if not sources and isinstance(value.owner, Block):
                found.add(value)
            pending += sources
        return found
