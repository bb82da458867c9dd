"""LLVM IR of the functions that note accesses in the sanitizer's shadow memory
(`tritium.sanitize.shadow`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.ops.ttir.sanitize import Access, Clocking
from tritium.sanitize.shadow import (
    ATOMIC,
    CHANGES,
    EPOCH_SHIFT,
    HEAD_BYTES,
    HEARD_CHANGES,
    HEARD_FROM,
    LANES_AT,
    LAST_EPOCH,
    NUMBER,
    ONCE_AT,
    ORDER_SHIFT,
    OWN_ACCESS,
    OWN_EPOCH,
    OWN_WORDS,
    READS,
    REGION_BYTES,
    REPORT_AT,
    ROWS_AT,
    SITE_BITS,
    SLOT_SHIFT_AT,
    SLOT_TAIL,
    SLOTS_AT,
    TOLD_TO,
    WORDS,
    may_be_ordered,
)

_TRUE, _FALSE = const("i1", True), const("i1", False)


def i64(value: int) -> Value:
    return const("i64", value)


def i32(value: int) -> Value:
    return const("i32", value)


def note(f: Function, op: Any, shadow: Value, address: Value, number: Value) -> Value:
    """Note an access by the program with this number (from 1); returns whether no other program is
    in the way.

    Args:
        op: the `RaceCheckOp`.
        shadow: the address of the table.
    """
    name = f"tritium_note_{op.access.name.lower()}_{op.order}_{op.clocking.name.lower()}"
    if all(other.name != name for other in f.module.functions):
        orders = [order for order in range(4) if op.orders >> order & 1]
        _write(f.module, name, op, orders)
    me = f.op("or", f.op("shl", number, i64(SITE_BITS)), i64(op.order << ORDER_SHIFT | op.site))
    return f.call("i1", name, shadow, address, me, i64(op.size))


def note_order(
    f: Function, op: Any, shadow: Value, address: Value, number: Value,
    part: tuple[Value, Value] = (i32(0), i32(1)), *, alone: bool,
) -> None:  # fmt: skip
    """Note an atomic operation of the program with this number that orders programs.

    Args:
        op: the `RaceOrderOp`.
        shadow: the address of the table.
        part: the lanes that are looked at: the first, and by how many to go on.
        alone: no other thread runs the program; what it has noted already is not noted again.
    """
    name = f"tritium_note_{'acquire' if op.acquires else 'release'}"
    if all(other.name != name for other in f.module.functions):
        _write_order(f.module, name, acquires=op.acquires, alone=alone)
    unit = op.unit.bit_length() - 1
    for at in range(op.size // op.unit):
        place = f.op("lshr", f.op("add", address, i64(at << unit)), i64(unit))
        f.call("i1", name, shadow, place, number, *part)


def end_epoch(f: Function, shadow: Value, number: Value) -> None:
    """Begin a new epoch of a program, behind the notes of a release, if the program has made an
    access in this one."""
    clock = _Clock(f, f.emit("ptr", f"inttoptr {shadow} to ptr"), number)
    epoch = clock.told
    with f.when(f.icmp("ne", epoch, clock.get(OWN_EPOCH)), "end", "goes_on"):
        clock.set(OWN_ACCESS, i32(0))  # first: another partition may make the next access
        clock.set(OWN_EPOCH, epoch, "release")


class _Clock:
    """The row of a program.

    Args:
        table: the table of the shadow.
        number: the program's.
    """

    def __init__(self, f: Function, table: Value, number: Value):
        self._f, self._number = f, number
        self.mask = f.cast("trunc", f.load("i64", f.offset(table, LANES_AT), 8), "i32")
        self.lanes = f.op("add", self.mask, i32(1))
        words = f.cast("zext", f.op("add", self.lanes, i32(OWN_WORDS)), "i64")
        start = f.op("mul", f.op("sub", number, i64(1)), words)
        self.row = f.gep("i32", f.load("ptr", f.offset(table, ROWS_AT), 8), start)

    @property
    def own(self) -> Value:
        """The first of the words behind the lanes."""
        return self._f.gep("i32", self.row, self.lanes)

    def get(self, word: int) -> Value:
        """A word behind those of the lanes."""
        return _relaxed(self._f, self._f.offset(self.own, 4 * word))

    def set(self, word: int, value: Value, order: str = "monotonic") -> None:
        """Write a word behind those of the lanes."""
        at = self._f.offset(self.own, 4 * word)
        self._f.line(f"store atomic {value}, {at} {order}, align 4")

    @property
    def own_lane(self) -> Value:
        """The lane (i32) of the program."""
        return self._lane(self._number)

    def _lane(self, number: Value) -> Value:
        f = self._f
        return f.op("and", f.op("sub", f.cast("trunc", number, "i32"), i32(1)), self.mask)

    @property
    def next(self) -> Value:
        """The epoch of a new access."""
        return self._f.intrinsic(
            "umin", self._f.op("add", self.get(OWN_EPOCH), i32(1)), i32(LAST_EPOCH)
        )

    @property
    def told(self) -> Value:
        """The last epoch in which there is an access; the first one is none to begin with."""
        f, epoch = self._f, self.get(OWN_EPOCH)
        quiet = f.op("and", f.icmp("eq", self.get(OWN_ACCESS), i32(0)),
                     f.icmp("ne", epoch, i32(0)))  # fmt: skip
        return f.select(quiet, epoch, self.next)

    def knows(self, word: Value) -> Value:
        """True if the program knows of an access."""
        f = self._f
        number = f.op("lshr", f.op("and", word, i64(NUMBER)), i64(SITE_BITS))
        known = _relaxed(f, f.gep("i32", self.row, self._lane(number)))
        epoch = f.op("and", f.op("lshr", word, i64(EPOCH_SHIFT)), i64(LAST_EPOCH))
        return f.icmp("uge", f.cast("zext", known, "i64"), epoch)


def _write_order(module: Module, name: str, *, acquires: bool, alone: bool) -> None:
    """Write the function that adds what a program knows to the slot of a place, or the slot to
    that."""
    arguments = [("i64", "shadow", ""), ("i64", "place", ""), ("i64", "number", ""),
                 ("i32", "first", ""), ("i32", "step", "")]  # fmt: skip
    f = Function(module, name, arguments, "i1", linkage="internal", attributes="nounwind noinline")
    shadow, place, number, first, step = f.arguments
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    clock = _Clock(f, table, number)
    mixed = f.op("mul", place, i64(_MIXER))
    chosen = f.op("lshr", mixed, f.load("i64", f.offset(table, SLOT_SHIFT_AT), 8))
    words = f.cast("zext", f.op("add", clock.lanes, i32(SLOT_TAIL)), "i64")
    start = f.op("mul", chosen, words)
    slot = f.gep("i32", f.load("ptr", f.offset(table, SLOTS_AT), 8), start)
    which = f.op("add", f.cast("trunc", chosen, "i32"), i32(1))
    write = _write_acquire if acquires else _write_release
    if not alone:
        write(f, clock, slot, which, (first, step))
    else:
        is_known = _is_heard if acquires else _is_told
        with f.when(_not(f, is_known(f, clock, slot, which)), "new", "known"):
            write(f, clock, slot, which, (first, step))
    f.ret(_TRUE)


def _changes(f: Function, clock: _Clock, slot: Value) -> Value:
    return f.offset(f.gep("i32", slot, clock.lanes), 4 * CHANGES)


def _is_told(f: Function, clock: _Clock, slot: Value, which: Value) -> Value:
    """True if a slot knows all that the program knows and has done."""
    quiet = f.icmp("eq", clock.told, clock.get(OWN_EPOCH))
    return f.op("and", quiet, f.icmp("eq", clock.get(TOLD_TO), which))


def _is_heard(f: Function, clock: _Clock, slot: Value, which: Value) -> Value:
    """True if the program knows all that a slot knows."""
    same = f.icmp("eq", _relaxed(f, _changes(f, clock, slot)), clock.get(HEARD_CHANGES))
    return f.op("and", same, f.icmp("eq", clock.get(HEARD_FROM), which))


def _write_release(
    f: Function, clock: _Clock, slot: Value, which: Value, part: tuple[Value, Value]
) -> None:
    _join(f, slot, clock.row, clock.lanes, part)
    _raise(f, f.gep("i32", slot, clock.own_lane), clock.told)
    # Always: where all is there already, another program may be about to count it.
    f.emit("i32", f"atomicrmw add {_changes(f, clock, slot)}, i32 1 release, align 4")
    clock.set(TOLD_TO, which)


def _write_acquire(
    f: Function, clock: _Clock, slot: Value, which: Value, part: tuple[Value, Value]
) -> None:
    at = _changes(f, clock, slot)
    changes = f.emit("i32", f"load atomic i32, {at} acquire, align 4")
    new = _join(f, clock.row, slot, clock.lanes, part)
    with f.when(f.op("and", new, f.icmp("ne", clock.get(TOLD_TO), which)), "more", "same"):
        clock.set(TOLD_TO, i32(0))
    clock.set(HEARD_FROM, which)
    clock.set(HEARD_CHANGES, changes)


def _join(f: Function, to: Value, other: Value, lanes: Value, part: tuple[Value, Value]) -> Value:
    """Raise lanes to those of another vector; returns whether one was less."""
    first, step = part
    with f.loop(first, lanes, step, [_FALSE]) as loop:
        value = _relaxed(f, f.gep("i32", other, loop.index))
        raised = _raise(f, f.gep("i32", to, loop.index), value)
        loop.next = [f.op("or", loop.carried[0], raised)]
    return loop.results[0]


_MIXER = 0x9E3779B97F4A7C15 - (1 << 64)
"""The golden ratio as a fraction of 2^64: products with it differ in their high bits."""


def _relaxed(f: Function, word: Value) -> Value:
    return f.emit("i32", f"load atomic i32, {word} monotonic, align 4")


def _raise(f: Function, word: Value, value: Value) -> Value:
    """Raise a word to a value; returns whether it was less."""
    less = f.icmp("ugt", value, _relaxed(f, word))
    with f.when(less):
        f.emit("i32", f"atomicrmw umax {word}, {value} monotonic, align 4")
    return less


def report_of(f: Function, shadow: Value) -> Value:
    """The address of the launch's report."""
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    return f.load("ptr", f.offset(table, REPORT_AT), 8)


