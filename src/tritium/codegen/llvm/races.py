"""LLVM IR of the functions that note accesses in the sanitizer's shadow memory
(`tritium.sanitize.shadow`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.ops.ttir.sanitize import Access
from tritium.sanitize.shadow import (
    ATOMIC,
    HEAD_BYTES,
    NUMBER,
    ONCE_AT,
    ORDER_SHIFT,
    READS,
    REGION_BYTES,
    REPORT_AT,
    SITE_BITS,
    WORDS,
    may_be_ordered,
)

_TRUE, _FALSE = const("i1", True), const("i1", False)


def i64(value: int) -> Value:
    return const("i64", value)


def note(f: Function, op: Any, shadow: Value, address: Value, number: Value) -> Value:
    """Note an access by the program with this number (from 1); whether no other program is in the
    way.

    Args:
        op: the `RaceCheckOp`.
        shadow: the address of the table.
    """
    name = f"tritium_note_{op.access.name.lower()}_{op.order}"
    if all(other.name != name for other in f.module.functions):
        orders = [order for order in range(4) if op.orders >> order & 1]
        _write(f.module, name, op.access, op.order, orders)
    me = f.op("or", f.op("shl", number, i64(SITE_BITS)), i64(op.order << ORDER_SHIFT | op.site))
    return f.call("i1", name, shadow, address, me, i64(op.size))


def report_of(f: Function, shadow: Value) -> Value:
    """The address of the launch's report."""
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    return f.load("ptr", f.offset(table, REPORT_AT), 8)


def _write(module: Module, name: str, kind: Access, order: int, orders: Sequence[int]) -> None:
    """Write the function that notes accesses of a kind with this `Order`, in all granules that they
    touch; `orders` are those of the kernel's accesses."""
    arguments = [("i64", name, "") for name in ("shadow", "address", "me", "size")]
    f = Function(module, name, arguments, "i1", linkage="internal", attributes="nounwind noinline")
    shadow, address, me, size = f.arguments
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    shift, count = f.load("i64", table, 8), f.load("i64", f.offset(table, 8), 8)

    def granules(words: Value, offset: Value, fine: Value) -> Value:
        def note_row(n: Value) -> Value:
            row = f.gep("i64", words, f.op("mul", n, i64(WORDS * len(orders))))
            places = [f.offset(row, 8 * WORDS * i) for i in range(len(orders))]
            others = [
                place for place, other in zip(places, orders, strict=True)
                if not may_be_ordered(other, order)
            ]  # fmt: skip
            return _note(f, places[orders.index(order)], others, me, kind)

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
    """Note an access in a word of the bits of write-once memory; whether it may be made: bytes are
    written before they are read, and once. Atomic operations, which do both, may not."""
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


def _note(f: Function, own: Value, others: Sequence[Value], me: Value, kind: Access) -> Value:
    """Note an access of a granule in the words of its `Order`; whether no other program is in the
    way in the words of those that have no order beside it (`others`)."""

    def foreign(word: Value) -> Value:
        """True where another program has written a word."""
        differs = f.op("lshr", f.op("and", f.op("xor", word, me), i64(NUMBER)), i64(SITE_BITS))
        return f.op("and", f.icmp("ne", word, i64(0)), f.icmp("ne", differs, i64(0)))

    def atomic(word: Value) -> Value:
        return f.icmp("ne", f.op("and", word, i64(ATOMIC)), i64(0))

    writes, plain = kind.writes, not kind.is_atomic
    first = own if writes else f.offset(own, 8 * READS)
    second = f.offset(first, 8)
    mine = me if plain else f.op("or", me, i64(ATOMIC))
    old = _claim(f, first, mine)
    behind = mine
    if plain:
        with f.when(atomic(old)):
            _replace(f, first, old, me)
        behind = f.select(atomic(old), old, me)
    with f.when(foreign(old)):
        last = _claim(f, second, behind)
        if plain:
            free = f.op("or", f.op("xor", foreign(last), _TRUE), f.op("xor", atomic(old), _TRUE))
            with f.when(f.op("and", atomic(last), free)):
                _replace(f, second, last, behind)
    wrong = _FALSE
    for row in others:
        for word in (_get(f, f.offset(row, 8 * i)) for i in range(WORDS if writes else READS)):
            other = foreign(word)
            if not plain:
                other = f.op("and", other, f.op("xor", atomic(word), _TRUE))
            wrong = f.op("or", wrong, other)
    return f.op("xor", wrong, _TRUE)


def _get(f: Function, word: Value) -> Value:
    return f.emit("i64", f"load atomic i64, {word} seq_cst, align 8")


def _claim(f: Function, word: Value, me: Value) -> Value:
    """Write `me` where nothing is; what was there before."""
    return _replace(f, word, i64(0), me)


def _replace(f: Function, word: Value, old: Value, me: Value) -> Value:
    """Write `me` where `old` is; what was there before."""
    pair = f.emit("{ i64, i1 }", f"cmpxchg {word}, {old}, {me} seq_cst seq_cst, align 8")
    return f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0")
