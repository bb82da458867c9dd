"""The worklist that the peephole passes share, and helpers to move and rebuild ops.

xDSL's own pattern rewriter walks the whole module again after a change and matches patterns one
by one; here a pattern is found by the op's class, and only the neighbours of a change are visited
again. That is some ten times faster on kernels of a few hundred ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.analysis.cfg import reverse_postorder
from tritium.analysis.regions import is_inside, is_removable, may_go, obstacle, outside_values
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ir.locations import UNKNOWN, name_of
from tritium.ops.arith.compare import SelectOp
from tritium.ops.arith.constant import ConstantOp, constant_attr, splat_number
from tritium.ops.base import Op
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.numeric import float_cast
from tritium.ops.ttir.reduction import reduction
from tritium.ops.ttir.shape import ReshapeOp, repetition

OpT = TypeVar("OpT", bound=Op)

Pattern = Callable[[Any, "Rewriter"], bool]
"""Looks at an op; changes the IR around it and returns True, or leaves all as it is."""

Patterns = Mapping[type[Op], Sequence[Pattern]]

MAX_VISITS_PER_OP = 64


def insert_before(place: Operation, op: Operation) -> None:
    """Put an op into the block of another, before that."""
    assert place.parent is not None
    place.parent.insert_op_before(op, place)


def insert_after(place: Operation, op: Operation) -> None:
    """Put an op into the block of another, after that."""
    assert place.parent is not None
    place.parent.insert_op_after(op, place)


def remove_unused(function: Operation) -> None:
    """Drop ops whose results nothing uses."""
    for op in reversed(list(function.walk())):
        unused = all(r.first_use is None for r in op.results)
        if unused and op is not function and op.parent is not None and is_removable(op):
            erase(op)


class Builder:
    """Makes ops before another one, at its source location or a given one."""

    def __init__(self, before: Operation, location: LocationAttr | None = None):
        self.before = before
        self.location = before.location if location is None else location

    def make(self, cls: type[OpT], *operands: Any, **attrs: Any) -> OpT:
        """Build an op and insert it."""
        op = cls.build(*operands, location=self.location, **attrs)
        insert_before(self.before, op)
        return op

    def value(self, cls: type[Op], *operands: object, **attrs: object) -> SSAValue:
        """The first result of a new op."""
        return self.make(cls, *operands, **attrs).results[0]

    def constant(self, value: object, like: SSAValue | ir.Type) -> SSAValue:
        """A new constant of the type `like` (or the type of that value); later passes merge equal
        ones."""
        kind = like.type if isinstance(like, SSAValue) else like
        return self.value(ConstantOp, value=constant_attr(value, kind))

    def repeated(self, value: SSAValue, type: ir.Type) -> SSAValue:
        """A scalar, or a tile along its axes of size 1, repeated to a tile of this type."""
        if value.type == type:
            return value
        return self.value(repetition(value.type), value, result=type)

    def converted(self, value: SSAValue, element: ir.Type) -> SSAValue:
        """Floating-point numbers in another type of a different width, or as they are."""
        if ir.element_type(value.type) == element:
            return value
        cls, attrs = float_cast(value.type, element)
        return self.value(cls, value, result=ir.with_element(value.type, element), **attrs)

    def chosen(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """One of two values, or of their elements, by a condition."""
        return self.value(SelectOp, condition, yes, no)

    def copy(self, op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
        """Insert a copy of an op, which uses `values` in place of their keys and adds its
        results."""
        copy = copy_op(op, values)
        insert_before(self.before, copy)
        return copy


def reduced(at: Builder, value: SSAValue, combine: type[Op]) -> SSAValue:
    """Combine all elements of a tile by an op of two scalars; a scalar stays as it is."""
    shape, element = ir.shape_of(value.type), ir.element_type(value.type)
    if not shape:
        return value
    if len(shape) > 1:
        value = at.value(ReshapeOp, value, result=ir.tensor_of((prod(shape),), element))
    return reduced_along(at, value, 0, combine)


def reduced_along(at: Builder, value: SSAValue, axis: int, combine: type[Op]) -> SSAValue:
    """The elements of a tile along an axis in one, by an op of two scalars."""
    op = reduction(value, axis, combine, at.location)
    insert_before(at.before, op)
    return op.results[0]


def erase(op: Operation) -> None:
    """Take an op whose results are not used out of its block, and drop it."""
    block = op.parent
    assert block is not None
    block.erase_op(op)


def copy_names(old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
    """Give values the name hints of those they stand for, where they have none."""
    for before, after in zip(old, new, strict=False):
        if after.name_hint is None and before.name_hint is not None:
            after.name_hint = before.name_hint


def remove_unreachable(region: Region) -> bool:
    """Drop the blocks that no path from the entry reaches."""
    if region.first_block is region.last_block:
        return False
    reached = set(reverse_postorder(region))
    dead = [block for block in region.blocks if block not in reached]
    for block in dead:
        region.detach_block(block)
        # Only other dead blocks can use what these define.
        block.drop_all_references()
    return bool(dead)


def copy_op(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of an op and its regions that uses `values` in place of their keys; its own results
    are added to `values`."""
    clone = cast(Any, op.clone if op.regions else op.clone_without_regions)
    return clone(values)


