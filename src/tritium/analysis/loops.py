"""The loops of a function, and the iterations that may overlap in one."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tritium.analysis.regions import ops_around
from tritium.ops.attributes import NUM_STAGES
from tritium.ops.scf import ForOp, is_counted


def counted_loops(op: Operation) -> list[ForOp]:
    """The counted loops in the regions of an op, or itself, inner ones before those around them."""
    return [inner for inner in ops_around(op) if is_counted(inner)]


def innermost_loops(function: Operation) -> list[ForOp]:
    """The counted loops of a function without one inside."""
    return [loop for loop in counted_loops(function) if counted_loops(loop) == [loop]]


def loops_around(op: Operation) -> list[ForOp]:
    """The counted loops around an op, the innermost first, up to an op of another kind."""
    found: list[ForOp] = []
    around = op.parent_op()
    while is_counted(around):
        found.append(around)
        around = around.parent_op()
    return found


def stages_of(loop: Operation, default: int) -> int:
    """The number of iterations that may overlap in a loop; `default` unless the loop states it."""
    given: Any = loop.attributes.get(NUM_STAGES)
    return default if given is None else int(given.value.data)
