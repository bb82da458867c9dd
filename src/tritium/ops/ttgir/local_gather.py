"""Accesses to shared memory at positions along an axis that a tile of indices gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import enum_attr, i32_attr, operand, optional
from tritium.ops.memory import Context, EvaluationError
from tritium.ops.ttgir.model import AsyncState, Buffer, state_of
from tritium.ops.ttgir.types import check_memory, leaves_block
from tritium.ops.ttir.atomic import AtomicKind, combine


class IndexedAccess(Op):
    """Base: the element at position I of the tile of indices is at I in memory, with `indices[I]`
    in the place of the coordinate `axis`."""

    placed_by = "indices"
    reads_operand_types = True
    indices: Any
    axis = i32_attr()

    @classmethod
    def check(
        cls, memory: ir.Type, indices: ir.Type, axis: int, *others: ir.Type | None, **known: bool
    ) -> ir.Type:
        """The type of the tile of elements. Raises `OpError` for operands that do not fit."""
        type = check_memory(cls.name, memory, **known)
        shape, where = type.get_shape(), ir.shape_of(indices)
        problem = None
        if not ir.is_integer(indices):
            problem = "integers are required"
        elif len(shape) != len(where):
            problem = f"the ranks are {len(where)} and {len(shape)}; they must be the same"
        elif not 0 <= axis < len(shape):
            problem = f"the axis is {axis}; 0 to {len(shape) - 1} is allowed"
        elif any(w > s for i, (s, w) in enumerate(zip(shape, where, strict=True)) if i != axis):
            problem = f"only along axis {axis} may there be more indices than elements"
        elif any(o is not None and ir.shape_of(o) != where for o in others):
            problem = f"with {describe(*others)}; the shapes must be the same"
        if problem is not None:
            raise OpError(f"{cls.name}: indices {describe(indices)} into {type}; {problem}")
        return ir.with_element(indices, type.element_type)

    def places(self, data: np.ndarray, indices: Any) -> tuple[np.ndarray, ...]:
        """The coordinates in memory. Raises `EvaluationError` for those outside of it."""
        where, size = np.asarray(indices).astype(np.int64), data.shape[self.axis]
        if where.min() < 0 or where.max() >= size:
            raise EvaluationError(
                f"{self.name}: index {where.min() if where.min() < 0 else where.max()} of {size} "
                "elements of shared memory"
            )
        coordinates: list[Any] = [*np.indices(where.shape)]
        coordinates[self.axis] = where
        return tuple(coordinates)


class LocalGatherOp(IndexedAccess):
    """The elements of shared memory at the indices."""

    name = "ttg.local_gather"
    effects = (reads(SHARED, "src"),)
    syntax = "$src ~ '[' $indices ']' attrs : type(src), type(indices) -> type(result)"
    src = operand()
    indices = operand()

    @classmethod
    def infer(cls, src: ir.Type, indices: ir.Type, *, axis: int) -> ir.Type:
        return cls.check(src, indices, axis)

    @property
    def reaches_blocks(self) -> bool:
        return leaves_block(self.indices.type, self.src.type, writes=False, axis=self.axis)

    def evaluate(self, context: Context, src: Buffer, indices: Any) -> Any:
        state = state_of(context)
        data = state.check_read(src, route=_route(self, state))
        return data[self.places(data, indices)]


def _route(op: Op, state: AsyncState) -> list[tuple[int, int]] | None:
    """Pairs of blocks: one that accesses the memory of the other. Which do depends on the indices;
    any may."""
    blocks = range(state.blocks)
    reaches = state.blocks > 1 and op.reaches_blocks
    return [(source, target) for source in blocks for target in blocks] if reaches else None


class IndexedWrite(IndexedAccess):
    """Base of those that change memory."""

    dst: Any

    @property
    def reaches_blocks(self) -> bool:
        return leaves_block(self.indices.type, self.dst.type, writes=True, axis=self.axis)

    @property
    def stores_to_blocks(self) -> bool:
        return self.reaches_blocks

    def begin(self, context: Context, dst: Buffer) -> np.ndarray:
        """The array to write to."""
        state = state_of(context)
        return state.check_write(dst, by_threads=True, route=_route(self, state))


class LocalScatterOp(IndexedWrite):
    """Write elements to shared memory at the indices; where one is given twice, one of them."""

    name = "ttg.local_scatter"
    effects = (writes(SHARED, "dst"),)
    syntax = "$dst ~ '[' $indices ']', $values attrs : type(dst), type(indices), type(values)"
    dst = operand()
    indices = operand()
    values = operand()

    @classmethod
    def infer(cls, dst: ir.Type, indices: ir.Type, values: ir.Type, *, axis: int) -> None:
        if cls.check(dst, indices, axis, values, mutable=True) != values:
            raise OpError(f"{cls.name}: values {describe(values)} into {describe(dst)}")

    def evaluate(self, context: Context, dst: Buffer, indices: Any, values: Any) -> None:
        data = self.begin(context, dst)
        data[self.places(data, indices)] = values
        dst.write(data)


class LocalAtomicScatterRMWOp(IndexedWrite):
    """Combine shared memory at the indices with values where the mask is true, each element
    atomically; what memory held before (zero where the mask is false)."""

    name = "ttg.local_atomic_scatter_rmw"
    effects = (reads(SHARED, "dst"), writes(SHARED, "dst"))
    syntax = (
        "$atomic_rmw_op, $dst ~ '[' $indices ']', $values [, $mask] attrs : functional"
    )
    dst = operand()
    indices = operand()
    values = operand()
    mask = optional()
    atomic_rmw_op = enum_attr(AtomicKind, words={"exch": AtomicKind.XCHG})

    @property
    def exact(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "none" if self.atomic_rmw_op is AtomicKind.FADD else ""

    @classmethod
    def infer(
        cls, dst: ir.Type, indices: ir.Type, values: ir.Type, mask: ir.Type | None, *, axis: int,
        atomic_rmw_op: AtomicKind,
    ) -> ir.Type:  # fmt: skip
        found = cls.check(dst, indices, axis, values, mask, mutable=True)
        kind = atomic_rmw_op
        fits = kind is AtomicKind.XCHG or ir.is_float(values) == (kind is AtomicKind.FADD)
        if found != values or not fits:
            raise OpError(
                f"{cls.name}: {kind.name.lower()} of {describe(values)} in {describe(dst)}"
            )
        return found

    def evaluate(self, context: Context, dst: Buffer, indices: Any, values: Any, mask: Any) -> Any:
        data = self.begin(context, dst)
        places, old = self.places(data, indices), np.zeros(np.shape(values), data.dtype)
        chosen = np.ones(old.shape, bool) if mask is None else np.asarray(mask)
        for at in zip(*np.nonzero(chosen), strict=True):
            place = tuple(axis[at] for axis in places)
            old[at] = data[place]
            data[place] = combine(self.atomic_rmw_op.name, data[place], values[at])
        dst.write(data)
        return old