def move_ops(source: Block, target: Operation) -> None:
    """Move the ops of a block, without its terminator, to before `target`."""
    for op in ops_of(source)[:-1]:
        source.detach_op(op)
        insert_before(target, op)


def rebuild(
    op: OpT,
    operands: Sequence[SSAValue],
    kept_results: Sequence[int],
    types: Sequence[Attribute] | None = None,
) -> OpT:
    """Replace `op` by one with these operands and only some of its results, its regions moved.

    Results that are not kept must be unused. `types`: of the results, where they change.
    """
    kinds = types or [op.results[i].type for i in kept_results]
    new = recreate(op, operands, kinds)
    for index, result in zip(kept_results, new.results, strict=True):
        result.name_hint = op.results[index].name_hint
        op.results[index].replace_all_uses_with(result)
    erase(op)
    return new


def recreate(
    op: OpT,
    operands: Sequence[SSAValue],
    types: Sequence[Attribute],
    properties: Mapping[str, Attribute] | None = None,
) -> OpT:
    """An op before `op` like it, but for its operands and the types of its results; it takes the
    regions."""
    create = cast(Any, type(op).create)
    new: OpT = create(
        operands=operands,
        result_types=types,
        properties=op.properties if properties is None else properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
        location=op.location,
    )
    insert_before(op, new)
    return new


class Constants:
    """The constants of one function, each once, at the start of its entry block."""

    def __init__(self, function: Op):
        self.entry: Block = function.regions[0].blocks[0]
        self._pool: dict[Attribute, ConstantOp] = {}
        self._known: dict[Operation, Any] = {}
        self._last: Operation | None = None
        op = self.entry.first_op
        while isinstance(op, ConstantOp):
            if self._pool.setdefault(plain_value(op), op) is op:
                self._last = op
            op = op.next_op

    def hoist_all(self, function: Op) -> bool:
        """Bring every constant of the function here, merging equal ones."""
        changed = False
        here = set(self._pool.values())
        found = [op for op in function.walk() if isinstance(op, ConstantOp)]
        for op in found:
            if op in here:
                continue
            changed = True
            known = self._pool.get(plain_value(op))
            if known is not None:
                if known.location is not op.location:
                    known.location = UNKNOWN
                op.results[0].replace_all_uses_with(known.results[0])
                erase(op)
                continue
            assert op.parent is not None
            op.parent.detach_op(op)
            self._place(op)
        return changed

    def _place(self, op: ConstantOp) -> None:
        if self._last is not None:
            self.entry.insert_op_after(op, self._last)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(op, self.entry.first_op)
        else:
            self.entry.add_op(op)
        self._last = op
        if name_of(op.location) is not None:
            # The variable that it was first written for is not what it is now.
            op.location = UNKNOWN
        self._pool[op.properties["value"]] = op

    def unname(self) -> None:
        """Drop name hints: a constant of several expressions is named by its value, which the
        printer does."""
        for op in self._pool.values():
            op.results[0].name_hint = None

    def get(self, value: object, type: ir.Type, location: LocationAttr | None = None) -> SSAValue:
        """A constant of that value (a scalar repeated in a tile)."""
        attribute = constant_attr(value, type)
        op = self._pool.get(attribute)
        if op is None:
            op = ConstantOp.build(value=attribute, location=location)
            self._place(op)
        elif location is not None and op.location is not location:
            op.location = UNKNOWN
        return op.results[0]

    def known(self, value: SSAValue) -> Any | None:
        """The number that a value is known to be (in all its elements), a NumPy scalar."""
        op = value.owner
        if type(op) is not ConstantOp:
            return None
        if op in self._known:
            return self._known[op]
        number = splat_number(op.properties["value"])
        self._known[op] = number
        return number


def plain_value(op: ConstantOp) -> Attribute:
    """The value of a constant. Texts have 255 for each `true` of a tile, which becomes 1."""
    attribute: Any = op.properties["value"]
    if attribute.__class__ is DenseIntOrFPElementsAttr and attribute.type.element_type == ir.i1:
        number = splat_number(attribute)
        if number is not None:
            op.properties["value"] = constant_attr(number, attribute.type)
    return op.properties["value"]


