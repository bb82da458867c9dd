"""Changes of layout, and shared memory: allocation, loads, stores, views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import (
    BLOCK,
    OFFSET,
    Encoding,
    NVMMASharedEncoding,
    PermutedSharedEncoding,
    SharedEncoding,
    linear,
)
from tritium.ir.layouts.moves import permuted
from tritium.ir.layouts.partitioned import PARTITION_BYTES, PartitionedSharedEncoding
from tritium.ir.layouts.shared_linear import BasesEncoding, permuted_memory
from tritium.ir.layouts.tensor_memory import COLUMN, ROW, TensorEncoding, TensorMemoryEncoding
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Movement, Op
from tritium.ops.effects import SHARED, Effects, allocates, frees, reads, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_array_attr, operand, optional
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Beside, Buffer, Pending, state_of
from tritium.ops.ttgir.types import (
    AsyncTokenType,
    MemDescType,
    bytes_of,
    check_memory,
    check_new_memory,
    check_run,
    check_same_tile,
    leaves_block,
    memdesc_of,
    route_of_loads,
    route_of_stores,
)


class ConvertLayoutOp(Op):
    """The same tile, distributed over threads in another way."""

    name = "ttg.convert_layout"
    memory_operands = ("src",)
    movement = Movement.IN_ORDER
    syntax = "$src attrs : type(src) -> type(result)"
    takes_any_layout = True
    changes_layout = True
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        same = ir.shape_of(src) == ir.shape_of(result)
        if not same or ir.element_type(src) != ir.element_type(result):
            raise OpError(
                f"{cls.name}: from {describe(src)} to {describe(result)}; only the encoding may "
                "differ"
            )
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return src

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return operands[0]


class InThreadTransposeOp(ConvertLayoutOp):
    """The same tile with the registers of each thread in another order: what it holds is then in
    runs along the other axis."""

    name = "amdg.in_thread_transpose"


class LocalAllocOp(Op):
    """Shared memory that lives until its `local_dealloc` or its last use; filled with `src`."""

    name = "ttg.local_alloc"
    effects = (allocates(SHARED, "result"),)
    syntax = "[$src] attrs : functional"
    takes_any_layout = True
    src = optional()

    @classmethod
    def infer(cls, src: ir.Type | None, *, result: Any) -> ir.Type:
        memory = check_new_memory(cls.name, result)
        if isinstance(memory.encoding, PartitionedSharedEncoding) \
                and bytes_of(memory) > PARTITION_BYTES:  # fmt: skip
            raise OpError(f"{cls.name}: {describe(memory)} has {bytes_of(memory)} bytes in a "
                          f"partition; {PARTITION_BYTES} are the most")  # fmt: skip
        if src is not None:
            check_same_tile(cls.name, src, memory)
        elif not memory.mutable:
            raise OpError(f"{cls.name}: {describe(memory)} is never written; make it mutable")
        return memory

    @property
    def is_constant_memory(self) -> bool:
        mutable = check_memory(self.name, self.result_types[0]).mutable
        freed = any(isinstance(use.operation, LocalDeallocOp) for use in self.results[0].uses)
        return self.src is not None and not mutable and not freed

    @property
    def reaches_blocks(self) -> bool:
        memory: Any = self.result_types[0]
        return self.src is not None and leaves_block(self.src.type, memory, writes=True)

    @property
    def stores_to_blocks(self) -> bool:
        return self.reaches_blocks

    def own_effects(self) -> Effects:
        filled = (writes(SHARED, "result"),) if self.src is not None else ()
        return (*self.effects, *filled)

    def evaluate(self, context: Context, src: Any) -> Buffer:
        state, new = state_of(context), Buffer.new(self.result_types[0], src)
        new.allocation.place = context.place()
        if src is not None:
            state.check_write(new, by_threads=True)
        return new


class LocalDeallocOp(Op):
    """Ends the life of shared memory."""

    name = "ttg.local_dealloc"
    effects = (frees(SHARED, "src"),)
    syntax = "$src attrs : type(src)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type) -> None:
        check_memory(cls.name, src)

    def evaluate(self, context: Context, src: Buffer) -> None:
        if src.allocation.live:  # once merged, allocations may have several ends, as Triton writes
            state_of(context).check_write(src)
        src.allocation.live = False


class LocalLoadOp(Op):
    """The tile in shared memory. `token`: what the load must come after."""

    name = "ttg.local_load"
    effects = (reads(SHARED, "src"),)
    syntax = "$src [token $token] attrs : type(src) -> type(result)"
    reads_operand_types = True
    src = operand()
    token = optional()

    @classmethod
    def infer(cls, src: ir.Type, token: ir.Type | None, *, result: ir.Type) -> ir.Type:
        check_same_tile(cls.name, result, check_memory(cls.name, src))
        if token is not None and not isinstance(token, AsyncTokenType):
            raise OpError(f"{cls.name}: token is {describe(token)}; an async token is required")
        return result

    @property
    def reaches_blocks(self) -> bool:
        return leaves_block(self.result_types[0], self.src.type, writes=False)

    @property
    def tile_memory(self) -> SSAValue:
        return self.src

    def evaluate(self, context: Context, src: Buffer, token: Any) -> Any:
        state, route = state_of(context), None
        if state.blocks > 1 and self.reaches_blocks:
            route = route_of_loads(self.result_types[0], self.src.type, state.blocks)
        contents: Any = state.check_read(src, route=route)
        return contents.copy()


class LocalStoreOp(Op):
    """Write a tile to shared memory."""

    name = "ttg.local_store"
    effects = (writes(SHARED, "dst"),)
    syntax = "$src, $dst attrs : type(src) -> type(dst)"
    reads_operand_types = True
    takes_any_layout = True
    src = operand()
    dst = operand()

    @classmethod
    def infer(cls, src: ir.Type, dst: ir.Type) -> None:
        check_same_tile(cls.name, src, check_memory(cls.name, dst, mutable=True))

    @property
    def reaches_blocks(self) -> bool:
        return leaves_block(self.src.type, self.dst.type, writes=True)

    @property
    def stores_to_blocks(self) -> bool:
        return self.reaches_blocks

    def evaluate(self, context: Context, src: Any, dst: Buffer) -> None:
        assert not isinstance(src, Pending)
        state, route = state_of(context), None
        if state.blocks > 1 and self.reaches_blocks:
            route = route_of_stores(self.src.type, self.dst.type, state.blocks)
        state.check_write(dst, by_threads=True, route=route)
        dst.write(src)


class MemDescView(Op):
    """Base of ops whose result is a part of their operand's memory, or has another layout."""

    memory_operands = ("src",)
    src = operand()


