"""LLVM types of ttgir types: as values in registers and as elements in memory."""

from __future__ import annotations

from functools import lru_cache

from tritium.codegen.llvm.types import number_type, stored_type
from tritium.ir import types as ir

GPU = "gpu"
"""The table of the lowering rules that all GPUs share."""
ELEMENTWISE = "gpu.elementwise"
"""The table of the shared rules that lower one element."""

GLOBAL = "ptr addrspace(1)"
SHARED = "ptr addrspace(3)"


@lru_cache(maxsize=512)
def value_type(type: ir.Type) -> str:
    """The LLVM type of one element in a register."""
    element = ir.element_type(type)
    if isinstance(element, ir.DESCRIPTORS):
        return "ptr"  # to its tensor map
    if isinstance(element, ir.PointerType):
        return GLOBAL if element.address_space.data == 1 else "ptr"
    known = number_type(element)
    if known is None:
        raise NotImplementedError(f"GPUs have no values of type {type}")
    return known


@lru_cache(maxsize=512)
def memory_type(type: ir.Type) -> str:
    """The LLVM type of one element in memory."""
    return stored_type(value_type(type))
