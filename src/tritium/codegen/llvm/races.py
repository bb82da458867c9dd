"""LLVM IR of the functions that note accesses in the sanitizer's shadow memory
(`tritium.sanitize.shadow`)."""

from __future__ import annotations

from typing import Any

from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.ops.ttir.sanitize import Access
from tritium.sanitize.shadow import (
    ATOMIC,
    HEAD_BYTES,
    NUMBER,
    ORDER_SHIFT,
    REGION_BYTES,
    REPORT_AT,
    SITE_BITS,
    WORDS,
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
    name = f"tritium_note_{op.access.name.lower()}"
    if all(other.name != name for other in f.module.functions):
        _write(f.module, name, op.access)
    me = f.op("or", f.op("shl", number, i64(SITE_BITS)), i64(op.order << ORDER_SHIFT | op.site))
    return f.call("i1", name, shadow, address, me, i64(op.size))


def report_of(f: Function, shadow: Value) -> Value:
    """The address of the launch's report."""
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    return f.load("ptr", f.offset(table, REPORT_AT), 8)


def _write(module: Module, name: str, kind: Access) -> None:
    """Write the function that notes accesses of a kind, in all granules that they touch."""
    arguments = [("i64", name, "") for name in ("shadow", "address", "me", "size")]
    f = Function(module, name, arguments, "i1", linkage="internal", attributes="nounwind noinline")
    shadow, address, me, size = f.arguments
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    shift, count = f.load("i64", table, 8), f.load("i64", f.offset(table, 8), 8)
    with f.loop(i64(0), count, i64(1), [_TRUE]) as regions:
        fine = regions.carried[0]
        at = f.op("mul", regions.index, i64(REGION_BYTES))
        region = f.gep("i8", f.offset(table, HEAD_BYTES), at)
        offset = f.op("sub", address, f.load("i64", region, 8))
        inside = f.icmp("ult", offset, f.load("i64", f.offset(region, 8), 8))

        def granules() -> Value:
            words = f.load("ptr", f.offset(region, 16), 8)
            first = f.op("lshr", offset, shift)
            end = f.op("add", f.op("lshr", f.op("sub", f.op("add", offset, size), i64(1)), shift),
                       i64(1))  # fmt: skip
            with f.loop(first, end, i64(1), [fine], at_least_once=True) as loop:
                row = f.gep("i64", words, f.op("mul", loop.index, i64(WORDS)))
                loop.next = [f.op("and", loop.carried[0], _note(f, row, me, kind))]
            return loop.results[0]

        regions.next = [f.choose(inside, fine, granules)]
    f.ret(regions.results[0])


def _note(f: Function, row: Value, me: Value, kind: Access) -> Value:
    """Note an access of a granule; whether no other program is in the way."""
    written, read, read_again = row, f.offset(row, 8), f.offset(row, 16)

    def foreign(word: Value) -> tuple[Value, Value]:
        """Whether another program has written a word; and whether it has no order beside this."""
        differs = f.op("lshr", f.op("and", f.op("xor", word, me), i64(NUMBER)), i64(SITE_BITS))
        other = f.op("and", f.icmp("ne", word, i64(0)), f.icmp("ne", differs, i64(0)))
        return other, f.op("and", other, f.icmp("eq", ordered(word), i64(0)))

    def ordered(word: Value) -> Value:
        """Not 0 where one of the two accesses may happen before the other: what is later than the
        one beside what is before the other."""
        pairs = [f.op("and", f.op("lshr", a, i64(1)), b) for a, b in ((word, me), (me, word))]
        return f.op("and", f.op("or", pairs[0], pairs[1]), i64(1 << ORDER_SHIFT))

    def unordered(word: Value) -> Value:
        return foreign(word)[1]

    def plain(word: Value) -> Value:
        return f.icmp("eq", f.op("and", word, i64(ATOMIC)), i64(0))

    wrong = _FALSE
    if kind is Access.READ:
        with f.when(foreign(_claim(f, read, me))[0]):
            _claim(f, read_again, me)
        wrong = unordered(_get(f, written))
    elif kind is Access.WRITE:
        wrong = unordered(_claim(f, written, me))
    elif kind is Access.ATOMIC_WRITE:
        old = _claim(f, written, f.op("or", me, i64(ATOMIC)))
        wrong = f.op("and", unordered(old), plain(old))
    else:
        old = _get(f, written)
        wrong = f.op("and", unordered(old), plain(old))
    if kind in (Access.WRITE, Access.ATOMIC_WRITE):
        for word in (read, read_again):
            wrong = f.op("or", wrong, unordered(_get(f, word)))
    return f.op("xor", wrong, _TRUE)


def _get(f: Function, word: Value) -> Value:
    return f.emit("i64", f"load atomic i64, {word} seq_cst, align 8")


def _claim(f: Function, word: Value, me: Value) -> Value:
    """Write `me` where nothing is; what was there before."""
    pair = f.emit("{ i64, i1 }", f"cmpxchg {word}, i64 0, {me} seq_cst seq_cst, align 8")
    return f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0")
