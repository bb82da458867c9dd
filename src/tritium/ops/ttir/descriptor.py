"""Tensor descriptors: strided tensors in memory that are accessed block by block.

Loads see zeros (or NaN) beyond the bounds; what is stored there is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Any, ClassVar

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import enum_attr, operand, variadic
from tritium.ops.memory import Context
from tritium.ops.ttir.atomic import MemSemantic, combine
from tritium.ops.ttir.memory import CachedOp, PaddingOption, Tile


def block_of(name: str, desc: ir.Type) -> ir.TensorType[Any]:
    """The type of a descriptor's block, its integers signless."""
    if not isinstance(desc, ir.TensorDescType) or not isinstance(desc.block, ir.TensorType):
        raise OpError(f"{name}: operand is {describe(desc)}; a tensor descriptor is required")
    return signless(desc.block)  # pyright: ignore[reportUnknownArgumentType]


def signless(block: ir.TensorType[Any]) -> ir.TensorType[Any]:
    """A block's type with integers that have no sign."""
    element = ir.element_type(block)
    if isinstance(element, ir.IntegerType):
        element = ir.IntegerType(element.width.data)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    make: Any = ir.TensorType
    return make(element, block.get_shape())


def check_indices(name: str, desc: ir.Type, indices: Sequence[ir.Type]) -> None:
    """Check that there is one i32 for each axis."""
    rank = len(block_of(name, desc).get_shape())
    if len(indices) != rank:
        raise OpError(f"{name}: expected {rank} offsets, but got {len(indices)}")
    if any(t != ir.i32 for t in indices):
        raise OpError(f"{name}: offsets ({describe(*indices)}); {rank} of i32 are required")


def check_value(name: str, desc: ir.Type, value: ir.Type) -> None:
    """The tile must have a block's elements; axes of size 1 may be missing."""
    block = block_of(name, desc)
    same = ir.element_type(value) == block.element_type
    if not same or prod(ir.shape_of(value)) != prod(block.get_shape()):
        raise OpError(f"{name}: tile is {describe(value)}; {describe(block)} is required")


def check_rows(name: str, desc: ir.Type, rows: ir.Type, column: ir.Type) -> ir.Type:
    """The type of several rows of a descriptor of blocks of one row."""
    block = block_of(name, desc)
    shape, where = block.get_shape(), ir.shape_of(rows)
    if len(shape) != 2 or shape[0] != 1:
        raise OpError(f"{name}: block is {describe(block)}; one row (1 x N) is required")
    if len(where) != 1 or not ir.is_integer(rows) or column != ir.i32:
        raise OpError(
            f"{name}: rows are {describe(rows)}, column is {describe(column)}; "
            "a tensor of integers and an i32 are required"
        )
    return ir.tensor_of((where[0], shape[1]), block.element_type)


class MakeTensorDescOp(Op):
    """Describe a strided tensor at `base`; `type(result)` has the shape of its blocks."""

    name = "tt.make_tensor_descriptor"
    memory_operands = ("base",)
    syntax = "$base, '[' $shape ']', '[' $strides ']' attrs : pointee(base), pointee(result)"
    short_result = ir.TensorDescType
    base = operand()
    shape = variadic()
    strides = variadic()
    padding = enum_attr(PaddingOption, PaddingOption.PAD_ZERO)

    @classmethod
    def infer(
        cls,
        base: ir.Type,
        shape: Sequence[ir.Type],
        strides: Sequence[ir.Type],
        *,
        result: ir.Type,
        **attrs: Any,
    ) -> ir.Type:
        block = block_of(cls.name, result)
        if not isinstance(base, ir.PointerType) or base.pointee != block.element_type:
            raise OpError(f"{cls.name}: {describe(base)} points to no {block.element_type}")
        rank = len(block.get_shape())
        if [*shape] != [ir.i32] * rank or [*strides] != [ir.i64] * rank:
            raise OpError(
                f"{cls.name}: shape ({describe(*shape)}), strides ({describe(*strides)}); "
                f"{rank} of i32 and of i64 are required"
            )
        return result

    def evaluate(
        self, context: Context, base: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]
    ) -> Tile:
        return Tile(
            int(base), tuple(map(int, shape)), tuple(map(int, strides)), padding=self.padding
        )


