"""Check that accesses stay in the memory of the arguments that their pointers come from.

before:
    tt.func @kernel(%x: !tt.ptr<f32>, ...)
      %p = tt.addptr (tt.splat %x), %offsets
      %v = tt.load %p, %mask
after:
    tt.func @kernel(%x: !tt.ptr<f32>, ..., %x.begin: i64, %x.end: i64)
      %first = (%x.begin - %x) / 4            of the elements that may be accessed; and how many
      %count = (%x.end - %x) / 4 - %first     there are, for all accesses through %x
      %place = arith.select %mask, %offsets - %first, 0
      %worst = "tt.reduce"(%place) ({ arith.maxui })
      tt.sanitizer_check %worst < %count (unsigned), address of %worst
      %v = tt.load %p, %mask

A place before the first element is a huge one as an unsigned number: one comparison checks both
ends. A tile whose offsets are computed from scalars is first checked as a whole, by its lowest and
its highest address (`tritium.sanitize.intervals`); for the others the above stands in an `scf.if`.

The check comes as early as its operands are known, so that the loads of several checked
accesses still share loops. A pointer that is loaded from memory comes from no argument, and is not
checked. Block pointers and descriptors must have become addresses before (`TensorPointers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tritium.analysis.pointer_roots import PointerRoots
from tritium.ir import types as ir
from tritium.ir.intervals import Interval
from tritium.ops.arith import (
    AddIOp,
    AndIOp,
    CmpIOp,
    CmpIPredicate,
    ExtSIOp,
    MaxSIOp,
    MaxUIOp,
    MinSIOp,
    MulIOp,
    OrIOp,
    ShRSIOp,
    SubIOp,
    TruncIOp,
    XOrIOp,
)
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, HOST, Action
from tritium.ops.scf import IfOp, YieldOp
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.numeric import PtrToIntOp
from tritium.ops.ttir.sanitize import SanitizerCheckOp
from tritium.ops.ttir.shape import SplatOp, splat_source
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, reduced
from tritium.sanitize.intervals import Ends, Formulas, Sources, computed_anew, offsets_of
from tritium.sanitize.kinds import Site
from tritium.sanitize.sites import add_arguments, kernel_of, site_of

_LOWEST, _HIGHEST = 1 - (1 << 31), (1 << 31) - 1


class Extent(NamedTuple):
    """The first address of an argument's memory, and the one after the last; i64."""

    begin: SSAValue
    end: SSAValue


@dataclass(frozen=True)
class CheckBounds(Pass):
    """Check that accesses stay in the memory of the arguments that their pointers come from.

    Attributes:
        sites: filled with a description of each check.
        pointers: filled with the positions of the arguments for each of which the kernel gets two
            more, at its end: where the memory begins and ends.
    """

    name: ClassVar[str] = "sanitize-bounds"
    sites: list[Site] = field(default_factory=list[Site])
    pointers: list[int] = field(default_factory=list[int])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        found = bounded(module, kernel)
        extents = add_extents(kernel, found, self.pointers)
        starts: _Starts = {}
        for op, pointer, roots in found:
            _Check(op, pointer, [extents[r] for r in roots], len(self.sites), starts).insert()
            self.sites.append(described(op, pointer, roots))
        return bool(found)


Bounded = tuple[Any, SSAValue, list[Any]]
"""An access, its pointer (or tile of pointers), and the arguments that this may come from."""


def bounded(module: ModuleOp, kernel: FuncOp) -> list[Bounded]:
    """The accesses whose pointers come from arguments alone."""
    roots, arguments = PointerRoots(module), set[SSAValue](kernel.body.args)
    return [
        (op, pointer, [r for r in kernel.body.args if r in reached])
        for op in kernel.walk() if isinstance(op, Op)
        for pointer in accessed(op)
        if (reached := roots.of(pointer)) and reached <= arguments
    ]  # fmt: skip


def add_extents(
    kernel: FuncOp, found: Sequence[Bounded], pointers: list[int]
) -> dict[SSAValue, Extent]:
    """The extent of each argument that accesses come from, as further arguments of the kernel; adds
    the arguments' positions to `pointers`."""
    extents: dict[SSAValue, Extent] = {}
    for root in dict.fromkeys(root for *_, roots in found for root in roots):
        name = root.name_hint or f"arg{root.index}"
        extents[root] = Extent(*add_arguments(kernel, (f"{name}_begin", f"{name}_end")))
        pointers.append(root.index)
    return extents


def described(op: Any, pointer: SSAValue, roots: Sequence[Any]) -> Site:
    """The description of the check of an access."""
    more = {"arguments": [r.index for r in roots], "size": accessed_bytes(pointer)}
    return site_of(op, "bounds", access=access_name(op), **more)


_Starts = dict[tuple[SSAValue, int], tuple[SSAValue, SSAValue, SSAValue]]
"""The address, the first element that it may lead to and the number of elements, counted from it,
by pointer argument and size of elements; computed where the kernel begins."""