class MemDescIndexOp(MemDescView):
    """One of the buffers along the first axis."""

    name = "ttg.memdesc_index"
    syntax = "$src ~ '[' $index ']' attrs : type(src) -> type(result)"
    index = operand()

    @classmethod
    def infer(cls, src: ir.Type, index: ir.Type, *, result: ir.Type | None = None) -> ir.Type:
        memory = check_memory(cls.name, src)
        if index != ir.i32 or len(memory.get_shape()) < 2:
            raise OpError(
                f"{cls.name}: {describe(src)}, index {describe(index)}; memory of two or more axes "
                "and an i32 are required"
            )
        encoding = memory.encoding
        if isinstance(encoding, SharedEncoding) and encoding.rank >= len(memory.get_shape()):
            raise OpError(
                f"{cls.name}: {describe(src)} has no axis in front of the {encoding.rank} of its "
                "layout; buffers have one"
            )
        shape = memory.get_shape()[1:]
        inferred = memdesc_of(
            shape, memory.element_type, memory.encoding, memory.mutable,
            memory.allocation_shape()[-len(shape) :], memory.memory_space,
        )  # fmt: skip
        return _check_view(cls.name, inferred, result, encoding=True)

    def evaluate(self, context: Context, src: Buffer, index: Any) -> Buffer:
        at = int(index)
        count = src.contents().shape[0]
        if not 0 <= at < count:
            return Beside(f"{self.name}: index {at} of {count} buffers")
        return src.moved(lambda data: data[at])


