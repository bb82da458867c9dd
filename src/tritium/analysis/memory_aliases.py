"""Aliases of shared memory: which allocations a value that stands for memory may be (part of).

    %m = ttg.local_alloc                      %m -> {local_alloc}
    %v = ttg.memdesc_index %m[%i]             %v -> {local_alloc}
    scf.for ... iter_args(%a = %m)            %a -> {local_alloc, what the body yields}

Ops say which results stand for their operands' memory (`Op.memory_edges`) and which are new memory
(an `allocate` effect); the analysis follows both to a fixed point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import ops_in
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action

Aliases = dict[SSAValue, dict[Operation, None]]
"""The allocations of each value, an ordered set as a dict."""


def memory_aliases(blocks: Sequence[Block]) -> Aliases:
    """The allocations that each value of a function's blocks may be (part of)."""
    found: Aliases = {}
    targets: defaultdict[SSAValue, list[SSAValue]] = defaultdict(list)
    for op in ops_in(blocks):
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


def replaced_uses(blocks: Sequence[Block], aliases: Aliases) -> Iterator[tuple[Op, Op]]:
    """(use, allocation) for each use of what a loop's iteration was handed that stands behind an
    allocation of which it may be handed the memory: the allocation has taken that memory again.

        scf.for ... iter_args(%a = %m)
          %b = ttg.local_alloc
          ttg.local_load %a              the use: from the second iteration on it reads %b
          scf.yield %b
    """
    for op in ops_in(blocks) if aliases else ():
        for inner in (b for region in op.regions for b in region.blocks):
            for argument in inner.args:
                if argument in aliases:
                    yield from _replaced(inner, argument, aliases[argument])


def _replaced(
    block: Block, argument: SSAValue, allocations: dict[Operation, None]
) -> Iterator[tuple[Op, Op]]:
    ops = [op for op in block.walk() if isinstance(op, Op)]
    if not any(op in allocations for op in ops):
        return
    edges, handed = [edge for op in ops for edge in op.memory_edges()], {argument}
    while more := {target for source, target in edges if source in handed} - handed:
        handed |= more
    done = dict[Block | None, Op]()
    for op in ops:
        ends_block = op.parent is not None and op is op.parent.last_op
        if not ends_block and not handed.isdisjoint(op.operands):
            around = op.parent
            while around not in done and around is not block and around is not None:
                around = around.parent_block()
            if around in done:
                yield op, done[around]
        if op in allocations:
            done[op.parent] = op
