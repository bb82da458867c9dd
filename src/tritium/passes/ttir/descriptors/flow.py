"""Analysis of tensor descriptors: those that the bulk copy engine (TMA) can serve; others become
pointers.

Descriptors go through loops, branches and calls; all that meet in one value are served alike. They
are served if

- every access is a whole block's load, store or (where the engine has it) sum, known to begin
  at a multiple of 16 bytes along the fastest axis: others are illegal instructions, as are stores
  that begin before the tensor does (at constants those are refused, others are the program's to
  avoid);
- the element type has a tensor map;
- threads do not touch the same memory (`memory`);
- the maps that the kernel makes itself can each have one place in memory: an op that makes one
  writes the same place whenever it runs, so that nothing may still need what it made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.regions import ancestor_in, defined, function_of, functions
from tritium.ir import types as ir
from tritium.ir.tensor_maps import map_element
from tritium.ops.arith import constant_int
from tritium.ops.attributes import PADDING
from tritium.ops.base import Op
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.descriptor import BlockAccess, MakeTensorDescOp, RowAccess
from tritium.ops.ttir.function import FuncOp, ReturnOp
from tritium.ops.ttir.memory import PaddingOption
from tritium.passes.ttir.descriptors.memory import Threads
from tritium.target import BulkCopies

Edge: TypeAlias = "tuple[SSAValue, SSAValue]"


def is_descriptor(value: SSAValue) -> bool:
    """True if a value is a tensor descriptor."""
    return value.type.__class__ is ir.TensorDescType


def served(module: ModuleOp, engine: BulkCopies, rows: bool) -> set[SSAValue]:
    """The descriptors of a module that may have tensor maps. `rows`: the engine, if it can, gathers
    and scatters rows."""
    groups = Groups()
    makes = [op.result for op in made_descriptors(module)]
    edges: dict[SSAValue, list[SSAValue]] = {}
    for source, target in flow(module):
        groups.join(source, target)
        edges.setdefault(source, []).append(target)
    refused: set[SSAValue] = set()
    for function in functions(module):
        axes = AxisAnalysis(function)
        for value in descriptors(function):
            groups.find(value)
            users = [use.operation for use in value.uses]
            fit = all(_hands_on(u) or _accesses(u, axes, engine, rows) for u in users)
            if not (fit and _has_map(value, function, engine)):
                refused.add(value)
    refused |= {made for made in makes if conflicts(made, edges)}
    bad = {groups.find(value) for value in refused}
    members = groups.members()
    bad |= {name for name, group in members.items()
            if takes_bits(group) and _kinds(group) & {"MIN", "MAX"}}  # fmt: skip
    good = {name: group for name, group in members.items() if name not in bad}
    threads = Threads(module)
    while True:
        for name in bad:
            threads.take(members[name])
        bad = {name for name, group in good.items() if threads.touch(group)}
        if not bad:
            break
        good = {name: group for name, group in good.items() if name not in bad}
    return {value for group in good.values() for value in group}


def _kinds(group: list[SSAValue]) -> set[str]:
    users: list[Any] = [use.operation for value in group for use in value.uses]
    return {user.kind.name for user in users if isinstance(user, BlockAccess) and user.combines}


def takes_bits(group: list[SSAValue]) -> bool:
    """True if bits of 64-bit integers are combined, which maps must call unsigned then."""
    kind: Any = group[0].type
    words = str(kind.block.element_type) in ("i64", "si64")
    return words and bool(_kinds(group) & {"AND", "OR", "XOR"})


def descriptor_groups(module: ModuleOp) -> Iterator[list[SSAValue]]:
    """All descriptors of a module; those that meet in one value are together."""
    groups = Groups()
    for value in descriptors(module):
        groups.find(value)
    for source, target in flow(module):
        groups.join(source, target)
    yield from groups.members().values()


def descriptors(function: Operation) -> Iterator[Any]:
    """All descriptors that a function takes or defines."""
    return (v for op in function.walk() for v in defined(op) if is_descriptor(v))


def flow(module: ModuleOp, wanted: Callable[[SSAValue], bool] = is_descriptor) -> Iterator[Edge]:
    """(from, to) of descriptors (or what else is wanted) that go through loops, branches, calls
    and choices."""
    named = {function.sym_name: function for function in functions(module)}
    for op in module.walk():
        for source, target in _edges(op, named):
            if wanted(source):
                yield source, target


def _edges(op: Operation, functions: dict[str, FuncOp]) -> Iterator[Edge]:
    call: Any = op
    if isinstance(op, Op) and op.is_call and (callee := functions.get(call.callee)):
        yield from zip(call.arguments, callee.body.args, strict=True)
        for inner in callee.walk():
            if isinstance(inner, ReturnOp):
                yield from zip(inner.operands, op.results, strict=True)
    elif isinstance(op, Op):
        yield from op.forwarded_values()


def _hands_on(op: Operation) -> bool:
    """True if the op only hands its operands on: `flow` follows them."""
    return is_terminator(op) or (isinstance(op, Op) and (op.is_call or any(op.forwarded_values())))


def _accesses(op: object, axes: AxisAnalysis, engine: BulkCopies, rows: bool) -> bool:
    """True if the engine can do an access."""
    if isinstance(op, RowAccess):
        bits = ir.bit_width(op.desc.type.block.element_type)
        count = ir.shape_of(op.x_offsets.type)[0]
        few = count * op.desc.type.block.get_shape()[1] * bits <= 8 * engine.most_bytes
        aligned = axes.of(op.y_offset).divisibility[0] * bits % (8 * engine.alignment) == 0
        numbered = ir.element_type(op.x_offsets.type) == ir.i32 and count % 4 == 0
        return rows and engine.rows and few and aligned and numbered
    if not isinstance(op, BlockAccess):
        return False
    block: Any = op.desc.type.block
    if op.combines and str(block.element_type) not in dict(engine.sums).get(op.kind.name, ()):
        return False
    starts = [axes.of(index) for index in op.indices]
    if not op.is_load and any((s.known or 0) < 0 for s in starts):
        return False
    bits = ir.bit_width(block.element_type)
    aligned = starts[-1].divisibility[0] * bits % (8 * engine.alignment) == 0
    return aligned and op.missing_axes is not None


def _has_map(value: SSAValue, function: FuncOp, engine: BulkCopies) -> bool:
    """True if the engine knows the element type, and what the descriptor is made of."""
    kind: Any = value.type
    element, shape = kind.block.element_type, tuple(kind.block.get_shape())
    if map_element(element) is None:
        return False
    size = ir.bit_width(element) // 8
    if prod(shape) * size > engine.most_bytes or shape[-1] * size < engine.alignment:
        return False
    if (made := maker_of(value)) is not None:
        nan = made.padding is PaddingOption.PAD_NAN
        known = [constant_int(stride) for stride in made.strides]
        if known[-1] not in (None, 1):
            return False
        if any(k is not None and k * size % engine.alignment for k in known[:-1]):
            return False
    else:
        nan = _pads_with_nan(function, value)
    return not (nan and str(element) in engine.without_nan)


def _pads_with_nan(function: FuncOp, value: SSAValue) -> bool:
    """True if a value is an argument of the function, a descriptor that pads with NaN."""
    if not (isinstance(value, BlockArgument) and value.owner is function.body):
        return False
    return bool(function.arg_attrs) and PADDING in function.arg_attrs[value.index]


def maker_of(value: SSAValue) -> MakeTensorDescOp | None:
    """The op that makes a descriptor; None of one that is handed on."""
    return value.owner if isinstance(value.owner, MakeTensorDescOp) else None


def made_descriptors(module: ModuleOp) -> list[MakeTensorDescOp]:
    """The ops of a module that make descriptors."""
    return [made for op in module.walk() for r in op.results if (made := maker_of(r)) is not None]


def conflicts(made: SSAValue, edges: dict[SSAValue, list[SSAValue]]) -> bool:
    """True if something may need what the op made when it ran before. `edges`: see `flow`."""
    op = made.owner
    assert isinstance(op, Operation)
    reached, pending = {made}, [made]
    while pending:
        for target in edges.get(pending.pop(), ()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    function = function_of(op)
    reached.discard(made)
    if reached and len(function.regions[0].blocks) > 1:
        return True  # branches between blocks are not followed
    # A value that the function returns may still be needed when the function runs again.
    calls = (v.owner for v in reached if isinstance(v.owner, Op) and v.owner.is_call)
    given_back = any(function_of(call) is not function for call in calls)
    return given_back or any(_needed_after(value, op) for value in reached)


def _needed_after(value: SSAValue, op: Operation) -> bool:
    """True if a value that is defined before `op` may be used after it has run."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    assert home is not None
    anchor = ancestor_in(home, op)
    if anchor is None or (isinstance(owner, Operation) and not owner.is_before_in_block(anchor)):
        return False
    inner = op
    while True:
        block = inner.parent
        assert block is not None
        for use in value.uses:
            user = ancestor_in(block, use.operation)
            if user is not None and inner.is_before_in_block(user):
                return True
        if block is home:
            return False
        above = block.parent_op()
        assert above is not None
        inner = above
        # In a loop's next iteration all that is in it comes after the op.
        if isinstance(inner, Op) and inner.is_loop and any(
            any(ancestor_in(r.block, use.operation) for r in inner.regions) for use in value.uses
        ):
            return True


class Groups:
    """Sets of values that are treated alike (a union-find)."""

    def __init__(self) -> None:
        self._above: dict[SSAValue, SSAValue] = {}

    def find(self, value: SSAValue) -> SSAValue:
        above = self._above.setdefault(value, value)
        if above is not value:
            above = self._above[value] = self.find(above)
        return above

    def join(self, a: SSAValue, b: SSAValue) -> None:
        self._above[self.find(a)] = self.find(b)

    def members(self) -> dict[SSAValue, list[SSAValue]]:
        """The sets, each by one of its values."""
        found: dict[SSAValue, list[SSAValue]] = {}
        for value in self._above:
            found.setdefault(self.find(value), []).append(value)
        return found
