"""`ttng`: tensor memory (Blackwell): allocation, loads, stores, views, copies."""

from __future__ import annotations

from math import prod
from typing import Any

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import part_of
from tritium.ir.layouts.tensor_memory import (
    COLUMNS,
    ROWS,
    TensorEncoding,
    TensorMemoryEncoding,
    TensorMemoryScalesEncoding,
)
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, TENSOR, Effects, Queue, allocates, opaque, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_attr, operand, optional
from tritium.ops.memory import Context
from tritium.ops.ttgir.memory import MemDescView, is_padded
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.tma import check_flag
from tritium.ops.ttgir.types import (
    MemDescType,
    check_matrix,
    check_memory,
    check_new_memory,
    check_same_tile,
    memdesc_of,
)


def check_tensor_memory(name: str, type: Any, *, mutable: bool = False) -> MemDescType:
    """The operand must be tensor memory."""
    memory = check_memory(name, type, mutable=mutable)
    if not isinstance(memory.encoding, TensorEncoding):
        raise OpError(f"{name}: operand has type {describe(type)}; tensor memory is required")
    return memory


def _with_elements(name: str, type: Any, *, mutable: bool = False) -> MemDescType:
    """The operand must be tensor memory of which each element is in one place."""
    memory = check_tensor_memory(name, type, mutable=mutable)
    if is_padded(memory):
        raise OpError(f"{name}: {describe(memory)}; memory without fp4Padded is required, whose "
                      "bytes are the elements")  # fmt: skip
    return memory


def columns_of(type: Any) -> int:
    """The columns of tensor memory that a tile takes."""
    encoding: Any = type.encoding
    return encoding.columns_of(type.allocation_shape(), ir.bit_width(type.element_type))


class TMemAllocOp(Op):
    """Tensor memory that lives until the kernel's end; filled with `src`."""

    name = "ttng.tmem_alloc"
    capabilities = 100, 119
    effects = (allocates(TENSOR, "result"), opaque(TENSOR))
    syntax = "[$src] attrs : functional"
    takes_any_layout = True
    src = optional()

    @classmethod
    def infer(cls, src: ir.Type | None, *, result: Any) -> ir.Type:
        memory = check_new_memory(cls.name, check_tensor_memory(cls.name, result))
        if src is not None:
            check_same_tile(cls.name, src, memory)
        if columns_of(memory) > COLUMNS:
            raise OpError(
                f"{cls.name}: {describe(memory)} takes {columns_of(memory)} columns of tensor "
                f"memory; there are {COLUMNS}"
            )
        return memory

    def own_effects(self) -> Effects:
        return self.effects if self.src is None else (*self.effects, writes(TENSOR, "result"))

    def evaluate(self, context: Context, src: Any) -> Buffer:
        return Buffer.new(self.result_types[0], src)


class TMemLoadOp(Op):
    """The tile in tensor memory."""

    name = "ttng.tmem_load"
    capabilities = 100, 119
    effects = (reads(TENSOR, "src"),)
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        check_same_tile(cls.name, result, _with_elements(cls.name, src))
        return result

    def evaluate(self, context: Context, src: Buffer) -> Any:
        contents: Any = state_of(context).check_read(src)
        return contents.copy()


class TMemStoreOp(Op):
    """Write a tile to tensor memory, if `pred`."""

    name = "ttng.tmem_store"
    capabilities = 100, 119
    effects = (writes(TENSOR, "dst"),)
    syntax = "$src, $dst, $pred attrs : type(src) -> type(dst)"
    takes_any_layout = True
    src = operand()
    dst = operand()
    pred = operand()

    @classmethod
    def infer(cls, src: ir.Type, dst: ir.Type, pred: ir.Type) -> None:
        check_flag(cls.name, pred)
        check_same_tile(cls.name, src, _with_elements(cls.name, dst, mutable=True))

    def evaluate(self, context: Context, src: Any, dst: Buffer, pred: Any) -> None:
        if pred:
            state_of(context).check_write(dst)
            dst.write(src)


