"""Printing, assertions and reports. Each element is printed by one of the threads that hold it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tritium.codegen.gpu.casts import float_from
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers
from tritium.codegen.gpu.shape import axis_layout
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.races import end_epoch, note, note_order, report_of
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.locations import source_position
from tritium.ops.ttir.debug import AssertOp, PrintOp
from tritium.ops.ttir.profile import RecordOp
from tritium.ops.ttir.sanitize import RaceCheckOp, RaceOrderOp, ReportOp
from tritium.sanitize.report import offset
from tritium.sanitize.ring import HEAD_BYTES, RECORD


def _print_line(c: Context, format: str, values: list[Value], condition: Value | None) -> None:
    """Print by the threads where the condition holds."""
    with nullcontext() if condition is None else c.f.when(condition, "print", "printed"):
        c.hardware.host.print(c, format, values)


def _program(c: Context) -> list[Value]:
    return [c.hardware.grid.program_id(c, axis) for axis in range(3)]


def _conversion(
    c: Context, op: Any, value: Value, type: ir.Type, signed: bool
) -> tuple[str, Value]:
    """printf's conversion of an element, and the element as it is passed."""
    f, element = c.f, ir.element_type(type)
    if isinstance(element, ir.PointerType):
        return "%p", c.as_type(value, "i64")
    bits = ir.bit_width(element)
    if op.hex:
        plain = c.as_type(value, f"i{bits}")
        return f"0x%0{max(1, bits // 8) * 2}llx", f.cast("zext", plain, "i64")
    if ir.is_float(element):
        return "%f", float_from(c, value, FORMATS[element], "fp64")
    if element == ir.i1 or not signed:
        return "%llu", f.cast("zext", value, "i64")
    return "%lld", f.cast("sext", value, "i64")


@lowers(GPU, PrintOp)
def print_(c: Context, op: Any) -> None:
    """A line for each element: `pid (x, y, z) idx (i, j)prefix value`."""
    prefix, first = op.prefix.replace("%", "%%"), c.first
    if not op.arguments:
        _print_line(c, f"pid (%u, %u, %u){prefix}\n", _program(c), first)
    for n, argument in enumerate(op.arguments):
        which = f"(operand {n}) " if len(op.arguments) > 1 else ""
        tile, shape = c.tile(argument), ir.shape_of(argument.type)
        places: list[list[Value]] = [[]]
        registers, owner = [0], first
        if shape:
            layout = layout_of(argument.type)
            registers, owner = distinct_registers(layout), c.owner(layout, of_program=True)
            axes = [c.positions(axis_layout(layout, a), registers) for a in range(len(shape))]
            places = [list(place) for place in zip(*axes, strict=True)]
        index = ", ".join(f"%{len(str(size - 1))}u" for size in shape)
        for register, place in zip(registers, places, strict=True):
            kind, value = _conversion(c, op, tile[register], argument.type, bool(op.isSigned[n]))
            format = f"pid (%u, %u, %u) idx ({index}){prefix}{which}{kind}\n"
            _print_line(c, format, [*_program(c), *place, value], owner)


@lowers(GPU, AssertOp)
def assert_(c: Context, op: Any) -> None:
    f, holds = c.f, None
    for value in dict.fromkeys(c.tile(op.condition)):
        value = value if value.type == "i1" else f.icmp("ne", value, const(value.type, 0))
        holds = value if holds is None else f.op("and", holds, value)
    assert holds is not None
    file, line, _ = source_position(op.location) or ("<unknown>", 0, 0)
    fail, go_on = f.new_label("fail"), f.new_label("holds")
    f.branch_if(holds, go_on, fail)
    f.label(fail)
    c.hardware.host.fail(c, op.message, file, line)
    f.branch(go_on)
    f.label(go_on)


@lowers(GPU, ReportOp)
def report(c: Context, op: Any) -> None:
    """Each thread looks at its elements."""
    f, wrong = c.f, const("i64", 0)
    for detail in dict.fromkeys(c.tile(op.detail)):
        wrong = f.select(f.icmp("ne", detail, const("i64", 0)), detail, wrong)
    with f.when(f.icmp("ne", wrong, const("i64", 0)), "wrong", "right"):
        write_report(c, f.emit("ptr", f"inttoptr {c.tile(op.report)[0]} to ptr"), op.site, wrong)