class Rewriter:
    """Applies patterns to the ops of a function until none applies.

    Patterns call `replace`, `erase`, `insert`, `constant` and `known`; whatever they touch is
    visited again. Ops that come to be unused are removed on the way.
    """

    def __init__(self, function: Op, patterns: Patterns):
        self.function, self.patterns = function, patterns
        self.constants = Constants(function)
        self._stack: list[Operation] = []
        # Ids, because ops hash in Python; the stack keeps them alive.
        self._waiting: set[int] = set()
        self._obstacles: dict[int, Op] = {}
        self.changed = False

    def run(self, near: Iterable[Operation] | None = None) -> bool:
        """Visit ops in program order, then what changes touched; returns whether any did. `near`:
        begin with these, ops with regions, and terminators; None: with all."""
        ops = [op for op in self.function.walk() if op is not self.function]
        if near is not None:
            chosen = set(map(id, near))
            ops = [op for op in ops if id(op) in chosen or op.regions or is_terminator(op)]
        ops.reverse()
        self._stack, self._waiting = ops, set(map(id, ops))
        budget = MAX_VISITS_PER_OP * (len(ops) + 16)
        patterns, stack, waiting = self.patterns, self._stack, self._waiting
        while stack:
            op = stack.pop()
            if id(op) not in waiting:
                continue
            waiting.discard(id(op))
            kind = type(op)
            if op.parent is None or kind is ConstantOp:
                continue
            if self._is_dead(op):
                self.erase(op)
                continue
            for pattern in patterns.get(cast(type[Op], kind), ()):
                if pattern(op, self):
                    self.changed = True
                    budget -= 1
                    assert budget, f"patterns for {op.name} undo each other"
                    self.visit(op)
                    break
        self.constants.unname()
        return self.changed

    def _is_dead(self, op: Operation) -> bool:
        for result in op.results:
            if result.first_use is not None:
                return False
        if not may_go(op):
            return False
        # A large branch without results is asked for whenever an op in it goes: what has kept it
        # before is looked for first.
        known = self._obstacles.get(id(op))
        if known is not None and is_inside(known, op):
            return False
        found = obstacle(op)
        if found is not None and found is not op:
            self._obstacles[id(op)] = found
        return found is None

    def visit(self, *ops: Operation | Block) -> None:
        """Look at ops (again), soon."""
        for op in ops:
            if id(op) in self._waiting or type(op) is Block or op is self.function:
                continue
            self._waiting.add(id(op))
            self._stack.append(cast(Operation, op))

    def visit_users(self, values: Iterable[SSAValue]) -> None:
        """Look at the users of values again."""
        for value in values:
            for use in value.uses:
                self.visit(use.operation)

    def replace(self, op: Operation, *values: SSAValue) -> bool:
        """Use `values` in place of the results of `op`, and drop it. Returns True."""
        self.visit_users(op.results)
        for result, value in zip(op.results, values, strict=True):
            result.replace_all_uses_with(value)
        self.erase(op)
        return True

    def replace_value(self, value: SSAValue, other: SSAValue) -> bool:
        """Use `other` in place of `value`, which stays. Returns True."""
        self.visit_users([value])
        copy_names([value], [other])
        value.replace_all_uses_with(other)
        return True

    def erase(self, op: Operation) -> bool:
        """Drop an op without uses; what it used is visited again. Returns True."""
        owners = [v.owner for v in outside_values(op)]
        parent = op.parent_op()
        erase(op)
        self.changed = True
        self.visit(*owners)
        if parent is not None:
            self.visit(parent)
        return True

    def insert(
        self,
        cls: type[OpT],
        *operands: object,
        before: Operation,
        attributes: Mapping[str, Attribute] | None = None,
        **attrs: object,
    ) -> OpT:
        """Build an op before another one, at its source location."""
        op = Builder(before).make(cls, *operands, attributes=attributes, **attrs)
        self.visit(op)
        return op

    def become(self, op: Operation, cls: type[Op], *operands: Any, **attrs: Any) -> bool:
        """Replace `op` by a new op that has the same number of results. Returns True."""
        new = self.insert(cls, *operands, before=op, **attrs)
        copy_names(op.results, new.results)
        return self.replace(op, *new.results)

    def set_operand(self, op: Operation, index: int, value: SSAValue) -> bool:
        """Change one operand. Returns True."""
        owner = op.operands[index].owner
        op.operands[index] = value
        self.visit(op, owner)
        return True

    def constant(self, value: object, like: SSAValue | ir.Type, near: Operation) -> SSAValue:
        """A constant of the type `like` (or the type of that value)."""
        kind = like.type if isinstance(like, SSAValue) else like
        return self.constants.get(value, kind, near.location)

    def known(self, value: SSAValue) -> Any | None:
        """The number that a value is known to be (in all its elements)."""
        if type(value.owner) is not ConstantOp:
            return None
        return self.constants.known(value)
