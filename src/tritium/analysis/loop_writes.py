"""Loads that a loop may do earlier than it says, as far as the memory that it writes goes.

    for i in range(n):
        x = load(%a + i)         may be done an iteration earlier: %b is another argument
        store(%b + i, x)
        y = load(%b + i + 1)     may not: the store may be to the same place

Different arguments of a kernel are taken to be different memory, as flattened loops and the
reference do; nothing is assumed about what a function that is called gets. An atomic operation
whose result is used, and a barrier, order all later loads: the result may tell that another
program has written what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.pointer_roots import PointerRoots
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action, Effect
from tritium.ops.scf import ForOp


def unwritten(loop: ForOp, loads: Sequence[Operation]) -> list[Operation]:
    """The loads, by pointers or descriptors, that read nothing that the loop writes."""
    writers = [op for op in loop.body.walk() if isinstance(op, Op) and _writes(op)]
    if not writers or not loads:
        return list(loads)
    module = loop.get_toplevel_object()
    assert isinstance(module, Operation)
    roots, written = PointerRoots(module), set[SSAValue]()
    for op in writers:
        places = [v for e in op.own_effects() if _is_write(e) for v in op.affected(e)]
        found = [_known(roots, place) for place in places]
        if _orders(op) or not places or not all(found):
            return []
        written.update(*found)
    known = [(load, _known(roots, load.operands[0])) for load in loads]
    return [load for load, found in known if found and not found & written]


def _is_write(effect: Effect) -> bool:
    return effect.action is Action.WRITE and effect.resource is GLOBAL


def _writes(op: Op) -> bool:
    return any(map(_is_write, op.own_effects()))


def _orders(op: Op) -> bool:
    """True if loads after an op that writes must stay after it: code that is not seen, and what
    reads memory and gives what it read."""
    effects = op.own_effects()
    if any(e.action is Action.OPAQUE for e in effects):
        return True
    reads = any(e.action is Action.READ and e.resource is GLOBAL for e in effects)
    return reads and any(r.first_use is not None for r in op.results)


def _known(roots: PointerRoots, pointer: SSAValue) -> set[SSAValue]:
    """The arguments of the kernel that a pointer may be of; none where it may be of others."""
    found = roots.of(pointer)
    return found if all(map(_is_of_kernel, found)) else set()


def _is_of_kernel(argument: SSAValue) -> bool:
    block = argument.owner
    function = block.parent_op() if isinstance(block, Block) else None
    return getattr(function, "sym_visibility", "private") != "private"
