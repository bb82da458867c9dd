"""`amdg`: accesses to global memory through a pointer that all threads share and 32-bit offsets
(AMD's buffer instructions). `stride`, of a tile's rows, is a hint for caches that is kept and not
used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.effects import GLOBAL, SHARED, Queue, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import operand, optional
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.types import TOKEN, check_memory, check_own_block, check_same_tile
from tritium.ops.ttir.atomic import AtomicCombination, AtomicOp, combine, swapped
from tritium.ops.ttir.memory import AddPtrOp, CachedOp
from tritium.ops.ttir.shape import SplatOp


def _check(
    name: str, ptr: ir.Type, offsets: ir.Type, stride: ir.Type | None, *others: ir.Type | None
) -> ir.Type:
    """The type of the tile that is accessed. Raises `OpError` for operands that do not fit."""
    if not isinstance(ptr, ir.PointerType) or ir.element_type(offsets) != ir.i32:
        raise OpError(
            f"{name}: {describe(ptr)}, offsets {describe(offsets)}; a pointer and a tile of i32 "
            "are required"
        )
    if any(o is not None and ir.shape_of(o) != ir.shape_of(offsets) for o in others):
        raise OpError(f"{name}: offsets {describe(offsets)} with {describe(*others)}")
    if stride not in (None, ir.i32):
        raise OpError(f"{name}: stride is {describe(stride)}; i32 is required")
    return ir.with_element(offsets, ptr.pointee)  # pyright: ignore[reportArgumentType]


def _check_other(
    name: str, other: ir.Type | None, mask: ir.Type | None, found: ir.Type
) -> None:
    if other is not None and (mask is None or other != found):
        raise OpError(f"{name}: other {describe(other)} needs a mask and {describe(found)}")


def _addresses(ptr: Any, offsets: Any, size: int) -> np.ndarray:
    steps = np.asarray(offsets).astype(np.int64) * size
    return (np.asarray(ptr).astype(np.int64) + steps).astype(np.uint64)


def pointers_of(at: Any, ptr: Any, offsets: Any) -> Any:
    """The tile of pointers to what is accessed. `at`: makes the ops that compute it."""
    tile = ir.with_element(offsets.type, ptr.type)
    return at.value(AddPtrOp, at.value(SplatOp, ptr, result=tile), offsets)


class BufferLoadOp(CachedOp):
    """The elements at `ptr + offsets` where the mask is true, `other` (or zero) elsewhere."""

    name = "amdg.buffer_load"
    placed_by = "offsets"
    effects = (reads(GLOBAL, "ptr"),)
    syntax = (
        "$ptr ~ '[' $offsets ']' [, $mask] [, $other] [cacheModifier = $cache] "
        "[evictionPolicy = $evict] [stride = $stride] attrs : [type(ptr) -> ] type(results)"
    )
    ptr = operand()
    offsets = operand()
    mask = optional()
    other = optional()
    stride = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, offsets: ir.Type, mask: ir.Type | None, other: ir.Type | None,
        stride: ir.Type | None, **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        found = _check(cls.name, ptr, offsets, stride, mask, other)
        _check_other(cls.name, other, mask, found)
        return found

    def evaluate(
        self, context: Context, ptr: Any, offsets: Any, mask: Any, other: Any, stride: Any
    ) -> Any:
        dtype = ir.numpy_dtype(self.result_types[0])
        loaded = context.memory.load(_addresses(ptr, offsets, dtype.itemsize), dtype, mask)
        return loaded if other is None else np.where(mask, loaded, other)


class BufferStoreOp(CachedOp):
    """Write a tile to `ptr + offsets` where the mask is true."""

    name = "amdg.buffer_store"
    effects = (writes(GLOBAL, "ptr"),)
    syntax = (
        "$value, $ptr ~ '[' $offsets ']' [, $mask] [cacheModifier = $cache] "
        "[evictionPolicy = $evict] [stride = $stride] attrs : [type(ptr) -> ] type(value)"
    )
    value = operand()
    ptr = operand()
    offsets = operand()
    mask = optional()
    stride = optional()

    @classmethod
    def infer(
        cls, value: ir.Type, ptr: ir.Type, offsets: ir.Type, mask: ir.Type | None,
        stride: ir.Type | None, **attrs: Any,
    ) -> None:  # fmt: skip
        if _check(cls.name, ptr, offsets, stride, mask, value) != value:
            raise OpError(f"{cls.name}: {describe(value)} through {describe(ptr)}")

    def evaluate(
        self, context: Context, value: Any, ptr: Any, offsets: Any, mask: Any, stride: Any
    ) -> None:
        value = np.asarray(value)
        context.memory.store(_addresses(ptr, offsets, value.dtype.itemsize), value, mask)


class BufferLoadToLocalOp(CachedOp):
    """Start copying the elements at `ptr + offsets` into the memory `dest`, `other` (or zeros)
    where the mask is false. The copy is part of the next `async_commit_group`, and done after a
    wait for that."""

    name = "amdg.buffer_load_to_local"
    effects = (reads(GLOBAL, "ptr"), writes(SHARED, "dest", Queue.COPY_GROUP))
    syntax = (
        "$ptr ~ '[' $offsets ']' [mask = $mask] [other = $other] [stride = $stride] "
        "[cacheModifier = $cache] [evictionPolicy = $evict] 'into' $dest attrs "
        ": pointee(ptr) ~ '[' type(offsets) ']' [type(other)] -> pointee(dest)"
    )
    dest = operand()
    ptr = operand()
    offsets = operand()
    mask = optional()
    other = optional()
    stride = optional()

    @classmethod
    def infer(
        cls, dest: ir.Type, ptr: ir.Type, offsets: ir.Type, mask: ir.Type | None,
        other: ir.Type | None, stride: ir.Type | None, **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        found = _check(cls.name, ptr, offsets, stride, mask, other)
        _check_other(cls.name, other, mask, found)
        memory = check_memory(cls.name, dest, mutable=True)
        check_same_tile(cls.name, found, memory)
        check_own_block(cls.name, found, memory, writes=True)
        return TOKEN

    def evaluate(
        self, context: Context, dest: Buffer, ptr: Any, offsets: Any, mask: Any, other: Any,
        stride: Any,
    ) -> None:  # fmt: skip
        state, dtype = state_of(context), dest.type
        loaded = context.memory.load(_addresses(ptr, offsets, dtype.itemsize), dtype, mask)
        values = loaded if other is None else np.where(mask, loaded, other)
        state.check_write(dest)
        state.own.issued.append(dest.copy(values))


class BufferAtomicRMWOp(AtomicCombination):
    """Combine memory at `ptr + offsets` with `value` where the mask is true; the result is what
    memory held before (zero where the mask is false)."""

    name = "amdg.buffer_atomic_rmw"
    placed_by = "offsets"
    syntax = (
        "$atomic_rmw_op, $sem, $scope, $value, $ptr ~ '[' $offsets ']' [, $mask] "
        "[stride = $stride] attrs : [type(ptr) -> ] type(results)"
    )
    value = operand()
    offsets = operand()
    mask = optional()
    stride = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, value: ir.Type, offsets: ir.Type, mask: ir.Type | None,
        stride: ir.Type | None, **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        if _check(cls.name, ptr, offsets, stride, mask, value) != value:
            raise OpError(f"{cls.name}: {describe(value)} through {describe(ptr)}")
        return value

    def by_pointers(self, at: Any, operands: Sequence[Any]) -> list[Any]:
        ptr, value, offsets, *rest = operands
        mask = [v for v in rest if ir.element_type(v.type) == ir.i1]
        return [pointers_of(at, ptr, offsets), value, *mask]

    def evaluate(
        self, context: Context, ptr: Any, value: Any, offsets: Any, mask: Any, stride: Any
    ) -> Any:
        kind, value = self.atomic_rmw_op.name, np.asarray(value)
        return context.memory.update(
            _addresses(ptr, offsets, value.dtype.itemsize), value.dtype, mask,
            lambda old, at: combine(kind, old, value.reshape(-1)[at]),
        )  # fmt: skip


class BufferAtomicCASOp(AtomicOp):
    """Replace memory at `ptr + offsets` by `val` where it holds `cmp`, bit for bit; the result is
    what it held."""

    name = "amdg.buffer_atomic_cas"
    updates = changes_memory = True
    placed_by = "offsets"
    syntax = (
        "$sem, $scope, $cmp, $val, $ptr ~ '[' $offsets ']' [stride = $stride] attrs "
        ": [type(ptr) -> ] type(results)"
    )
    cmp = operand()
    val = operand()
    offsets = operand()
    stride = optional()

    @classmethod
    def infer(
        cls, ptr: ir.Type, cmp: ir.Type, val: ir.Type, offsets: ir.Type, stride: ir.Type | None,
        **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        if _check(cls.name, ptr, offsets, stride, cmp, val) != val or cmp != val:
            raise OpError(f"{cls.name}: {describe(cmp, val)} through {describe(ptr)}")
        return val

    def evaluate(
        self, context: Context, ptr: Any, cmp: Any, val: Any, offsets: Any, stride: Any
    ) -> Any:
        places = _addresses(ptr, offsets, np.asarray(val).dtype.itemsize)
        return context.memory.update(places, np.asarray(val).dtype, None, swapped(cmp, val))
