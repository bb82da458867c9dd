"""Arithmetic and conversions in a given rounding direction.

LLVM's constrained intrinsics, between changes of the processor's rounding mode, in functions of
their own marked `strictfp`: nothing else may move there. Each change costs some ten nanoseconds, so
the functions take whole tiles' chunks of lanes.
"""

from __future__ import annotations

from tritium.codegen.llvm.vmath import corrected
from tritium.codegen.llvm.vmath.lanes import Lanes
from tritium.codegen.llvm.writer import Function, const, mangle, vector

# What LLVM calls each direction, and the number that llvm.set.rounding has for it.
DIRECTIONS = {"rz": ("towardzero", 0), "ru": ("upward", 2), "rd": ("downward", 3)}
_NEAREST = 1
_PLAIN = {"fadd", "fsub", "fmul", "fdiv"}


def compute(operation: str, direction: str, *args: Lanes, result: str = "") -> Lanes:
    """`operation` (fadd, fsub, fmul, fdiv, sqrt, fma, fptrunc, sitofp, uitofp) of lanes, rounded
    in `direction` (rn, rz, ru, rd), with the lane type `result` (that of the arguments)."""
    base = result or args[0].base
    if direction == "rn":
        if operation in _PLAIN:
            return args[0].make(args[0].function.op(operation, args[0].value, args[1].value))
        if result:
            return args[0].cast(operation, base)
        return args[0].intrinsic(operation, *args[1:])
    first, type = args[0], vector(base, args[0].count)
    if (operation, first.base) in first.function.module.nearest_only:
        return corrected.compute(compute, operation, direction, *args, result=result)
    name = f"tritium.{operation}.{direction}.{mangle(type)}" + (
        f".{mangle(first.value.type)}" if result else ""
    )
    if not any(known.name == name for known in first.function.module.functions):
        _define(first, name, operation, direction, type, [a.value.type for a in args], bool(result))
    operands = ", ".join(str(a.value) for a in args)
    return first.make(first.function.emit(type, f"call fastcc {type} @{name}({operands})"))


def _define(
    like: Lanes,
    name: str,
    operation: str,
    direction: str,
    type: str,
    types: list[str],
    converts: bool,
) -> None:
    module = like.function.module
    f = Function(
        module, name, [(t, f"x{i}", "") for i, t in enumerate(types)], type,
        linkage="internal fastcc", attributes="nounwind noinline strictfp",
    )  # fmt: skip
    mode, number = DIRECTIONS[direction]
    suffix = f"{mangle(type)}.{mangle(types[0])}" if converts else mangle(type)
    intrinsic = f"llvm.experimental.constrained.{operation}.{suffix}"
    module.declare(intrinsic, type, [*types, "metadata", "metadata"])
    module.declare("llvm.set.rounding", "void", ["i32"])
    f.line(f"call void @llvm.set.rounding({const('i32', number)}) strictfp")
    operands = ", ".join(map(str, f.arguments))
    value = f.emit(
        type,
        f'call {type} @{intrinsic}({operands}, metadata !"round.{mode}", '
        'metadata !"fpexcept.ignore") strictfp',
    )
    f.line(f"call void @llvm.set.rounding({const('i32', _NEAREST)}) strictfp")
    f.ret(value)
