"""The C functions of a kernel for the CPU that is compiled ahead of time, as LLVM IR.

    int32_t NAME(void *stream, ARGUMENTS...)            all programs of the grid, on this thread
    int32_t NAME_programs(uint32_t gx, uint32_t gy, uint32_t gz, int64_t begin, int64_t end,
                          ARGUMENTS...)                 some of them, for callers with threads
    const char *NAME_failure(int32_t program[3])          of the assertion that failed last: its
                                                          text and line, and the program; or NULL
    void load_NAME(void), unload_NAME(void)             nothing

The first two return 0; 1 where there is no memory for scratch; 2 where a device_assert failed.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tritium.aot import ABOUT
from tritium.aot.grid import OPERATIONS, parsed
from tritium.codegen.llvm.writer import c_string
from tritium.native.pool import CONTEXT, FAULT

_TYPES = {"fp32": "float", "fp64": "double"}


def llvm_type(type: str, name: str) -> str:
    """The LLVM type of an argument of a kernel type. Raises `NotImplementedError`."""
    if type.startswith("*"):
        return "ptr"
    if type in ("fp16", "bf16") or "<" in type:
        raise NotImplementedError(f"argument {name} of type {type}: C has no such type; pass fp32")
    return _TYPES.get(type) or ("i8" if type[1:] == "1" else f"i{type[1:]}")


def entry_ir(
    name: str, kernel: str, parameters: Sequence[tuple[str, str]], scratch: int,
    grid: Sequence[str], constants: Mapping[str, Any], about: Mapping[str, Any] | None,
) -> str:  # fmt: skip
    """The functions `name` and `name_programs` for the kernel of a module of LLVM IR, and the
    description of the library; text to put behind the module's.

    Args:
        parameters: (name, type) of each argument.
        scratch: how many bytes a program needs.
        grid: three sums of products of arguments.
        constants: what else the grid may name.
        about: the description; None to leave it out, as objects that are linked together must.
    """
    types = [llvm_type(type, argument) for argument, type in parameters]
    given = ", ".join(f"{type} %a{i}" for i, type in enumerate(types))
    rest = f", {given}" if given else ""
    lines = [
        *([] if about is None else [_described(about)]),
        *_declared(scratch),
        f"define i32 @{name}_programs(i32 %gx, i32 %gy, i32 %gz, i64 %begin, i64 %end{rest}) {{",
        *_programs(name, kernel, parameters, types, scratch),
        "}",
        *_failure(name),
        f"define i32 @{name}(ptr %stream{rest}) {{",
        *_whole_grid(name, parameters, types, grid, constants),
        "}",
        *(f"define void @{action}_{name}() {{\n  ret void\n}}" for action in ("load", "unload")),
    ]
    return "\n".join(lines) + "\n"


def describe(about: Mapping[str, Any]) -> str:
    """The text of a description: JSON without surrogates, which is a Python expression, too."""
    return json.dumps(about, ensure_ascii=False)


def _described(about: Mapping[str, Any]) -> str:
    type, text = c_string(describe(about))
    return f"@{ABOUT} = constant {type} {text}, align 1"


def _declared(scratch: int) -> list[str]:
    if not scratch:
        return []
    return ["declare ptr @aligned_alloc(i64, i64)", "declare void @free(ptr)"]


def _programs(
    name: str, kernel: str, parameters: Sequence[tuple[str, str]], types: Sequence[str],
    scratch: int,
) -> list[str]:  # fmt: skip
    size = -(-max(scratch, 1) // 64) * 64
    lines = [
        f"  %args = alloca [{max(len(types), 1)} x i64], align 8",
        f"  %fault = alloca [{FAULT.size} x i8], align 8",
        f"  %context = alloca [{CONTEXT.size} x i8], align 8",
        f"  store [{FAULT.size} x i8] zeroinitializer, ptr %fault, align 8",
        f"  store [{CONTEXT.size} x i8] zeroinitializer, ptr %context, align 8",
    ]
    for i, ((_, held), type) in enumerate(zip(parameters, types, strict=True)):
        value = f"%a{i}"
        if held in ("i1", "u1"):  # in C any number but 0 is true
            value = f"%truth{i}"
            lines += [f"  %some{i} = icmp ne i8 %a{i}, 0", f"  {value} = zext i1 %some{i} to i8"]
        lines += [
            f"  %slot{i} = getelementptr i64, ptr %args, i64 {i}",
            f"  store {type} {value}, ptr %slot{i}, align 8",
        ]
    memory = "null"
    if scratch:
        memory = "%scratch"
        lines += [
            f"  %scratch = call ptr @aligned_alloc(i64 64, i64 {size})",
            "  %none = icmp eq ptr %scratch, null",
            "  br i1 %none, label %no_memory, label %run",
            "no_memory:",
            "  ret i32 1",
            "run:",
        ]
    fields = (("nx", "%gx"), ("ny", "%gy"), ("nz", "%gz"), ("scratch", memory), ("fault", "%fault"))
    for field, value in fields:
        place = CONTEXT.fields[field]
        lines += [
            f"  %{field}.at = getelementptr i8, ptr %context, i64 {place.offset}",
            f"  store {place.type} {value}, ptr %{field}.at, align 4",
        ]
    raised = FAULT.fields["raised"].offset
    return [
        *lines,
        f"  call void @{kernel}(ptr %args, ptr %context, i64 %begin, i64 %end)",
        *(["  call void @free(ptr %scratch)"] if scratch else []),
        f"  %raised.at = getelementptr i8, ptr %fault, i64 {raised}",
        "  %raised = load i32, ptr %raised.at, align 4",
        "  %failed = icmp ne i32 %raised, 0",
        "  br i1 %failed, label %failure, label %fine",
        "fine:",
        "  ret i32 0",
        "failure:",
        *_copied("%fault", f"@{name}_failed", "keep", f"@{name}_lock"),
        "  ret i32 2",
    ]


_KEPT = ("pid_x", "pid_y", "pid_z", "message")
"""Fields of the fault of a failed assertion that its caller may ask for."""


def _copied(source: str, to: str, label: str, lock: str) -> list[str]:
    """Copy these fields of a fault to another one, while no other thread does."""
    lines = [
        f"  br label %{label}",
        f"{label}:",
        f"  %{label}.pair = cmpxchg ptr {lock}, i32 0, i32 1 acquire monotonic",
        f"  %{label}.mine = extractvalue {{i32, i1}} %{label}.pair, 1",
        f"  br i1 %{label}.mine, label %{label}.copy, label %{label}",
        f"{label}.copy:",
    ]
    for field in _KEPT:
        place = FAULT.fields[field]
        align = 8 if place.type == "ptr" else 4
        lines += [
            f"  %{label}.{field}.from = getelementptr i8, ptr {source}, i64 {place.offset}",
            f"  %{label}.{field}.to = getelementptr i8, ptr {to}, i64 {place.offset}",
            f"  %{label}.{field} = load {place.type}, ptr %{label}.{field}.from, align {align}",
            f"  store {place.type} %{label}.{field}, ptr %{label}.{field}.to, align {align}",
        ]
    return [*lines, f"  store atomic i32 0, ptr {lock} release, align 4"]


def _failure(name: str) -> list[str]:
    """The function that tells of the assertion that failed last."""
    lines = [
        f"@{name}_failed = internal global [{FAULT.size} x i8] zeroinitializer, align 8",
        f"@{name}_lock = internal global i32 0, align 4",
        f"define ptr @{name}_failure(ptr %program) {{",
        f"  %seen = alloca [{FAULT.size} x i8], align 8",
        *_copied(f"@{name}_failed", "%seen", "look", f"@{name}_lock"),
    ]
    for axis, field in enumerate(_KEPT[:3]):
        lines += [
            f"  %{field} = load i32, ptr %look.{field}.to, align 4",
            f"  %{field}.given = getelementptr i32, ptr %program, i64 {axis}",
            f"  store i32 %{field}, ptr %{field}.given, align 4",
        ]
    return [*lines, "  ret ptr %look.message", "}"]


def _whole_grid(
    name: str, parameters: Sequence[tuple[str, str]], types: Sequence[str], grid: Sequence[str],
    constants: Mapping[str, Any],
) -> list[str]:  # fmt: skip
    lines: list[str] = []
    known = {n: str(int(v)) for n, v in constants.items() if isinstance(v, int)}
    for i, ((argument, type), held) in enumerate(zip(parameters, types, strict=True)):
        if held[0] == "i":
            known[argument] = f"%n{i}"
            extend = "bitcast" if held == "i64" else "zext" if type[0] == "u" else "sext"
            lines.append(f"  %n{i} = {extend} {held} %a{i} to i64")
    sizes = [_Sum(text, known, lines, axis).value() for axis, text in zip("xyz", grid, strict=True)]
    for axis, size in zip("xyz", sizes, strict=True):
        lines += [
            f"  %some.{axis} = icmp sgt i64 {size}, 0",
            f"  %g{axis}.wide = select i1 %some.{axis}, i64 {size}, i64 0",
            f"  %g{axis} = trunc i64 %g{axis}.wide to i32",
        ]
    arguments = "".join(f", {type} %a{i}" for i, type in enumerate(types))
    return [
        *lines,
        "  %plane = mul i64 %gx.wide, %gy.wide",
        "  %total = mul i64 %plane, %gz.wide",
        f"  %status = call i32 @{name}_programs(i32 %gx, i32 %gy, i32 %gz, i64 0, "
        f"i64 %total{arguments})",
        "  ret i32 %status",
    ]


_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "sdiv", "%": "srem"}


class _Sum:
    """Writes what computes one size of a grid, as an i64."""

    def __init__(self, text: str, known: Mapping[str, str], lines: list[str], axis: str):
        self.text, self.known, self.lines, self.axis = text, known, lines, axis
        self.count = 0

    def value(self) -> str:
        """The size. Raises `ValueError` for a text that is none."""
        return self._of(parsed(self.text, self.known))

    def _of(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self.known[node.id]
        if isinstance(node, ast.UnaryOp):
            return self._emit("sub", "0", self._of(node.operand))
        if not isinstance(node, ast.BinOp):
            return ast.unparse(node)
        operation = _OPERATIONS[OPERATIONS[type(node.op)]]
        left, right = self._of(node.left), self._of(node.right)
        if operation not in ("sdiv", "srem") or not right.startswith("%"):
            return self._emit(operation, left, right)
        # A quotient or remainder by 0 is 0.
        zero = self._emit("icmp eq", right, "0")
        divisor = self._emit(f"select i1 {zero},", "1", f"i64 {right}")
        return self._emit(f"select i1 {zero},", "0",
                          f"i64 {self._emit(operation, left, divisor)}")  # fmt: skip

    def _emit(self, operation: str, left: str, right: str) -> str:
        self.count += 1
        name = f"%{self.axis}.{self.count}"
        self.lines.append(f"  {name} = {operation} i64 {left}, {right}")
        return name