def _check_view(
    name: str, inferred: MemDescType, result: ir.Type | None, encoding: bool
) -> MemDescType:
    """The type asked for, which must be the inferred one, or that of a view that nothing is written
    through; with `encoding` in that too."""
    if result is None:
        return inferred
    given = check_memory(name, result)
    same = given.get_shape() == inferred.get_shape() and given.mutable <= inferred.mutable
    same = same and given.element_type == inferred.element_type
    if not same or (encoding and given.encoding != inferred.encoding):
        raise OpError(f"{name}: result is {describe(result)}; {describe(inferred)} is required")
    return given


def transposed_encoding(
    encoding: Attribute, order: tuple[int, ...], shape: tuple[int, ...]
) -> Attribute:
    """The encoding of memory of this shape whose axes are seen in another order. Bases take the
    place of an `nvmma_shared` of which other axes than the last two are exchanged."""
    if isinstance(encoding, NVMMASharedEncoding):
        axes = tuple(range(len(order)))
        if order == axes:
            return encoding
        if order != (*axes[:-2], axes[-1], axes[-2]):
            return permuted_memory(encoding, shape, order)
        return _changed(encoding, transposed=not encoding.get("transposed"),
                        CGALayout=permuted(encoding.get("CGALayout"), order))  # fmt: skip
    if isinstance(encoding, PermutedSharedEncoding):
        where = {axis: i for i, axis in enumerate(order)}
        return _changed(encoding, order=tuple(where[a] for a in encoding.get("order")),
                        CGALayout=permuted(encoding.get("CGALayout"), order))  # fmt: skip
    if isinstance(encoding, PartitionedSharedEncoding):
        inner = transposed_encoding(encoding.get("partitionLayout"), order, shape)
        return _changed(encoding, partitionDim=tuple(order).index(encoding.get("partitionDim")),
                        partitionLayout=inner)  # fmt: skip
    if isinstance(encoding, BasesEncoding):
        return _changed(encoding, **{key: permuted(encoding.get(key), order)
                                     for key in (OFFSET, BLOCK)})  # fmt: skip
    raise OpError(f"ttg.memdesc_trans: {encoding} cannot be transposed")


def without_axes(encoding: Encoding, count: int) -> Encoding:
    """The encoding of memory without leading axes of size 1, of which at least two are left."""
    cluster = tuple(basis[count:] for basis in encoding.get("CGALayout"))
    return _changed(encoding, rank=encoding.get("rank") - count, CGALayout=cluster)


def _changed(encoding: Encoding, **values: Any) -> Encoding:
    kept = {k: encoding.get(k) for k in encoding.parameters_dict.data}
    return type(encoding).make(**{**kept, **values})


class MemDescTransOp(MemDescView):
    """The same memory with its axes in another order: result axis i is operand axis `order[i]`."""

    name = "ttg.memdesc_trans"
    syntax = "$src attrs : type(src) -> type(result)"
    order = i32_array_attr()

    @classmethod
    def infer(
        cls, src: ir.Type, *, order: tuple[int, ...], result: ir.Type | None = None
    ) -> ir.Type:
        memory = check_memory(cls.name, src)
        if sorted(order) != list(range(len(memory.get_shape()))):
            last = len(memory.get_shape()) - 1
            raise OpError(
                f"{cls.name}: order {tuple(order)} does not permute {describe(src)}; a permutation "
                f"of 0 to {last} is required"
            )
        encoding = memory.encoding
        if isinstance(encoding, SharedEncoding) and encoding.rank < len(order):
            raise OpError(
                f"{cls.name}: {describe(src)} has buffers in front of the {encoding.rank} axes of "
                "its layout; one of them is required"
            )
        whole = memory.allocation_shape()
        inferred = memdesc_of(
            tuple(memory.get_shape()[i] for i in order), memory.element_type,
            transposed_encoding(memory.encoding, tuple(order), tuple(whole)), memory.mutable,
            tuple(whole[i] for i in order), memory.memory_space,
        )  # fmt: skip
        return _check_view(cls.name, inferred, result, encoding=True)

    def evaluate(self, context: Context, src: Buffer) -> Buffer:
        order = self.order
        return src.moved(lambda data: data.transpose(order))


