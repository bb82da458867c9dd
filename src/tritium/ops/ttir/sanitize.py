"""Checks that the sanitizer inserts (`tritium.sanitize`)."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import HOST, opaque, waits
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, enum_attr, i32_array_attr, i32_attr, operand, optional
from tritium.ops.memory import Context, EvaluationError


class SanitizerCheckOp(Op):
    """Report check number `site`, with the i64 `detail` (an address, say), and leave the program
    where `condition` is false.

    Not opaque, so that its operands do not count as memory that the host may write.
    """

    name = "tt.sanitizer_check"
    effects = (waits(HOST),)
    syntax = "$condition, $detail attrs : type(condition), type(detail)"
    condition = operand()
    detail = operand()
    site = i32_attr()

    @classmethod
    def infer(cls, condition: ir.Type, detail: ir.Type, **attrs: Any) -> None:
        if (condition, detail) != (ir.i1, ir.i64):
            raise OpError(f"{cls.name}: operands are {describe(condition, detail)}; i1, i64")

    def evaluate(self, context: Context, condition: Any, detail: Any) -> None:
        if not np.all(condition):
            place = ", ".join(map(str, context.program_id))
            raise EvaluationError(
                f"sanitizer check {self.site} failed in program ({place}): {int(detail):#x}"
            )


class Access(IntEnum):
    """Kind of a program's access to memory: plain, atomic, or atomic for the threads of the program
    alone."""

    READ, WRITE, ATOMIC_READ, ATOMIC_WRITE, OWN_READ, OWN_WRITE = range(6)

    @property
    def writes(self) -> bool:
        """True for one that may write."""
        return self in (Access.WRITE, Access.ATOMIC_WRITE, Access.OWN_WRITE)

    @property
    def is_atomic(self) -> bool:
        """True for one that is atomic for other programs."""
        return self in (Access.ATOMIC_READ, Access.ATOMIC_WRITE)

    @property
    def words(self) -> str:
        """The access's name in reports."""
        return _WORDS[self]

    @property
    def is_plain(self) -> bool:
        """True for a load or a store."""
        return self in (Access.READ, Access.WRITE)


_WORDS = {
    Access.READ: "load", Access.WRITE: "store",
    Access.ATOMIC_READ: "atomic load", Access.ATOMIC_WRITE: "atomic access",
    Access.OWN_READ: 'atomic load of scope "cta"', Access.OWN_WRITE: 'atomic access of scope "cta"',
}  # fmt: skip


class Order(IntFlag):
    """Operations of a program around an access by which programs may order themselves: one
    `BEFORE` it, or the access itself, may have told the program how far others are; one `LATER` may
    tell others that the access is made."""

    BEFORE = 1
    LATER = 2


class Clocking(IntEnum):
    """Relation of an access to the clocks of programs (`tritium.sanitize.shadow`): the kernel keeps
    none, the access is noted by the program's clock, or is itself what tells others of it."""

    NONE, NOTED, RELEASING = range(3)


class RaceCheckOp(Op):
    """Note that the program accesses `size` bytes at each address that is not 0. Report check
    number `site` and leave the program where another program has accessed them, too, and one of the
    two has written. Two atomic accesses are no fault, nor is an access that the program knows of by
    its clock. Without clocks, two are none that the programs may have ordered: something after the
    one (`Order.LATER`), which something before the other (`BEFORE`) has seen.

    `shadow` is the address of what was noted (`tritium.sanitize.shadow`), apart for each `Order`
    that accesses of the kernel have: `orders` has the bit of each.
    """

    name = "tt.race_check"
    effects = (waits(HOST),)
    syntax = "$address, $shadow attrs : type(address)"
    takes_any_layout = True
    address = operand()
    shadow = operand()
    access = enum_attr(Access)
    size = i32_attr()
    site = i32_attr()
    order = i32_attr()
    orders = i32_attr()
    clocking = enum_attr(Clocking)

    @classmethod
    def infer(cls, address: ir.Type, shadow: ir.Type, **attrs: Any) -> None:
        _check_noted(cls.name, address, shadow)

    def evaluate(self, context: Context, address: Any, shadow: Any) -> None:
        """Note nothing: programs run one after the other."""


class RaceOrderOp(Op):
    """Note that an atomic operation of `size` bytes at each address that is not 0 orders programs.
    It stands before one that tells others how far the program is, and behind one that tells the
    program how far others are (`acquires`). Clocks are kept for every `unit` bytes.

    `shadow`: as of `RaceCheckOp`.
    """

    name = "tt.race_order"
    effects = (waits(HOST),)
    syntax = "$address, $shadow attrs : type(address)"
    takes_any_layout = True
    address = operand()
    shadow = operand()
    size = i32_attr()
    unit = i32_attr()
    acquires = bool_attr()

    @classmethod
    def infer(cls, address: ir.Type, shadow: ir.Type, **attrs: Any) -> None:
        _check_noted(cls.name, address, shadow)

    def evaluate(self, context: Context, address: Any, shadow: Any) -> None:
        """Note nothing: programs run one after the other."""