def _write(module: Module, name: str, op: Any, orders: Sequence[int]) -> None:
    """Write the function that notes accesses of the kind, the `Order` and the clocking of `op`, in
    all granules that they touch; `orders` are those of the kernel's accesses."""
    kind: Access = op.access
    arguments = [("i64", name, "") for name in ("shadow", "address", "me", "size")]
    f = Function(module, name, arguments, "i1", linkage="internal", attributes="nounwind noinline")
    shadow, address, me, size = f.arguments
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    shift, count = f.load("i64", table, 8), f.load("i64", f.offset(table, 8), 8)
    clock = None
    if op.clocking is not Clocking.NONE:
        clock = _Clock(f, table, f.op("lshr", f.op("and", me, i64(NUMBER)), i64(SITE_BITS)))
        epoch = clock.next
        if op.clocking is Clocking.RELEASING:
            epoch = clock.told
        else:
            clock.set(OWN_ACCESS, i32(1))
        me = f.op("or", me, f.op("shl", f.cast("zext", epoch, "i64"), i64(EPOCH_SHIFT)))

    def granules(words: Value, offset: Value, fine: Value) -> Value:
        def note_row(n: Value) -> Value:
            row = f.gep("i64", words, f.op("mul", n, i64(WORDS * len(orders))))
            rows = [(f.offset(row, 8 * WORDS * i), may_be_ordered(other, op.order))
                    for i, other in enumerate(orders)]  # fmt: skip
            return _Note(f, me, kind, clock).made(rows[orders.index(op.order)][0], rows)

        return _for_all(f, offset, size, shift, fine, note_row)

    def bits(words: Value, offset: Value, fine: Value) -> Value:
        def write_word(n: Value) -> Value:
            return _write_once(f, f.gep("i64", words, n), n, offset, size, kind)

        return _for_all(f, offset, size, i64(6), fine, write_word)

    once = f.op("add", count, f.load("i64", f.offset(table, ONCE_AT), 8))
    noted = _in_regions(f, table, (i64(0), count), address, _TRUE, granules)
    f.ret(_in_regions(f, table, (count, once), address, noted, bits))