class DescriptorAccess(Op):
    """An access to memory through a tensor descriptor."""

    combines: ClassVar[bool] = False
    """True if a store combines what it writes with what memory holds."""
    desc: Any
    src: Any

    @property
    def is_load(self) -> bool:
        """True if it is a load."""
        return bool(self.results)

    @property
    def tile(self) -> ir.Type:
        """The type of what is loaded or stored."""
        return self.results[0].type if self.results else self.src.type


class BlockAccess(DescriptorAccess):
    """An access to the block at `indices`."""

    indices: Any
    kind: Any
    """The operation of an access that combines with memory; only such ops have one."""

    @property
    def missing_axes(self) -> int | None:
        """The number of leading axes of size 1 that the block has and the tile lacks; None if their
        shapes differ otherwise, or if the tile lacks one of the last two axes."""
        block, shape = self.desc.type.block.get_shape(), ir.shape_of(self.tile)
        missing = len(block) - len(shape)
        kept = len(shape) >= 2 or not missing
        same = tuple(block) == (1,) * missing + shape
        return missing if kept and same else None


class RowAccess(DescriptorAccess):
    """An access to rows `x_offsets` of a matrix, from column `y_offset` on."""

    x_offsets: Any
    y_offset: Any


def _load(context: Context, tile: Tile, block: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    addresses, inside = tile.addresses(block, dtype.itemsize, range(len(block)))
    loaded = context.memory.load(addresses, dtype, inside)
    if tile.padding is PaddingOption.PAD_NAN:
        loaded = np.where(inside, loaded, np.asarray(np.nan, dtype))
    return loaded


def _store(context: Context, tile: Tile, block: tuple[int, ...], value: Any) -> None:
    value = np.reshape(value, block)
    addresses, inside = tile.addresses(block, value.dtype.itemsize, range(len(block)))
    context.memory.store(addresses, value, inside)


class DescriptorLoadOp(CachedOp, BlockAccess):
    """The block at `indices`."""

    name = "tt.descriptor_load"
    effects = (reads(GLOBAL, "desc"),)
    syntax = (
        "$desc ~ '[' $indices ']' [cacheModifier = $cache] [evictionPolicy = $evict] attrs "
        ": type(desc) -> type(result)"
    )
    desc = operand()
    indices = variadic()

    @classmethod
    def infer(
        cls,
        desc: ir.Type,
        indices: Sequence[ir.Type],
        *,
        result: ir.Type | None = None,
        **attrs: Any,
    ) -> ir.Type:
        check_indices(cls.name, desc, indices)
        if result is None:
            return block_of(cls.name, desc)
        check_value(cls.name, desc, result)
        return result

    def evaluate(self, context: Context, desc: Tile, indices: tuple[Any, ...]) -> Any:
        type = self.result_types[0]
        shape = ir.shape_of(type)
        # Axes that the result leaves out have size 1 and come first.
        block = (1,) * (len(indices) - len(shape)) + shape
        return _load(context, desc.at(indices), block, ir.numpy_dtype(type)).reshape(shape)


class DescriptorStoreOp(BlockAccess):
    """Write a block at `indices`."""

    name = "tt.descriptor_store"
    effects = (writes(GLOBAL, "desc"),)
    syntax = "$desc ~ '[' $indices ']', $src attrs : type(desc), type(src)"
    takes_any_layout = True
    desc = operand()
    src = operand()
    indices = variadic()

    @classmethod
    def infer(cls, desc: ir.Type, src: ir.Type, indices: Sequence[ir.Type]) -> None:
        check_indices(cls.name, desc, indices)
        check_value(cls.name, desc, src)

    def evaluate(self, context: Context, desc: Tile, src: Any, indices: tuple[Any, ...]) -> None:
        shape = np.shape(src)
        _store(context, desc.at(indices), (1,) * (len(indices) - len(shape)) + shape, src)


class DescriptorGatherOp(RowAccess):
    """Rows `x_offsets` of a matrix, from column `y_offset` on."""

    name = "tt.descriptor_gather"
    effects = (reads(GLOBAL, "desc"),)
    syntax = "$desc ~ '[' $x_offsets, $y_offset ']' attrs : functional"
    desc = operand()
    x_offsets = operand()
    y_offset = operand()

    @classmethod
    def infer(
        cls, desc: ir.Type, x_offsets: ir.Type, y_offset: ir.Type, *, result: Any = None
    ) -> ir.Type:
        inferred = check_rows(cls.name, desc, x_offsets, y_offset)
        if result is not None and ir.shape_of(result) != ir.shape_of(inferred):
            raise OpError(f"{cls.name}: result is {describe(result)}; {describe(inferred)} needed")
        return inferred if result is None else result

    def evaluate(self, context: Context, desc: Tile, x_offsets: Any, y_offset: Any) -> Any:
        type = self.result_types[0]
        block, dtype = (1, ir.shape_of(type)[1]), ir.numpy_dtype(type)
        rows = [_load(context, desc.at((row, y_offset)), block, dtype) for row in x_offsets]
        return np.concatenate(rows)


class DescriptorScatterOp(RowAccess):
    """Write rows `x_offsets` of a matrix, from column `y_offset` on."""

    name = "tt.descriptor_scatter"
    effects = (writes(GLOBAL, "desc"),)
    syntax = (
        "$desc ~ '[' $x_offsets, $y_offset ']', $src attrs "
        ": type(desc), type(x_offsets), type(y_offset), type(src)"
    )
    desc = operand()
    x_offsets = operand()
    y_offset = operand()
    src = operand()

    @classmethod
    def infer(cls, desc: ir.Type, x_offsets: ir.Type, y_offset: ir.Type, src: ir.Type) -> None:
        rows = check_rows(cls.name, desc, x_offsets, y_offset)
        if ir.shape_of(src) != ir.shape_of(rows) or ir.element_type(src) != ir.element_type(rows):
            raise OpError(f"{cls.name}: tile is {describe(src)}; {describe(rows)} is required")

    def evaluate(
        self, context: Context, desc: Tile, x_offsets: Any, y_offset: Any, src: Any
    ) -> None:
        for row, values in zip(x_offsets, src, strict=True):
            _store(context, desc.at((row, y_offset)), (1, len(values)), values)


class DescriptorReduceKind(IntEnum):
    """The operations by which `tt.descriptor_reduce` combines."""

    ADD = 1
    MIN, MAX, INC, DEC, AND, OR, XOR = range(2, 9)


def is_unsigned(desc: Any) -> bool:
    """True if the elements of a type of descriptors are unsigned integers."""
    return "ui" in str(desc.block.element_type)


class DescriptorReduceOp(BlockAccess):
    """Atomically combine a block at `indices` with what memory holds. It orders nothing else."""

    name = "tt.descriptor_reduce"
    changes_memory = True
    sem = MemSemantic.RELAXED
    exact = "none"
    reads_operand_types = True
    combines = True
    effects = (reads(GLOBAL, "desc"), writes(GLOBAL, "desc"))
    syntax = "$kind, $desc ~ '[' $indices ']', $src attrs : type(desc), type(src)"
    takes_any_layout = True
    desc = operand()
    src = operand()
    indices = variadic()
    kind = enum_attr(DescriptorReduceKind)

    @classmethod
    def infer(
        cls, desc: ir.Type, src: ir.Type, indices: Sequence[ir.Type], *, kind: DescriptorReduceKind
    ) -> None:
        check_indices(cls.name, desc, indices)
        check_value(cls.name, desc, src)
        if kind in (DescriptorReduceKind.INC, DescriptorReduceKind.DEC):
            raise OpError(f"{cls.name}: kind {kind.name.lower()} is not supported")

    def evaluate(self, context: Context, desc: Tile, src: Any, indices: tuple[Any, ...]) -> None:
        block = (1,) * (len(indices) - np.ndim(src)) + np.shape(src)
        value = np.reshape(src, block)
        addresses, inside = desc.at(indices).addresses(
            block, value.dtype.itemsize, range(len(block))
        )
        # The interpreter passes no operands: the language layer there bitcasts.
        signed = not is_unsigned(self.desc.type)
        context.memory.update(
            addresses,
            value.dtype,
            inside,
            lambda old, at: combine(self.kind.name, old, value.reshape(-1)[at], signed),
        )
