"""Aliases of shared memory: which allocations a value that stands for memory may be (part of).

    %m = ttg.local_alloc                      %m -> {local_alloc}
    %v = ttg.memdesc_index %m[%i]             %v -> {local_alloc}
    scf.for ... iter_args(%a = %m)            %a -> {local_alloc, what the body yields}

Ops say which results stand for their operands' memory (`Op.memory_edges`) and which are new memory
(an `allocate` effect); the analysis follows both to a fixed point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action

Aliases = dict[SSAValue, dict[Operation, None]]
"""The allocations of each value, an ordered set as a dict."""


def memory_aliases(blocks: Sequence[Block]) -> Aliases:
    """The allocations that each value of a function's blocks may be (part of)."""
    found: Aliases = {}
    targets: defaultdict[SSAValue, list[SSAValue]] = defaultdict(list)
    for block in blocks:
        for op in block.walk():
            if not isinstance(op, Op):
                continue
            for effect in op.effects:
                if effect.action is Action.ALLOCATE and effect.resource is SHARED:
                    found.update((value, {op: None}) for value in op.affected(effect))
            for source, target in op.memory_edges():
                targets[source].append(target)
    pending = list(found)
    while pending:
        source = pending.pop()
        for target in targets[source]:
            known = found.setdefault(target, {})
            if not found[source].keys() <= known.keys():
                known.update(found[source])
                pending.append(target)
    return found