class MemDescSubsliceOp(MemDescView):
    """A part of the memory, of the result's shape, from `offsets` on."""

    name = "ttg.memdesc_subslice"
    syntax = "$src ~ $offsets attrs : type(src) -> type(result)"
    offsets = i32_array_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, offsets: tuple[int, ...], result: ir.Type) -> ir.Type:
        memory, part = check_memory(cls.name, src), check_memory(cls.name, result)
        shape, size = memory.get_shape(), part.get_shape()
        fits = len(shape) == len(size) == len(offsets) and all(
            o >= 0 and o + n <= s for o, n, s in zip(offsets, size, shape, strict=True)
        )
        if not fits or part.element_type != memory.element_type:
            raise OpError(
                f"{cls.name}: {describe(part)} at {tuple(offsets)} is not within {describe(memory)}"
            )
        return part

    def evaluate(self, context: Context, src: Buffer) -> Buffer:
        type = self.result_types[0]
        assert isinstance(type, MemDescType)
        part = tuple(slice(o, o + n) for o, n in zip(self.offsets, type.get_shape(), strict=True))
        return src.moved(lambda data: data[part])


class MemDescReshapeOp(MemDescView):
    """The same memory with another shape, elements in row-major order."""

    name = "ttg.memdesc_reshape"
    syntax = "$src attrs : type(src) -> type(result)"

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        before, after = check_memory(cls.name, src), check_memory(cls.name, result)
        same = prod(before.get_shape()) == prod(after.get_shape())
        if not same or before.element_type != after.element_type:
            raise OpError(f"{cls.name}: from {describe(src)} to {describe(result)}")
        check_run(cls.name, before)
        return after

    def evaluate(self, context: Context, src: Buffer) -> Buffer:
        type = self.result_types[0]
        assert isinstance(type, MemDescType)
        shape = type.get_shape()
        return src.moved(lambda data: data.reshape(shape))


class MemDescReinterpretOp(MemDescView):
    """The same bytes as memory of another shape, element type and encoding."""

    name = "ttg.memdesc_reinterpret"
    reads_operand_types = True
    syntax = "$src attrs : type(src) -> type(result)"

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        before, after = check_memory(cls.name, src), check_new_memory(cls.name, result)
        if any(isinstance(m.encoding, PartitionedSharedEncoding) for m in (before, after)) \
                and before.encoding != after.encoding:  # fmt: skip
            raise OpError(f"{cls.name}: from {describe(before)} to {describe(after)}; memory in "
                          "partitions keeps its layout")  # fmt: skip
        have, wanted = _extent(before), _extent(after)
        if have[1] != wanted[1] or have[0] < wanted[0]:
            raise OpError(
                f"{cls.name}: {describe(after)} takes {wanted[0]} {wanted[1]}, "
                f"{describe(before)} has {have[0]} {have[1]}; {have[0]} or fewer are required"
            )
        check_run(cls.name, before)
        return after

    def evaluate(self, context: Context, src: Buffer) -> Buffer:
        before, after = self.src.type, self.result_types[0]
        assert isinstance(after, MemDescType)
        if _has_plain_rows(before) and is_padded(after):
            rows, columns = after.get_shape()
            pairs: Any = src.data[:rows].view(np.uint16)
            return src.view(pairs[:, :columns])
        if _has_plain_rows(before) and _has_plain_rows(after):
            rows, columns = after.get_shape()
            row: Any = src.data[:rows].view(ir.numpy_dtype(after.element_type))
            return src.view(row[:, :columns])
        dtype, shape = ir.numpy_dtype(after.element_type), after.get_shape()
        size, data = prod(shape) * dtype.itemsize, src.data.reshape(-1).view(np.uint8)
        if size > src.contents().nbytes:
            raise OpError(f"{self.name}: {size} bytes of {describe(before)}")
        same = _in_same_order(before, after)
        if same and src.order is None and np.shares_memory(data, src.data):
            return src.view(data[:size].view(dtype).reshape(shape))
        starts = [_starts(type, plain=same) for type in (before, after)]
        if starts[0] is None or starts[1] is None:
            raise NotImplementedError(
                f"{self.name} from {describe(before)} to {describe(after)}: their elements are in "
                "different places"
            )
        return src.reinterpreted(shape, dtype, starts[0], starts[1])