def _check_noted(name: str, address: ir.Type, shadow: ir.Type) -> None:
    if ir.element_type(address) != ir.i64 or shadow != ir.i64:
        raise OpError(f"{name}: operands are {describe(address, shadow)}; i64, i64")


class ReportOp(Op):
    """Report check number `site` if an element of `detail` is not 0, and go on.

    `report` is the address of a record (`tritium.sanitize.report`), which takes the first one.
    """

    name = "tt.sanitizer_report"
    effects = (opaque(),)
    syntax = "$detail, $report attrs : type(detail)"
    takes_any_layout = True
    detail = operand()
    report = operand()
    site = i32_attr()

    @classmethod
    def infer(cls, detail: ir.Type, report: ir.Type, **attrs: Any) -> None:
        if ir.element_type(detail) != ir.i64 or report != ir.i64:
            raise OpError(f"{cls.name}: operands are {describe(detail, report)}; i64, i64")

    def evaluate(self, context: Context, detail: Any, report: Any) -> None:
        found = np.asarray(detail).reshape(-1)
        if found.any():
            place = ", ".join(map(str, context.program_id))
            raise EvaluationError(
                f"sanitizer check {self.site} failed in program ({place}): {int(found.max()):#x}"
            )


class ChipAccessOp(Op):
    """Note that a partition accesses `memory`, a piece of shared memory, from here on, if `pred`.
    Report check number `site` where another access, one of the two a write, is not over as far as
    the partition knows.

    `table` is the address of what is noted, `state` how that lies there (`sanitize.chip.state`).
    The access is that of the actor `queue`; -1 for the partition itself, -2 for that of `barrier`.
    `places` and `barriers`: (number, first, unit, count) of the allocations that the memory and the
    barrier may be in. `column`: of what is read; -1 for a write.
    """

    name = "ttg.note_access"
    effects = (opaque(),)
    syntax = "$memory, $table [, $pred] [by $barrier] attrs : type(memory) [, type(barrier)]"
    memory = operand()
    table = operand()
    pred = optional()
    barrier = optional()
    state = i32_array_attr()
    places = i32_array_attr()
    barriers = i32_array_attr(())
    partition = i32_attr()
    queue = i32_attr()
    column = i32_attr()
    site = i32_attr()

    @classmethod
    def infer(cls, memory: ir.Type, table: ir.Type, *others: ir.Type | None, **attrs: Any) -> None:
        if table != ir.i64:
            raise OpError(f"{cls.name}: table is {describe(table)}; i64 is required")

    def evaluate(self, context: Context, *values: Any) -> None:
        """Note nothing: the model of shared memory refuses such accesses."""


class ChipEvent(IntEnum):
    """Kind of what a partition does to the order of accesses of shared memory."""

    PLACE, START, WAIT_QUEUE, INIT, ARRIVE, WAIT, FORK, JOIN = range(8)


class ChipEventOp(Op):
    """Note that a partition does something by which accesses of shared memory are ordered, if
    `pred`:

    - PLACE: it allocates `memory`, which has `count` rows.
    - START: it begins the next group of the actor `queue`.
    - WAIT_QUEUE: it has waited for all but the `count` newest groups of `queue`.
    - INIT: the barrier `memory` gets phases of `count` arrivals.
    - ARRIVE: it arrives `count` times at the barrier `memory`, which is to wait for `bytes` more,
      when the groups of `queue` (-1: none) are done.
    - WAIT: it has waited for the barrier's phase of parity `phase`.
    - FORK, JOIN: the first `count` other partitions begin; have ended.

    Other operands and attributes are those of `ChipAccessOp`.
    """

    name = "ttg.note_event"
    effects = (opaque(),)
    syntax = "$event, $table [, $pred] [of $memory] [phase $phase] attrs [: type(memory)]"
    table = operand()
    pred = optional()
    memory = optional()
    phase = optional()
    event = enum_attr(ChipEvent)
    state = i32_array_attr()
    places = i32_array_attr(())
    partition = i32_attr(0)
    queue = i32_attr(-1)
    count = i32_attr(0)
    bytes = i32_attr(0)

    @classmethod
    def infer(cls, table: ir.Type, *others: ir.Type | None, **attrs: Any) -> None:
        if table != ir.i64:
            raise OpError(f"{cls.name}: table is {describe(table)}; i64 is required")

    def evaluate(self, context: Context, *values: Any) -> None:
        """Note nothing."""