def _in_regions(
    f: Function, table: Value, numbers: tuple[Value, Value], address: Value, fine: Value,
    write: Callable[[Value, Value, Value], Value],
) -> Value:  # fmt: skip
    """`write(words, offset, fine)` for the regions of these numbers that an address is in."""
    with f.loop(*numbers, i64(1), [fine]) as regions:
        at = f.op("mul", regions.index, i64(REGION_BYTES))
        region = f.gep("i8", f.offset(table, HEAD_BYTES), at)
        offset = f.op("sub", address, f.load("i64", region, 8))
        inside = f.icmp("ult", offset, f.load("i64", f.offset(region, 8), 8))

        def found() -> Value:
            return write(f.load("ptr", f.offset(region, 16), 8), offset, regions.carried[0])

        regions.next = [f.choose(inside, regions.carried[0], found)]
    return regions.results[0]


def _for_all(
    f: Function, offset: Value, size: Value, shift: Value, fine: Value,
    write: Callable[[Value], Value],
) -> Value:  # fmt: skip
    """True if `write(number)` holds for all parts of 2^`shift` bytes that `size` bytes touch."""
    end = f.op("sub", f.op("add", offset, size), i64(1))
    first, last = f.op("lshr", offset, shift), f.op("lshr", end, shift)
    with f.loop(first, f.op("add", last, i64(1)), i64(1), [fine], at_least_once=True) as loop:
        loop.next = [f.op("and", loop.carried[0], write(loop.index))]
    return loop.results[0]


