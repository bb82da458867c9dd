"""LLVM types of ttgir types: as values in registers and as elements in memory."""

from __future__ import annotations

from functools import lru_cache

from tritium.ir import types as ir

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"

_VALUES: dict[ir.Type, str] = {
    ir.f16: "half", ir.bf16: "bfloat", ir.f32: "float", ir.f64: "double",
    ir.f8e5m2: "i8", ir.f8e4m3fn: "i8", ir.f8e4m3fnuz: "i8", ir.f8e5m2fnuz: "i8",
}  # fmt: skip


@lru_cache(maxsize=512)
def value_type(type: ir.Type) -> str:
    """The LLVM type of one element in a register; fp8 is carried as its bits."""
    element = ir.element_type(type)
    if isinstance(element, ir.TensorDescType):
        return "ptr"  # to its tensor map
    if isinstance(element, ir.PointerType):
        return GLOBAL if element.address_space.data == 1 else "ptr"
    if isinstance(element, ir.IntegerType):
        return f"i{element.width.data}"
    known = _VALUES.get(element)
    if known is None:
        raise NotImplementedError(f"the NVIDIA backend has no values of type {type}")
    return known


@lru_cache(maxsize=512)
def memory_type(type: ir.Type) -> str:
    """The LLVM type of one element in memory: a byte for i1."""
    held = value_type(type)
    return "i8" if held == "i1" else held


@lru_cache(maxsize=512)
def memory_bytes(type: ir.Type) -> int:
    """Bytes of one element in memory."""
    return max(1, ir.bit_width(type) // 8)
