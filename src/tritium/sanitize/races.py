"""Check that programs of a grid do not touch the same memory while one of them writes.

before:
    tt.func @kernel(%x: !tt.ptr<f32>, ...)
      %v = tt.load %p, %mask
after:
    tt.func @kernel(%x: !tt.ptr<f32>, ..., %shadow: i64)
      %address = tt.ptr_to_int %p
      tt.race_check (%mask ? %address : 0), %shadow {access = 0, size = 4, site = 0}
      %v = tt.load %p, %mask

Programs of a grid have no order unless they make one: a program tells others how far it is by an
atomic write that is not relaxed (a release), and learns how far others are from an atomic operation
whose result it looks at (an acquire). In a kernel that has both, programs keep clocks
(`tritium.sanitize.shadow`), to which these operations add by notes beside them:

      tt.race_order %address, %shadow {acquires = false, size = 4, unit = 4}
      %old = tt.atomic_rmw exch, acq_rel, gpu, %lock, %zero
      tt.race_order %address, %shadow {acquires = true, size = 4, unit = 4}

An access that the clock of another program does not know is in the way of that program's. Each
check also says whether a release may follow its access, and an acquire may come before it
(`Order`): two that neither order allows need no clocks. Where the place of a release or an acquire
is not known (assembly), two accesses that some order allows are not reported. Where a
volatile load is the acquire, any store may be the release; such kernels are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action, observes
from tritium.ops.ttir.atomic import MemScope, MemSemantic
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ttir.numeric import PtrToIntOp
from tritium.ops.ttir.sanitize import Access, Clocking, Order, RaceCheckOp, RaceOrderOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder
from tritium.sanitize.bounds import access_name, accessed, accessed_bytes
from tritium.sanitize.kinds import Site
from tritium.sanitize.sites import add_arguments, capture, kernel_of, site_of


@dataclass(frozen=True)
class CheckRaces(Pass):
    """Check that programs do not touch the same memory while one of them writes.

    Attributes:
        sites: filled with a description of each check.
        ordering: filled with a description of an operation by which programs may order accesses,
            which are not reported for that reason.
        clocks: filled with True where programs keep clocks.
        granules: filled with the number of bytes that are noted together, the size of the smallest
            access; empty where nothing is checked.
    """

    name: ClassVar[str] = "sanitize-races"
    title: ClassVar[str] = "SanitizeRaces"
    sites: list[Site] = field(default_factory=list[Site])
    granules: list[int] = field(default_factory=list[int])
    ordering: list[Site] = field(default_factory=list[Site])
    clocks: list[bool] = field(default_factory=list[bool])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        ops = [op for op in kernel.walk() if isinstance(op, Op)]
        acquires = [op for op in ops if orders(op, used=_used(op))]
        volatile = next((op for op in acquires if is_volatile(op)), None)
        if volatile is not None:
            self.ordering.append(site_of(volatile, "races", access=access_name(volatile)))
            return False
        found = [(op, pointer) for op in ops for pointer in accessed(op)]
        if not any(access_of(op).writes for op, _ in found):
            return False
        self._insert(kernel, found, acquires, [op for op in ops if releases(op)])
        capture(kernel)
        return True

    def _insert(
        self, kernel: FuncOp, found: list[tuple[Op, SSAValue]], acquires: list[Op],
        releasing: list[Op],
    ) -> None:  # fmt: skip
        (shadow,) = add_arguments(kernel, ("shadow",))
        orders_of = {op: _order(op) for op, _ in found}
        orders = sum(1 << order for order in {int(order) for order in orders_of.values()})
        clocks = False
        if acquires and _some_ordered(orders_of):
            clocks = all(accessed(op) for op in (*acquires, *releasing))
            if clocks:
                self.clocks.append(True)
            else:
                op = acquires[0]
                self.ordering.append(site_of(op, "races", access=access_name(op)))
        ordering = {op: (op in releasing, op in acquires) for op in (*acquires, *releasing)}
        sizes = [accessed_bytes(pointer) for op, pointer in found if op in ordering]
        for op, pointer in found:
            at, size = Builder(op), accessed_bytes(pointer)
            address = _address(at, op, pointer)
            site = len(self.sites)
            first, last = ordering.get(op, (False, False)) if clocks else (False, False)
            clocking = Clocking.RELEASING if first else Clocking(int(clocks))
            at.make(RaceCheckOp, address, shadow, access=access_of(op), size=size, site=site,
                    order=int(orders_of[op]), orders=orders, clocking=clocking)  # fmt: skip
            self.sites.append(site_of(op, "races", access=access_of(op).words, size=size,
                                      order=int(orders_of[op])))  # fmt: skip
            for acquires_here, wanted in ((False, first), (True, last)):
                if wanted:
                    at = Builder(op.next_op if acquires_here else op, op.location)
                    at.make(RaceOrderOp, address, shadow, size=size, unit=min(sizes),
                            acquires=acquires_here)  # fmt: skip
        self.granules.append(min(accessed_bytes(pointer) for _, pointer in found))


def _address(at: Builder, op: Any, pointer: SSAValue) -> SSAValue:
    """The address of an access, as an integer; 0 where it is not made."""
    mask = op.mask if "mask" in op.operand_names() else None
    address = at.value(PtrToIntOp, pointer)
    return address if mask is None else at.chosen(mask, address, at.constant(0, address))


def is_volatile(op: Op) -> bool:
    """True for a load that is no atomic operation."""
    return not op.changes_memory and not hasattr(op, "sem")


def _used(op: Op) -> bool:
    return any(result.uses for result in op.results)


def _meets_others(op: Op) -> bool:
    """True if a program may meet others by an op; a barrier is for the threads of one program, and
    so are operations of scope "cta"."""
    effects = op.own_effects()
    known = any(effect.resource is GLOBAL and (effect.value or effect.action is Action.OPAQUE)
                for effect in effects)  # fmt: skip
    return known and observes(effects) and not _of_one_program(op)


def _of_one_program(op: Any) -> bool:
    """True if an atomic operation is atomic for the threads of one program alone."""
    return getattr(op, "scope", None) is MemScope.CTA


def orders(op: Op, *, used: bool) -> bool:
    """True if a program may wait for another one by an op, or learn how far that one is; `used`
    says whether the program looks at the result."""
    if not _meets_others(op) or getattr(op, "sem", None) is MemSemantic.RELAXED:
        return False
    return used or bool(op.results and not op.changes_memory)


def releases(op: Op) -> bool:
    """True if other programs may learn from an op how far this one is."""
    if not _meets_others(op):
        return False
    semantic = getattr(op, "sem", None)
    return (semantic is None and not op.results) or (
        op.changes_memory and semantic in (None, MemSemantic.RELEASE, MemSemantic.ACQUIRE_RELEASE)
    )


def _some_ordered(orders_of: Mapping[Any, Order]) -> bool:
    """True if accesses that would else be races may be ordered."""
    accesses = [(access_of(op), order) for op, order in orders_of.items()]
    return any(
        (a.writes or b.writes) and not (a.is_atomic and b.is_atomic)
        and first & Order.LATER and second & Order.BEFORE
        for a, first in accesses for b, second in accesses
    )  # fmt: skip


def _order(op: Op) -> Order:
    """The operations around an access, and the access itself, by which it may be ordered."""
    before = orders(op, used=True) or any(orders(o, used=_used(o)) for o in _around(op, -1))
    later = releases(op) or any(releases(o) for o in _around(op, 1))
    return (Order.BEFORE if before else Order(0)) | (Order.LATER if later else Order(0))


def _around(op: Op, step: int) -> Iterator[Op]:
    """The ops that may run before (-1) or after (1) an op in its program, with those in their
    regions."""
    at: Any = op
    while (block := at.parent) is not None:
        whole = [block, *_reached(block, step)]
        ops = list(block.ops)
        own = ops.index(at)
        if block in whole[1:] or (isinstance(block.parent_op(), Op) and block.parent_op().is_loop):
            near = ops
        else:
            near = ops[own + 1 :] if step > 0 else ops[:own]
        for other in [*near, *(o for b in whole[1:] if b is not block for o in b.ops)]:
            yield from (o for o in other.walk() if isinstance(o, Op) and o is not op)
        at = block.parent_op()
        if at is None or not isinstance(at.parent_op(), Op):  # the kernel
            return


def _reached(block: Any, step: int) -> list[Any]:
    """The blocks of a region that may run after (or before) one, itself if that may be."""
    following = {b: list(b.last_op.successors if b.last_op else ()) for b in block.parent.blocks}
    if step < 0:
        following = {b: [a for a, next in following.items() if b in next] for b in following}
    found: dict[Any, None] = {}
    work = list(following[block])
    while work:
        if (other := work.pop()) not in found:
            found[other] = None
            work += following[other]
    return list(found)


def access_of(op: Any) -> Access:
    """The kind of an op's access to global memory."""
    effects = op.own_effects()
    if observes(effects):
        read, write = (
            (Access.OWN_READ, Access.OWN_WRITE) if _of_one_program(op)
            else (Access.ATOMIC_READ, Access.ATOMIC_WRITE)
        )  # fmt: skip
        return write if op.changes_memory else read
    actions = {effect.action for effect in effects if effect.resource is GLOBAL}
    return Access.WRITE if Action.WRITE in actions else Access.READ
