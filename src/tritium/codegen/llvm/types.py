"""LLVM types of numbers, in registers and in memory, which are the same on every target."""

from __future__ import annotations

from tritium.ir import types as ir
from tritium.ir.types import memory_bytes as memory_bytes
from tritium.ops.ttir.atomic import MemSemantic

_FLOATS: dict[ir.Type, str] = {
    ir.f16: "half", ir.bf16: "bfloat", ir.f32: "float", ir.f64: "double",
    ir.f8e5m2: "i8", ir.f8e4m3fn: "i8", ir.f8e4m3fnuz: "i8", ir.f8e5m2fnuz: "i8",
}  # fmt: skip


FORMATS: dict[ir.Type, str] = {
    ir.f64: "fp64", ir.f32: "fp32", ir.f16: "fp16", ir.bf16: "bf16", ir.f8e5m2: "fp8e5",
    ir.f8e4m3fn: "fp8e4nv", ir.f8e4m3fnuz: "fp8e4b8", ir.f8e5m2fnuz: "fp8e5b16",
}  # fmt: skip
"""Names of the float types in `vmath.convert`."""

ORDERS = {
    MemSemantic.RELAXED: "monotonic", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "release", MemSemantic.ACQUIRE_RELEASE: "acq_rel",
}  # fmt: skip
"""Names of memory orders."""


def number_type(element: ir.Type) -> str | None:
    """The LLVM type of a number in a register; fp8 is carried as its bits. None for others."""
    if isinstance(element, ir.IntegerType):
        return f"i{element.width.data}"
    return _FLOATS.get(element)


def stored_type(held: str) -> str:
    """The LLVM type in memory of what is `held` in a register: a byte for i1."""
    return "i8" if held == "i1" else held