def _write_once(
    f: Function, word: Value, number: Value, offset: Value, size: Value, kind: Access
) -> Value:
    """Note an access in a word of the bits of write-once memory; returns whether it may be made:
    bytes are written before they are read, and once. Atomic operations, which do both, may not."""
    if not kind.is_plain:
        return _FALSE
    start = f.op("sub", offset, f.op("shl", number, i64(6)))
    end = f.op("add", start, size)
    low = f.select(f.icmp("slt", start, i64(0)), i64(0), start)
    above = f.select(f.icmp("sgt", end, i64(64)), i64(0), f.op("sub", i64(64), end))
    mask = f.op("and", f.op("shl", i64(-1), low), f.op("lshr", i64(-1), above))
    if kind is Access.READ:
        return f.icmp("eq", f.op("and", _get(f, word), mask), mask)
    old = f.emit("i64", f"atomicrmw or {word}, {mask} seq_cst, align 8")
    return f.icmp("eq", f.op("and", old, mask), i64(0))


@dataclass(frozen=True)
class _Note:
    """An access that is noted.

    Args:
        me: its word, but for `ATOMIC`.
        clock: the program's; None where there are none.
    """

    f: Function
    me: Value
    kind: Access
    clock: _Clock | None

    def made(self, own: Value, rows: Sequence[tuple[Value, bool]]) -> Value:
        """Note the access in the words of its `Order`; returns whether no other program is in the
        way in the words of each one (`rows`, and whether the two may be ordered)."""
        self._claim(own if self.kind.writes else self.f.offset(own, 8 * READS))
        f, wrong = self.f, _FALSE
        for row, ordered in rows:
            if ordered and self.clock is None:
                continue
            for i in range(WORDS if self.kind.writes else READS):
                word = _get(f, f.offset(row, 8 * i))
                other = self._foreign(word)
                if ordered and self.clock is not None:
                    other = f.op("and", other, _not(f, self.clock.knows(word)))
                if self.kind.is_atomic:
                    other = f.op("and", other, _not(f, self._atomic(word)))
                wrong = f.op("or", wrong, other)
        return _not(f, wrong)

    def _claim(self, first: Value) -> None:
        """Write the access's word where it may be, and what it takes the place of behind it."""
        f, plain = self.f, not self.kind.is_atomic
        mine = self.me if plain else f.op("or", self.me, i64(ATOMIC))
        # Not read before: memory that nobody has written would be mapped twice.
        before = _replace(f, first, i64(0), mine)
        free = self._free(before, mine)
        old = f.choose(free, before, lambda: _replace(f, first, before, mine))
        replaced = f.op("and", free, f.icmp("eq", old, before))
        done = f.op("or", replaced, f.icmp("eq", before, i64(0)))
        moved = f.op("and", self._atomic(old), _not(f, self._known(old)))
        moved = f.op("and", f.op("and", replaced, moved), const("i1", plain))
        late = f.op("and", _not(f, done), self._differs(old))
        behind, second = f.select(moved, old, mine), f.offset(first, 8)
        with f.when(f.op("or", moved, late)):
            last = _replace(f, second, i64(0), behind)
            with f.when(self._free(last, behind)):
                _replace(f, second, last, behind)

    def _free(self, old: Value, new: Value) -> Value:
        """True where a word may take the place of another one, which is not 0."""
        f, atomic, plain = self.f, self._atomic(old), _not(self.f, self._atomic(new))
        known = f.op("and", self._known(old), f.op("or", atomic, plain))
        taken = f.op("or", f.op("and", atomic, plain), known)
        other = f.op("and", f.icmp("ne", old, i64(0)), f.icmp("ne", old, new))
        return f.op("and", taken, other)

    def _known(self, word: Value) -> Value:
        own = _not(self.f, self._foreign(word))
        return own if self.clock is None else self.f.op("or", own, self.clock.knows(word))

    def _foreign(self, word: Value) -> Value:
        """True where another program has written a word."""
        f = self.f
        differs = f.op("and", f.op("xor", word, self.me), i64(NUMBER))
        differs = f.icmp("ne", f.op("lshr", differs, i64(SITE_BITS)), i64(0))
        return f.op("and", f.icmp("ne", word, i64(0)), differs)

    def _differs(self, word: Value) -> Value:
        """True where another program has written a word, or this one in another epoch."""
        f, mask = self.f, (1 << ORDER_SHIFT) - (1 << SITE_BITS)
        return f.icmp("ne", f.op("and", f.op("xor", word, self.me), i64(mask)), i64(0))

    def _atomic(self, word: Value) -> Value:
        return self.f.icmp("ne", self.f.op("and", word, i64(ATOMIC)), i64(0))


def _not(f: Function, value: Value) -> Value:
    return f.op("xor", value, _TRUE)


def _get(f: Function, word: Value) -> Value:
    return f.emit("i64", f"load atomic i64, {word} seq_cst, align 8")


def _replace(f: Function, word: Value, old: Value, me: Value) -> Value:
    """Write `me` where `old` is; what was there before."""
    pair = f.emit("{ i64, i1 }", f"cmpxchg {word}, {old}, {me} seq_cst seq_cst, align 8")
    return f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0")