def accessed(op: Op) -> list[SSAValue]:
    """The pointers, or tiles of them, through which an op accesses memory."""
    found: dict[SSAValue, None] = {}
    for effect in op.own_effects():
        if effect.resource is GLOBAL:
            found.update((v, None) for v in op.affected(effect) if ir.is_pointer(v.type))
    return list(found)


def access_name(op: Op) -> str:
    """Name of an op in reports."""
    actions = {effect.action for effect in op.own_effects() if effect.resource is GLOBAL}
    if len(actions) > 1 and op.changes_memory:
        return "atomic access"
    return "load" if Action.READ in actions else "store"


def accessed_bytes(pointer: SSAValue) -> int:
    """The size of what a pointer, or each of a tile of them, leads to."""
    kind: Any = ir.element_type(pointer.type)
    if isinstance(kind.pointee, ir.TensorType):
        raise NotImplementedError("the sanitizer: block pointers must be lowered before")
    return ir.pointee_bytes(pointer.type)


def _place(op: Operation, values: Sequence[SSAValue]) -> Operation:
    """The op before which a check of `op` goes: the first one of its block by which these values
    can be known. Pure ops that compute them move up to there.

    Loads stay behind, so that those of several checked accesses still share loops; what may end
    the program (assertions, earlier checks) stays in front.
    """
    block = op.parent
    assert block is not None
    pending, needed = list(values), set[Operation]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner.parent is block and owner not in needed:
            needed.add(owner)
            if isinstance(owner, Op) and owner.is_pure and not owner.regions:
                pending += owner.operands
    start: Operation | None = None
    before = list(block.ops)[: block.get_operation_index(op)]
    for other in before:
        if not isinstance(other, Op) or _may_end_program(other) or (
            other in needed and not (other.is_pure and not other.regions)
        ):  # fmt: skip
            start = other
    found = block.first_op if start is None else start.next_op
    while found is not None and found in needed:
        found = found.next_op
    assert found is not None
    for other in before[before.index(found) :] if found is not op else ():
        if other in needed:
            other.detach()
            block.insert_op_before(other, found)
    return found


def _may_end_program(op: Op) -> bool:
    return any(effect.resource is HOST for effect in op.memory_effects())


