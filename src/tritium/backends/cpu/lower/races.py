"""Notes of what programs do to memory, for the sanitizer (`tritium.sanitize.shadow`)."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.atomics.operations import element
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.debug import leave_unless
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.native.writer import Code, i32, i64
from tritium.ops.ttir.sanitize import Access, RaceCheckOp
from tritium.sanitize.launch import PREFIX
from tritium.sanitize.shadow import ATOMIC, HEAD_BYTES, REGION_BYTES, SITE_BITS, WORDS

_NOTE = "tritium.note_access"
_FALSE, _TRUE = const("i1", False), const("i1", True)


@lowers("cpu.scalarized", RaceCheckOp)
def check_element(e: Emitter, op: Any, at: At) -> None:
    mask = None if op.mask is None else element(e, op.mask, at)
    _check(e.context, op, element(e, op.address, at), element(e, op.shadow, at), mask)


@lowers("cpu.scalar", RaceCheckOp)
def check_scalar(c: Context, op: Any, address: Value, shadow: Value, *mask: Value) -> tuple[()]:
    _check(c, op, address, shadow, mask[0] if mask else None)
    return ()


def _check(c: Context, op: Any, address: Value, shadow: Value, mask: Value | None) -> None:
    f = c.f
    skip = f.new_label("unchecked")
    if mask is not None:
        check = f.new_label("check")
        if mask.type != "i1":
            mask = f.icmp("ne", mask, const(mask.type, 0))
        f.branch_if(mask, check, skip)
        f.label(check)
    if all(other.name != _NOTE for other in f.module.functions):
        _write_note(Code(f.module, _NOTE, [
            ("i64", "shadow"), ("i64", "address"), ("i64", "me"), ("i32", "access"), ("i64", "size")
        ], "i1"))  # fmt: skip
    me = f.op("or", f.op("shl", _number(c), i64(SITE_BITS)), i64(op.site))
    access, size = i32(int(op.access)), i64(op.size)
    fine = f.call("i1", _NOTE, shadow, address, me, access, size)
    leave_unless(c, fine, f"{PREFIX}{op.site}", address)
    f.branch(skip)
    f.label(skip)


def _number(c: Context) -> Value:
    """The number of the program in the grid, from 1."""
    f = c.f
    x, y, z, nx, ny = (f.cast("zext", c.program[n], "i64") for n in ("x", "y", "z", "nx", "ny"))
    plane = f.op("add", y, f.op("mul", ny, z))
    return f.op("add", f.op("add", x, f.op("mul", nx, plane)), i64(1))


def _write_note(f: Code) -> None:
    """Note an access in all granules that it touches; whether no other program is in the way."""
    shadow, address, me, access, size = f.arguments
    table = f.emit("ptr", f"inttoptr {shadow} to ptr")
    shift, count = f.get("i64", table), f.get("i64", f.offset(table, 8))
    fine = f.variable("i1", _TRUE)
    with f.counted(count) as (number, _):
        region = f.gep("i8", f.offset(table, HEAD_BYTES), f.op("mul", number, i64(REGION_BYTES)))
        offset = f.sub(address, f.get("i64", region))
        with f.when(f.icmp("ult", offset, f.get("i64", f.offset(region, 8)))):
            words = f.get("ptr", f.offset(region, 16))
            first = f.op("lshr", offset, shift)
            last = f.op("lshr", f.sub(f.add(offset, size), i64(1)), shift)
            with f.counted(f.add(last, i64(1)), first) as (granule, _):
                row = f.gep("i64", words, f.op("mul", granule, i64(WORDS)))
                f.put(fine, f.op("and", f.get("i1", fine), _note(f, row, me, access)))
    f.ret(f.get("i1", fine))


def _note(f: Code, row: Value, me: Value, access: Value) -> Value:
    """Note an access of a granule; whether no other program is in the way."""
    fine = f.variable("i1", _TRUE)
    written, read, read_again = row, f.offset(row, 8), f.offset(row, 16)

    def foreign(word: Value) -> Value:
        differs = f.op("lshr", f.op("and", f.op("xor", word, me), i64(ATOMIC - 1)), i64(SITE_BITS))
        return f.op("and", f.icmp("ne", word, i64(0)), f.icmp("ne", differs, i64(0)))

    def plain(word: Value) -> Value:
        return f.icmp("eq", f.op("and", word, i64(ATOMIC)), i64(0))

    def fail_if(condition: Value) -> None:
        with f.when(condition):
            f.put(fine, _FALSE)

    def is_access(kind: Access) -> Value:
        return f.icmp("eq", access, i32(int(kind)))

    with f.when(is_access(Access.READ)):
        with f.when(foreign(_claim(f, read, me))):
            _claim(f, read_again, me)
        fail_if(foreign(f.atomic_load("i64", written, "seq_cst")))
    with f.when(is_access(Access.WRITE)):
        fail_if(foreign(_claim(f, written, me)))
    with f.when(is_access(Access.ATOMIC_WRITE)):
        old = _claim(f, written, f.op("or", me, i64(ATOMIC)))
        fail_if(f.op("and", foreign(old), plain(old)))
    with f.when(is_access(Access.ATOMIC_READ)):
        old = f.atomic_load("i64", written, "seq_cst")
        fail_if(f.op("and", foreign(old), plain(old)))
    with f.when(f.op("or", is_access(Access.WRITE), is_access(Access.ATOMIC_WRITE))):
        for word in (read, read_again):
            fail_if(foreign(f.atomic_load("i64", word, "seq_cst")))
    return f.get("i1", fine)


def _claim(f: Code, word: Value, me: Value) -> Value:
    """Write `me` where nothing is; what was there before."""
    pair = f.emit("{ i64, i1 }", f"cmpxchg {word}, i64 0, {me} seq_cst seq_cst, align 8")
    return f.emit("i64", f"extractvalue {{ i64, i1 }} {pair.ref}, 0")