class TMemSubSliceOp(MemDescView):
    """The part of the result's size along the axis `dim` from `offset` on: columns, whole blocks of
    rows, or several tiles of those side by side."""

    name = "ttng.tmem_subslice"
    syntax = "$src attrs : type(src) -> type(result)"
    offset = i32_attr()
    dim = i32_attr(1)

    @classmethod
    def infer(cls, src: ir.Type, *, offset: int, result: ir.Type | int, dim: int = 1) -> ir.Type:
        memory = check_tensor_memory(cls.name, src)
        shape = list(memory.get_shape())
        if not 0 <= dim < len(shape):
            raise OpError(f"{cls.name}: dim is {dim}; {describe(memory)} has {len(shape)} axes")
        given = result if isinstance(result, int) else check_memory(cls.name, result)
        size = given if isinstance(given, int) else given.get_shape()[dim]
        unit, within = _parts_along(memory, dim)
        inside = size > 0 and 0 <= offset <= shape[dim] - size
        if not inside or (offset | size) % unit or (
            offset % size and offset % within + size > within
        ):
            raise OpError(
                f"{cls.name}: {size} elements from {offset} on along axis {dim} of "
                f"{describe(memory)}; a part of it is required, of multiples of {unit}, that "
                f"begins at a multiple of its size or crosses no multiple of {within}"
            )
        shape[dim] = size
        return memdesc_of(
            tuple(shape), memory.element_type, memory.encoding, memory.mutable,
            memory.allocation_shape(), memory.memory_space,
        )  # fmt: skip

    def evaluate(self, context: Context, src: Buffer) -> Buffer:
        type: Any = self.result_types[0]
        part = slice(self.offset, self.offset + type.get_shape()[self.dim])
        return src.view(src.data[(*(slice(None),) * self.dim, part)])


def _parts_along(memory: MemDescType, axis: int) -> tuple[int, int]:
    """The unit of slices along an axis of tensor memory, and the size of what they may be any part
    of."""
    encoding, whole = memory.encoding, memory.get_shape()[axis]
    place = axis - len(memory.get_shape())
    if place < -2:
        return 1, whole
    if not isinstance(encoding, TensorMemoryEncoding):
        return (1, 1) if place == -1 else (whole, 1)
    rows = encoding.get("blockM")
    if place == -1:  # blocks of all rows lie side by side, as their columns do
        below = part_of(encoding.get("CGALayout"), memory.allocation_shape()[-2:])[0]
        return 1, whole if below == rows == ROWS else encoding.get("blockN")
    # The rows of two blocks of 64 rows alternate.
    return rows, whole if rows == ROWS else rows


class TMemCopyOp(Op):
    """Start copying shared memory to tensor memory. A commit tells when it is done; products that
    start later see it."""

    name = "ttng.tmem_copy"
    capabilities = 100, 119
    effects = (reads(SHARED, "src", Queue.TENSOR_DOT), writes(TENSOR, "dst"))
    syntax = "$src, $dst attrs : type(src), type(dst)"
    src = operand()
    dst = operand()

    @classmethod
    def infer(cls, src: ir.Type, dst: ir.Type) -> None:
        source = check_memory(cls.name, src)
        target = check_tensor_memory(cls.name, dst, mutable=True)
        same = prod(source.get_shape()) == prod(target.get_shape())
        if not same or source.element_type != target.element_type:
            raise OpError(f"{cls.name}: from {describe(src)} to {describe(dst)}")
        if not isinstance(target.encoding, TensorMemoryScalesEncoding):
            check_matrix(cls.name, src)

    def evaluate(self, context: Context, src: Buffer, dst: Buffer) -> None:
        state = state_of(context)
        data: Any = state.check_read(src, by_proxy=True)
        state.start_tensor_work(dst, data.reshape(dst.data.shape).copy(), (src.data,))
