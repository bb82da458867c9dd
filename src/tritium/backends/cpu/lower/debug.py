"""Printing, assertions and the profiler's records on the device."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.atomics.accesses import now
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import fp
from tritium.backends.cpu.lower.values import Uniform
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, c_string, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.locations import source_position
from tritium.native.pool import FAULT
from tritium.ops import cf
from tritium.ops.tile.nests import OPERAND
from tritium.ops.ttir.debug import AssertOp, PrintOp
from tritium.ops.ttir.profile import RecordOp
from tritium.ops.ttir.sanitize import SanitizerCheckOp
from tritium.sanitize.launch import PREFIX
from tritium.sanitize.ring import HEAD_BYTES, RECORD


def _text(c: Context, text: str) -> Value:
    """A C string in the module."""
    return c.f.module.constant(*c_string(text), align=1, prefix="text")


def _printf(c: Context, op: PrintOp, format: str, *values: Value) -> None:
    f = c.f
    if "windows" in c.processor.triple:
        raise c.unsupported(op, " on Windows, whose C library has no function printf")
    f.module.declarations.setdefault("printf", "declare i32 @printf(ptr, ...)")
    arguments = ", ".join(map(str, [_text(c, format), *values]))
    f.emit("i32", f"call i32 (ptr, ...) @printf({arguments})")
    f.call("i32", "fflush", Value("ptr", "null"))


def _program(c: Context) -> list[Value]:
    return [c.program[axis] for axis in "xyz"]


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _conversion(
    c: Context, op: Any, value: Value, type: ir.Type, signed: bool
) -> tuple[str, Value]:
    """The printf conversion of an element, and the element as it is passed."""
    f, element = c.f, ir.element_type(type)
    if value.type == "ptr":
        return "%p", value
    bits = ir.bit_width(element)
    if op.hex:
        digits = max(1, bits // 8) * 2
        if ir.is_float(element) and not value.type.startswith("i"):
            value = f.cast("bitcast", value, f"i{bits}")
        return f"0x%0{digits}llx", f.cast("zext", value, "i64")
    if ir.is_float(element):
        return "%f", fp(f, value, FORMATS[element], "fp64", features=c.features)
    if element == ir.i1 or not signed:
        return "%llu", f.cast("zext", value, "i64")
    return "%lld", f.cast("sext", value, "i64")


def _print(
    c: Context, op: PrintOp, number: int, value: Value, type: ir.Type, places: list[Value]
) -> None:
    shape = ir.shape_of(type)
    widths = [len(str(size - 1)) for size in shape]
    index = ", ".join(f"%{w}lld" for w in widths)
    which = f"(operand {number}) " if len(op.arguments) > 1 else ""
    conversion, passed = _conversion(c, op, value, type, bool(op.isSigned[number]))
    format = f"pid (%d, %d, %d) idx ({index}){_escape(op.prefix)}{which}{conversion}\n"
    _printf(c, op, format, *_program(c), *places, passed)


@lowers("cpu.scalarized", PrintOp)
def print_element(e: Emitter, op: PrintOp, at: At) -> None:
    number: Any = op.attributes[OPERAND]
    source = op.arguments[number.value.data]
    if not ir.shape_of(source.type):
        at = ()
    found = e.emit(source, at)
    assert isinstance(found, Uniform)
    places = [e.position(i) for i in at]
    values = [p.value for p in places if isinstance(p, Uniform)]
    _print(e.context, op, number.value.data, found.value, source.type, values)


@lowers("cpu.scalar", PrintOp)
def print_scalars(c: Context, op: PrintOp, *values: Value) -> tuple[()]:
    if not values:
        _printf(c, op, f"pid (%d, %d, %d){_escape(op.prefix)}\n", *_program(c))
    for number, (value, source) in enumerate(zip(values, op.arguments, strict=False)):
        _print(c, op, number, value, source.type, [])
    return ()


def check(c: Context, op: Any, condition: Value, message: str) -> None:
    """Report the first failure, with its line, and leave the program."""
    place = source_position(op.location)
    if place is not None:
        message += f" at {place[0]}:{place[1]}"
    leave_unless(c, condition, message)


def leave_unless(c: Context, condition: Value, message: str, detail: Value | None = None) -> None:
    """Report the first failure, with a number, and leave the program."""
    f = c.f
    if condition.type != "i1":
        condition = f.icmp("ne", condition, const(condition.type, 0))
    failed, passed = f.new_label("failed"), f.new_label("passed")
    f.branch_if(condition, passed, failed)
    f.label(failed)
    fault = c.program["fault"]
    pair = f.emit("{ i32, i1 }", f"cmpxchg {fault}, i32 0, i32 1 acq_rel acquire, align 4")
    first = f.emit("i1", f"extractvalue {{ i32, i1 }} {pair.ref}, 1")
    report, leave = f.new_label("report"), f.new_label("leave")
    f.branch_if(first, report, leave)
    f.label(report)
    for number, value in enumerate(_program(c)):
        f.store(value, f.offset(fault, 4 + 4 * number), 4)
    f.store(_text(c, message), f.offset(fault, 16), 8)
    if detail is not None:
        f.store(detail, f.offset(fault, FAULT.fields["detail"].offset), 8)
    f.branch(leave)
    f.label(leave)
    f.ret()
    f.label(passed)


@lowers("cpu.scalarized", AssertOp)
def check_element(e: Emitter, op: AssertOp, at: At) -> None:
    found = e.emit(op.condition, at)
    assert isinstance(found, Uniform)
    check(e.context, op, found.value, op.message)


@lowers("cpu.scalar", AssertOp)
def check_scalar(c: Context, op: AssertOp, condition: Value) -> tuple[()]:
    check(c, op, condition, op.message)
    return ()


@lowers("cpu.scalar", SanitizerCheckOp)
def sanitizer_check(c: Context, op: SanitizerCheckOp, condition: Value, detail: Value) -> tuple[()]:
    leave_unless(c, condition, f"{PREFIX}{op.site}", detail)
    return ()


@lowers("cpu.scalar", cf.AssertOp)
def check_flag(c: Context, op: cf.AssertOp, condition: Value) -> tuple[()]:
    check(c, op, condition, op.msg)
    return ()


@lowers("cpu.scalar", RecordOp)
def record(c: Context, op: Any, *memory: Value) -> tuple[()]:
    """Take the next record of the ring, and fill it."""
    if not memory:
        return ()
    f, (buffer, mask) = c.f, memory
    start = f.emit("ptr", f"inttoptr {buffer} to ptr")
    written = f.emit("i64", f"atomicrmw add {start}, i64 1 monotonic, align 8")
    offset = f.op("mul", f.op("and", written, mask), const("i64", RECORD.itemsize))
    at = f.emit("ptr", f"getelementptr i8, {f.offset(start, HEAD_BYTES)}, {offset}")
    values = {
        "time": now(c), "thread": _thread(c), "what": const("i32", 2 * op.number + op.starts),
        **{axis: c.program[axis] for axis in "xyz"},
    }  # fmt: skip
    for name, value in values.items():
        kind, place = (RECORD.fields or {})[name][:2]
        f.store(value, f.offset(at, place), kind.itemsize)
    return ()


def _thread(c: Context) -> Value:
    """A number that other threads do not have."""
    declarations = c.f.module.declarations
    if "windows" in c.processor.triple:
        declarations.setdefault("GetCurrentThreadId", "declare i32 @GetCurrentThreadId()")
        return c.f.cast("zext", c.f.emit("i32", "call i32 @GetCurrentThreadId()"), "i64")
    declarations.setdefault("pthread_self", "declare i64 @pthread_self()")
    return c.f.emit("i64", "call i64 @pthread_self()")
