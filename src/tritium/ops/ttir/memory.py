"""Loads and stores through pointers."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.integer import signed
from tritium.ops.base import Effects, Op
from tritium.ops.elementwise import check_same_shape, describe
from tritium.ops.evaluation import Context
from tritium.ops.fields import bool_attr, enum_attr, i32_array_attr, operand, optional


class CacheModifier(IntEnum):
    """Where a memory access may be cached (PTX cache operators)."""

    NONE = 1
    CA = 2
    CG = 3
    WB = 4
    CS = 5
    WT = 6
    CV = 7


class EvictionPolicy(IntEnum):
    """Which lines a cache should give up first."""

    EVICT_NORMAL = 1
    EVICT_FIRST = 2
    EVICT_LAST = 3


def check_access(name: str, ptr: ir.Type, mask: ir.Type | None, value: ir.Type | None) -> ir.Type:
    """The type of the elements accessed through `ptr`; mask and value must fit it."""
    element = ir.element_type(ptr)
    if not isinstance(element, ir.PointerType):
        raise OpError(f"{name}: address has type {describe(ptr)}; a pointer is required")
    accessed = ir.with_element(ptr, element.pointee)
    if value is not None and value != accessed:
        raise OpError(f"{name}: value has type {describe(value)}; {describe(accessed)} is required")
    if mask is not None and mask != ir.with_element(ptr, ir.i1):
        wanted = ir.with_element(ptr, ir.i1)
        raise OpError(f"{name}: mask has type {describe(mask)}; {describe(wanted)} is required")
    return accessed


class AddPtrOp(Op):
    """The address of the element `offset` elements after `ptr`. Block pointers do not add."""

    name = "tt.addptr"
    syntax = "$ptr, $offset attrs : type(ptr), type(offset)"
    ptr = operand()
    offset = operand()

    @classmethod
    def infer(cls, ptr: ir.Type, offset: ir.Type) -> ir.Type:
        check_same_shape(cls.name, ptr, offset)
        element = ir.element_type(ptr)
        if not isinstance(element, ir.PointerType) or not ir.is_integer(offset):
            raise OpError(
                f"{cls.name}: operands have types {describe(ptr, offset)}; "
                "a pointer and an integer are required"
            )
        return ptr

    def evaluate(self, context: Context, ptr: Any, offset: Any) -> Any:
        pointer = ir.element_type(self.result_types[0])
        assert isinstance(pointer, ir.PointerType)
        size = max(ir.bit_width(pointer.pointee) // 8, 1)
        step = signed(offset).astype(np.int64) * np.int64(size)
        return np.asarray(ptr) + step.view(np.uint64)


class LoadOp(Op):
    """The elements at the addresses; where the mask is false, `other` (or an undefined value)
    without touching memory."""

    name = "tt.load"
    effects = frozenset({Effects.READ})
    syntax = (
        "$ptr [, $mask] [, $other] [cacheModifier = $cache] [evictionPolicy = $evict] attrs "
        ": type(ptr)"
    )
    ptr = operand()
    mask = optional()
    other = optional()
    boundaryCheck = i32_array_attr(())
    cache = enum_attr(CacheModifier, CacheModifier.NONE)
    evict = enum_attr(EvictionPolicy, EvictionPolicy.EVICT_NORMAL)
    isVolatile = bool_attr(False)

    @classmethod
    def infer(
        cls, ptr: ir.Type, mask: ir.Type | None, other: ir.Type | None, **attrs: Any
    ) -> ir.Type:
        if other is not None and mask is None:
            raise OpError("tt.load: `other` cannot be provided without `mask`")
        return check_access(cls.name, ptr, mask, other)

    def evaluate(self, context: Context, ptr: Any, mask: Any, other: Any) -> Any:
        loaded = context.memory.load(ptr, ir.numpy_dtype(self.result_types[0]), mask)
        return loaded if other is None else np.where(mask, loaded, other)


class StoreOp(Op):
    """Write the elements for which the mask is true (or absent)."""

    name = "tt.store"
    effects = frozenset({Effects.WRITE})
    syntax = (
        "$ptr, $value [, $mask] [cacheModifier = $cache] [evictionPolicy = $evict] attrs "
        ": type(ptr)"
    )
    ptr = operand()
    value = operand()
    mask = optional()
    boundaryCheck = i32_array_attr(())
    cache = enum_attr(CacheModifier, CacheModifier.NONE)
    evict = enum_attr(EvictionPolicy, EvictionPolicy.EVICT_NORMAL)

    @classmethod
    def infer(
        cls, ptr: ir.Type, value: ir.Type, mask: ir.Type | None, **attrs: Any
    ) -> tuple[ir.Type, ...]:
        check_access(cls.name, ptr, mask, value)
        return ()

    def evaluate(self, context: Context, ptr: Any, value: Any, mask: Any) -> None:
        context.memory.store(ptr, value, mask)


OPS: tuple[type[Op], ...] = (AddPtrOp, LoadOp, StoreOp)