class _Check:
    """The check before one access."""

    def __init__(
        self, op: Any, pointer: SSAValue, extents: Sequence[Extent], site: int,
        starts: _Starts,
    ):  # fmt: skip
        self.mask: SSAValue | None = op.mask if "mask" in op.operand_names() else None
        self.op, self.pointer, self.extents, self.site = op, pointer, extents, site
        self.starts = starts
        self.size = accessed_bytes(pointer)

    def insert(self) -> None:
        """Put the check into the program."""
        known = [v for v in (self.pointer, self.mask) if v is not None]
        sources, tile, ends = Sources(), offsets_of(self.pointer), Ends()
        found = None if tile is None else ends.of_tile(tile)
        if tile is not None and found is not None and sources.add_all(known):
            at = Builder(_place(self.op, [*sources.scalars]), self.op.location)
            inside = self._whole(at, tile.start, found, ends)
            at = Builder(self._unless(at, inside), self.op.location)
            copies: dict[SSAValue, SSAValue] = {}
            self.pointer, *masks = (computed_anew(v, at, copies) for v in known)
            self.mask, self.at = (masks[0] if masks else None), at
        else:
            self.at = Builder(_place(self.op, known), self.op.location)
        self._each()

    @staticmethod
    def _unless(at: Builder, condition: SSAValue) -> Operation:
        """The end of a new block that runs where a condition does not hold."""
        outside = at.value(XOrIOp, condition, at.constant(1, ir.i1))
        end = YieldOp.build([])
        block = Block()
        block.add_op(end)
        at.make(IfOp, outside, result=(), regions=[Region(block), Region()])
        return end

    def _whole(self, at: Builder, start: SSAValue, offsets: Interval, ends: Ends) -> SSAValue:
        """True if all elements of a tile, masked off or not, are in bounds, by its lowest and its
        highest address; `ends`: what the interval of the offsets was found by."""
        formulas, address = Formulas(at), at.value(PtrToIntOp, start)
        low, high = (
            formulas.plus(address, ends.combined("mul", end, self.size, ir.i64))
            for end in (offsets.low, offsets.high)
        )
        high = formulas.plus(high, self.size)
        inside: SSAValue | None = None
        for extent in self.extents:
            above = at.value(CmpIOp, low, extent.begin, predicate=CmpIPredicate.SGE)
            below = at.value(CmpIOp, high, extent.end, predicate=CmpIPredicate.SLE)
            here = at.value(AndIOp, above, below)
            inside = here if inside is None else at.value(OrIOp, inside, here)
        assert inside is not None
        return formulas.all_hold([*map(formulas.holds, ends.conditions), inside])

    def _each(self) -> None:
        """The check of each element."""
        made: Any = self.pointer.owner
        if len(self.extents) > 1:
            self._one_of_several()
        elif (
            isinstance(made, Op) and made.weights == (1, 1)
            and (start := splat_source(made.operands[0])) is not None
            and ir.element_type(made.operands[1].type) == ir.i32
        ):  # fmt: skip
            self._offsets(start, made.operands[1])
        else:
            self._addresses()

    def _offsets(self, start: SSAValue, offsets: SSAValue) -> None:
        """In numbers of 32 bits, twice as many to a register as addresses. (An offset of 2**31 - 1
        in a tensor of yet more elements is reported wrongly.)"""
        base, first, count = self._range(start)
        worst = self._worst(self.make(SubIOp, offsets, first))
        at = self.at
        index = at.value(ExtSIOp, self.make(AddIOp, worst, first), result=ir.i64)
        address = self.make(AddIOp, base, self.make(MulIOp, index, self.size))
        self._check(self._compare("ult", worst, count), address)

    def _range(self, start: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        key = start, self.size
        if key in self.starts:
            return self.starts[key]
        if not isinstance(start.owner, Block):
            return self._compute_range(start)
        usual, first_op = self.at, start.owner.first_op
        assert first_op is not None
        self.at = Builder(first_op, usual.location)
        self.starts[key] = self._compute_range(start)
        self.at = usual
        return self.starts[key]

    def _compute_range(self, start: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        at, extent, shift = self.at, self.extents[0], (self.size - 1).bit_length()
        base = at.value(PtrToIntOp, start)
        down, up = (self.make(SubIOp, end, base) for end in (extent.begin, extent.end))
        # Rounded up: an element begins inside.
        first = self.make(ShRSIOp, self.make(AddIOp, down, self.size - 1), shift)
        first = self.make(MaxSIOp, first, _LOWEST)
        last = self.make(MinSIOp, self.make(ShRSIOp, up, shift), _HIGHEST)
        first, count = self._never_empty(first, self.make(SubIOp, last, first), _HIGHEST)
        first = at.value(TruncIOp, first, result=ir.i32)
        return base, first, at.value(TruncIOp, count, result=ir.i32)

    def _addresses(self) -> None:
        begin, end = self.extents[0]
        count = self.make(SubIOp, self.make(SubIOp, end, begin), self.size - 1)
        begin, count = self._never_empty(begin, count, -1)
        addresses = self.at.value(PtrToIntOp, self.pointer)
        worst = self._worst(self.make(SubIOp, addresses, begin))
        self._check(self._compare("ult", worst, count), self.make(AddIOp, begin, worst))

    def _one_of_several(self) -> None:
        addresses = self.at.value(PtrToIntOp, self.pointer)
        outside: SSAValue | None = None
        for begin, end in self.extents:
            count = self.make(SubIOp, self.make(SubIOp, end, begin), self.size - 1)
            count = self.make(MaxSIOp, count, 0)
            beyond = self._compare("uge", self.make(SubIOp, addresses, begin), count)
            outside = beyond if outside is None else self.make(AndIOp, outside, beyond)
        assert outside is not None
        none = self.at.constant(0, addresses)
        worst = self._worst(self.at.chosen(outside, addresses, none))
        self._check(self._compare("eq", worst, 0), worst)

    def _never_empty(
        self, first: SSAValue, count: SSAValue, nowhere: int
    ) -> tuple[SSAValue, SSAValue]:
        """The bounds of the places; if there are none, those of one place that no access has:
        places that are masked off count as the first one, which must be allowed."""
        empty = self._compare("sle", count, 0)
        at = self.at
        return (
            at.chosen(empty, at.constant(nowhere, first), first),
            at.chosen(empty, at.constant(1, count), count),
        )

    def _worst(self, places: SSAValue) -> SSAValue:
        """The greatest place, as an unsigned number, of those that are accessed; 0 for none."""
        if self.mask is not None:
            nothing = self.at.constant(0, places)
            places = self.at.chosen(self.mask, places, nothing)
        return reduced(self.at, places, MaxUIOp)

    def make(self, cls: type[Op], lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
        """The result of a new op; a number is as many as the left operand has."""
        return self.at.value(cls, lhs, self._like(rhs, lhs))

    def _like(self, value: SSAValue | int, like: SSAValue) -> SSAValue:
        """A number or a scalar as a value of the same type as another one."""
        if isinstance(value, int):
            return self.at.constant(value, like)
        if value.type == like.type:
            return value
        return self.at.value(SplatOp, value, result=like.type)

    def _compare(self, word: str, lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
        predicate = CmpIPredicate[word.upper()]
        return self.at.value(CmpIOp, lhs, self._like(rhs, lhs), predicate=predicate)

    def _check(self, condition: SSAValue, address: SSAValue) -> None:
        self.at.make(SanitizerCheckOp, condition, address, site=self.site)
