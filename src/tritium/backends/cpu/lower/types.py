"""LLVM types of ttir types: as values in registers and as elements in memory."""

from __future__ import annotations

from functools import lru_cache

from tritium.ir import types as ir
from tritium.lowering.types import number_type, stored_type


@lru_cache(maxsize=512)
def value_type(type: ir.Type) -> str:
    """The LLVM type of one element in a register."""
    element = ir.element_type(type)
    known = "ptr" if isinstance(element, ir.PointerType) else number_type(element)
    if known is None:
        raise NotImplementedError(f"the CPU backend has no values of type {type}")
    return known


@lru_cache(maxsize=512)
def memory_type(type: ir.Type) -> str:
    """The LLVM type of one element in memory."""
    return stored_type(value_type(type))
