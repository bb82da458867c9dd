"""LLVM types of ttir types: as values in registers and as elements in memory."""

from __future__ import annotations

from functools import lru_cache, partial

from tritium.codegen.llvm.types import number_type, stored_type
from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import BITS_OF
from tritium.ir import types as ir

fp = partial(convert.fp, bits=True)
"""Conversions between float formats (`vmath.convert`), 16-bit ones being held as their bits."""


@lru_cache(maxsize=512)
def value_type(type: ir.Type) -> str:
    """The LLVM type of one element in a register; 16-bit floats are held as their bits."""
    element = ir.element_type(type)
    known = "ptr" if isinstance(element, ir.PointerType) else number_type(element)
    if known is None:
        raise NotImplementedError(f"the CPU backend has no values of type {type}")
    return BITS_OF.get(known, known)


@lru_cache(maxsize=512)
def memory_type(type: ir.Type) -> str:
    """The LLVM type of one element in memory."""
    return stored_type(value_type(type))