@lowers(GPU, RaceCheckOp)
def race_check(c: Context, op: Any) -> None:
    """Note each access in the shadow memory, by one of the threads that hold the element."""
    f, (shadow,), number = c.f, c.tile(op.shadow), _number(c)
    addresses, owner = _addresses(c, op)
    for address in addresses:
        with f.when(_is_made(c, address, owner), "note", "noted"):
            fine = note(f, op, shadow, address, number)
            with f.when(f.op("xor", fine, const("i1", True)), "race", "fine"):
                write_report(c, report_of(f, shadow), op.site, address)


@lowers(GPU, RaceOrderOp)
def race_order(c: Context, op: Any) -> None:
    """Note an atomic operation that orders programs: one of an element by all threads, which share
    its lanes, those of a tile each by one of the threads that hold the element. What other threads
    note comes before, or behind."""
    f, (shadow,), number = c.f, c.tile(op.shadow), _number(c)
    addresses, owner = _addresses(c, op)
    part = const("i32", 0), const("i32", 1)
    if not ir.shape_of(op.address.type):
        owner, part = None, (c.thread, c.i32(c.num_warps << c.lane_bits))
    c.synchronize()
    for address in addresses:
        with f.when(_is_made(c, address, owner), "order", "ordered"):
            note_order(f, op, shadow, address, number, part, alone=False)
    c.synchronize()
    if not op.acquires:
        with f.when(c.first, "end", "ended"):
            end_epoch(f, shadow, number)
        c.synchronize()


def _number(c: Context) -> Value:
    """The number of the program in the grid, from 1."""
    return c.f.op("add", c.f.cast("zext", program_number(c), "i64"), const("i64", 1))


def _addresses(c: Context, op: Any) -> tuple[list[Value], Value | None]:
    """The addresses that this thread holds, and whether it acts for those that do (None: it
    does)."""
    addresses = c.tile(op.address)
    if not ir.shape_of(op.address.type):
        return [addresses[0]], c.first
    layout = layout_of(op.address.type)
    return [addresses[r] for r in distinct_registers(layout)], c.owner(layout, of_program=True)


def _is_made(c: Context, address: Value, owner: Value | None) -> Value:
    accessed = c.f.icmp("ne", address, const("i64", 0))
    return accessed if owner is None else c.f.op("and", owner, accessed)


def write_report(c: Context, address: Value, site: int, detail: Value) -> None:
    """Write the record at an address, if no other thread has."""
    f = c.f
    raised = f.offset(address, offset("raised"))
    pair = f.emit("{ i32, i1 }", f"cmpxchg ptr {raised.ref}, i32 0, i32 1 monotonic "
                  "monotonic, align 4")  # fmt: skip
    with f.when(f.emit("i1", f"extractvalue {{ i32, i1 }} {pair.ref}, 1"), "first", "known"):
        values = {"site": const("i32", site), "detail": detail,
                  **dict(zip("xyz", _program(c), strict=True))}  # fmt: skip
        for name, value in values.items():
            f.store(value, f.offset(address, offset(name)), 8 if name == "detail" else 4)


def program_number(c: Context) -> Value:
    """The number of the program in the grid, from 0."""
    f, (x, y, z) = c.f, _program(c)
    nx, ny = (c.hardware.grid.num_programs(c, axis) for axis in range(2))
    return f.op("add", x, f.op("mul", nx, f.op("add", y, f.op("mul", ny, z))))


@lowers(GPU, RecordOp)
def record(c: Context, op: Any) -> None:
    """The program's first thread takes the next record of the ring, and fills it."""
    if not op.memory:
        return
    f = c.f
    buffer, mask = (c.tile(value)[0] for value in op.memory)
    with f.when(c.first, "record", "recorded"):
        x, y, z = _program(c)
        start = f.emit("ptr", f"inttoptr {buffer} to ptr")
        written = f.emit("i64", f"atomicrmw add {start}, i64 1 monotonic, align 8")
        place = f.op("mul", f.op("and", written, mask), const("i64", RECORD.itemsize))
        at = f.emit("ptr", f"getelementptr i8, {f.offset(start, HEAD_BYTES)}, {place}")
        values = {
            "time": c.hardware.atomics.nanoseconds(c),
            "thread": f.cast("zext", program_number(c), "i64"),
            "what": const("i32", 2 * op.number + op.starts), "x": x, "y": y, "z": z,
        }  # fmt: skip
        for name, value in values.items():
            kind, begin = (RECORD.fields or {})[name][:2]
            f.store(value, f.offset(at, begin), kind.itemsize)