def _extent(type: MemDescType) -> tuple[int, str]:
    """The size of a piece of memory, and its unit."""
    encoding, shape = type.encoding, type.get_shape()
    if isinstance(encoding, TensorEncoding):
        return encoding.columns_of(shape, ir.bit_width(type.element_type)), "columns"
    return bytes_of(type), "bytes"


def is_padded(type: Any) -> bool:
    """True for tensor memory with two bytes for each byte of elements of 4 bits."""
    encoding = type.encoding
    return isinstance(encoding, TensorMemoryEncoding) and encoding.get("fp4Padded")


def _has_plain_rows(type: Any) -> bool:
    """True if elements of a row of a matrix fill a row of tensor memory from its start on."""
    encoding, shape = type.encoding, type.get_shape()
    if not isinstance(encoding, TensorEncoding) or len(shape) != 2:
        return False
    layout = linear(encoding, shape)
    rows, columns = ([[*basis] for basis in layout.bases(name)] for name in (ROW, COLUMN))
    plain = [[1 << i, 0] for i in range(7)], [[0, 1 << i] for i in range(len(columns))]
    return (rows, columns) == plain


def _in_same_order(before: Any, after: Any) -> bool:
    """True if arrays in row-major order show where each element of one is in the other: both are
    in that order in memory, or permuted in the same way."""
    shapes = [t.get_shape()[-t.encoding.rank :] for t in (before, after)]
    flat = [
        moves.flat(linear(t.encoding, shape))
        for t, shape in zip((before, after), shapes, strict=True)
    ]
    if all(f.columns == tuple(1 << i for i in range(len(f.columns))) for f in flat):
        return True
    same = ir.bit_width(before.element_type) == ir.bit_width(after.element_type)
    return same and flat[0].columns == flat[1].columns


def _starts(type: MemDescType, plain: bool) -> np.ndarray | None:
    """The bytes of shared memory at which elements begin, in row-major order; `plain`: are in that
    order in memory. None for layouts with gaps, parts of tiles, and those of clusters."""
    shape, size = type.get_shape(), ir.numpy_dtype(type.element_type).itemsize
    numbers, encoding = np.arange(prod(shape)), type.encoding
    if plain:
        return numbers * size
    if not isinstance(encoding, SharedEncoding):
        return None
    tile = shape[-encoding.rank :]
    layout = linear(encoding, tile)
    whole = type.allocation_shape()[-encoding.rank :] == tile
    if not whole or encoding.gaps(tile, size) or layout.bases(BLOCK) or \
            0 in layout.columns_of(OFFSET):  # fmt: skip
        return None
    places = {f"dim{axis}": at.reshape(-1) for axis, at in enumerate(np.indices(tile))}
    offsets = np.asarray(layout.inverse().apply(places)[OFFSET])
    buffers = np.arange(numbers.size // offsets.size)[:, None] * offsets.size
    return (buffers + offsets).reshape(-1) * size


def untransposed(value: SSAValue) -> SSAValue:
    """The buffer that a transposed view is of."""
    while isinstance(value.owner, MemDescTransOp):
        value = value.owner.src
    return value
