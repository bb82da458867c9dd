"""`amdg`: copies of tensors' blocks between global memory and LDS (gfx1250's tensor data mover).

A descriptor has the place of its block: `amdg.update_tensor_descriptor` moves it, and the extents
of the tensor are counted from it. Copies go on while the program computes; `amdg.async_tdm_wait`
waits for all but the newest, among which those count that their descriptor's `pred` keeps from
being made. One with a barrier lets each warp that takes part arrive there when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import SwizzledSharedEncoding
from tritium.ir.layouts.partitioned import PartitionedSharedEncoding
from tritium.ir.layouts.shared_linear import PaddedSharedEncoding
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Effects, Queue, arrives, reads, waits, writes
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_array_attr, i32_attr, operand, optional, unit_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.ttgir.async_copy import CopyWaitOp
from tritium.ops.ttgir.model import AsyncState, Buffer, Copy, state_of
from tritium.ops.ttgir.types import TOKEN, MemDescType, check_barrier, check_memory, memdesc_of
from tritium.ops.ttir.descriptor import block_of
from tritium.ops.ttir.memory import CachedOp, Tile

MOST_FUSED = 4
"""The most blocks of a fused copy."""
PAD_BYTES = 512
"""The most bytes of a gap that copies leave."""
PADDED_BYTES = range(8, 1025)
"""The bytes between gaps that copies leave."""


@dataclass(frozen=True)
class Placed(Tile):
    """The value of a descriptor that was moved: `base` is the address of the block's first element,
    `shape` the extents from there on. `active`: whether copies do anything."""

    active: bool = True

    @staticmethod
    def of(desc: Tile) -> Placed:
        """A descriptor as it is made, or one that was moved."""
        if isinstance(desc, Placed):
            return desc
        start = (0,) * len(desc.shape)
        return Placed(desc.base, desc.shape, desc.strides, start, desc.padding)

    def block(self, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The addresses of a block's elements, and which of them are within the tensor."""
        return self.addresses(data.shape, data.dtype.itemsize, range(data.ndim))

    def rows(self, numbers: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The addresses of the elements of a matrix's rows, and which of them are within it."""
        found = [
            self.at((row, 0)).addresses((1, data.shape[1]), data.dtype.itemsize, (0, 1))
            for row in numbers
        ]
        addresses, inside = (np.concatenate(part) for part in zip(*found, strict=True))
        return addresses, inside


def gaps(name: str, memory: MemDescType, store: bool = False) -> tuple[int, int] | None:
    """The gaps (interval, padding), in elements, that a copy leaves between elements in LDS, which
    lie in row-major order. Raises `OpError` for what the copy engine does not do."""
    encoding, shape = memory.encoding, memory.get_shape()
    if isinstance(encoding, PartitionedSharedEncoding):
        layout, piece = encoding.get("partitionLayout"), encoding.piece(shape)
        return gaps(name, memdesc_of(piece, memory.element_type, layout), store)
    order = tuple(reversed(range(len(shape))))
    if isinstance(encoding, SwizzledSharedEncoding):
        if encoding.get("maxPhase") == 1 and tuple(encoding.get("order")) == order:
            return None
    elif isinstance(encoding, PaddedSharedEncoding) and len(encoding.get("intervals")) == 1:
        bases = [tuple(1 << bit if i == axis else 0 for i in order[::-1])
                 for axis in order for bit in range(shape[axis].bit_length() - 1)]  # fmt: skip
        if [tuple(b) for b in encoding.get("offset")] == bases:
            return _check_gap(name, memory, encoding.get("intervals")[0], store)
    raise OpError(
        f"{name}: {describe(memory)}; rows in order are required: #ttg.swizzled_shared with "
        f"maxPhase 1 and order {list(order)}, or #ttg.padded_shared with one interval"
    )


def _check_gap(
    name: str, memory: MemDescType, gap: tuple[int, int], store: bool
) -> tuple[int, int]:
    size = ir.bit_width(memory.element_type) // 8
    every, padding = gap[0] * size, gap[1] * size
    if every not in PADDED_BYTES or padding % 4 or padding > PAD_BYTES:
        raise OpError(
            f"{name}: {describe(memory)} has gaps of {padding} bytes every {every}; multiples of 4 "
            f"up to {PAD_BYTES}, every {PADDED_BYTES.start} to {PADDED_BYTES.stop - 1} are required"
        )
    if store and gap[0] != memory.get_shape()[-1]:
        raise OpError(
            f"{name}: {describe(memory)} has a gap every {gap[0]} elements; stores are of memory "
            f"with one after each row, of {memory.get_shape()[-1]}"
        )
    return gap


def pieces_of(memory: Any) -> int:
    """The pieces of a block that are copied each by itself."""
    encoding = memory.encoding
    return encoding.pieces if isinstance(encoding, PartitionedSharedEncoding) else 1


def active_warps(name: str, hint: int, warps: int) -> tuple[int, ...]:
    """The warps that take part in a copy: those of the bits of `hint`, or all for 0. Raises
    `OpError` for sets that are not a warp and all that differ from it in some bits."""
    if not hint:
        return tuple(range(warps))
    chosen = tuple(bit for bit in range(hint.bit_length()) if hint >> bit & 1)
    free = 0
    for warp in chosen:
        free |= warp ^ chosen[0]
    if hint < 0 or chosen[-1] >= warps or len(chosen) != 1 << free.bit_count():
        raise OpError(
            f"{name}: warp_used_hint is {hint:#b}, of {warps} warps; a bit mask of one of them and "
            "all that differ from it in some bits of their numbers is required"
        )
    return chosen


def _check_copy(name: str, desc: ir.Type, target: ir.Type, *, store: bool = False) -> None:
    block, memory = block_of(name, desc), check_memory(name, target, mutable=not store)
    if block.get_shape() != memory.get_shape() or block.element_type != memory.element_type:
        raise OpError(f"{name}: blocks {describe(block)} and memory {describe(memory)} differ")
    if ir.bit_width(memory.element_type) not in (8, 16, 32, 64):
        raise OpError(f"{name}: {describe(memory)}; elements of 1 to 8 bytes are required")
    gaps(name, memory, store)


class UpdateTensorDescOp(Op):
    """A descriptor whose block is `add_offsets` further, whose extents from there on are
    `set_bounds`, or with `clamp_bounds` what the moved block has left of the old ones: none where
    an offset is negative. Copies are made if `pred` is not 0. What is absent stays."""

    name = "amdg.update_tensor_descriptor"
    memory_operands = ("desc",)
    reads_operand_types = True
    syntax = (
        "$desc [add_offsets = '[' $add_offsets ']'] [set_bounds = '[' $set_bounds ']'] "
        "[pred = $pred] attrs : type(desc)"
    )
    desc = operand()
    add_offsets = variadic()
    set_bounds = variadic()
    pred = optional()
    clamp_bounds = unit_attr()

    @classmethod
    def infer(
        cls, desc: ir.Type, offsets: Sequence[ir.Type], bounds: Sequence[ir.Type],
        pred: ir.Type | None, *, clamp_bounds: bool,
    ) -> ir.Type:  # fmt: skip
        rank = len(block_of(cls.name, desc).get_shape())
        for what, types in (("add_offsets", offsets), ("set_bounds", bounds)):
            if types and [*types] != [ir.i32] * rank:
                raise OpError(
                    f"{cls.name}: {what} ({describe(*types)}); {rank} of i32 are required"
                )
        if clamp_bounds and (bounds or not offsets):
            raise OpError(f"{cls.name}: clamp_bounds goes with add_offsets, and without set_bounds")
        if pred is not None and pred != ir.i32:
            raise OpError(f"{cls.name}: pred is {describe(pred)}; i32 is required")
        if not offsets and not bounds and pred is None:
            raise OpError(
                f"{cls.name}: nothing to change; one of add_offsets, set_bounds, pred is required"
            )
        return desc

    def evaluate(
        self, context: Context, desc: Tile, offsets: tuple[Any, ...], bounds: tuple[Any, ...],
        pred: Any,
    ) -> Placed:  # fmt: skip
        before = Placed.of(desc)
        base, shape = before.base, before.shape
        size = ir.bit_width(block_of(self.name, self.desc.type).element_type) // 8
        if offsets:
            moved = [int(offset) for offset in offsets]
            base += sum(m * s for m, s in zip(moved, before.strides, strict=True)) * size
            if self.clamp_bounds:
                shape = tuple(0 if m < 0 else max(n - m, 0)
                              for m, n in zip(moved, shape, strict=True))  # fmt: skip
        if bounds:
            shape = tuple(max(int(bound), 0) for bound in bounds)
        active = before.active if pred is None else bool(int(pred) & 1)
        return Placed(base, shape, before.strides, before.offsets, before.padding, active)


class TensorCopyOp(CachedOp):
    """Base of copies. `warps`: how many run the code; they share the work, and each arrives at the
    barrier when it is done with its part."""

    reads_operand_types = True
    barrier: Any
    warps = i32_attr(1)
    QUEUED: Effects = ()
    """The effects of copies that arrive at a barrier, beside those of others."""

    @property
    def arrivals(self) -> int:
        """The arrivals at the barrier."""
        return self.warps

    def own_effects(self) -> Effects:
        return self.effects if self.barrier is None else (*self.effects, *self.QUEUED)

    def most_arrivals(self) -> float:
        return self.arrivals

    def start(self, state: AsyncState, copy: Copy | None, barrier: Buffer | None) -> None:
        """Put a copy into the queue, and let it arrive at its barrier; None for one that is not
        made."""
        state.own.tensors.append([] if copy is None else [copy])
        if copy is not None and barrier is not None:
            state.barrier(barrier).arrive(self.arrivals, copies=[copy])


def loaded(
    context: Context, desc: Placed, target: Buffer, rows: np.ndarray | None = None
) -> Copy | None:
    """A copy into LDS, of the block or of rows: zeros are what lies outside of the tensor. None for
    one that is not made."""
    if not desc.active:
        return None
    data = state_of(context).check_write(target)
    addresses, inside = desc.block(data) if rows is None else desc.rows(rows, data)
    return target.copy(context.memory.load(addresses, data.dtype, inside))


def stored(
    context: Context, desc: Placed, source: Buffer, rows: np.ndarray | None = None
) -> Copy | None:
    """A copy out of LDS, likewise: what lies outside of the tensor is dropped."""
    data = state_of(context).check_read(source)
    if not desc.active:
        return None
    addresses, inside = desc.block(data) if rows is None else desc.rows(rows, data)
    context.memory.store(addresses, data, inside)
    return Copy.out_of(source.data)


class AsyncTDMCopyGlobalToLocalOp(TensorCopyOp):
    """Start copying the block of a descriptor into the memory `result`; zeros are what lies outside
    of the tensor. `warp_used_hint`: the bits of the warps that take part; 0 for all."""

    name = "amdg.async_tdm_copy_global_to_local"
    effects = (reads(GLOBAL, "desc"), writes(SHARED, "result", Queue.TENSOR_COPY))
    QUEUED = (writes(SHARED, "result", Queue.MBARRIER), arrives("barrier"))
    syntax = (
        "$desc into $result [, barrier = $barrier] [cacheModifier = $cache] "
        "[evictionPolicy = $evict] attrs : type(desc) [, type(barrier)] -> type(result)"
    )
    desc = operand()
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    barrier = optional()
    warp_used_hint = i32_attr(0)

    @property
    def arrivals(self) -> int:
        warps = len(active_warps(self.name, self.warp_used_hint, self.warps))
        return max(warps, pieces_of(self.result.type))

    @classmethod
    def infer(
        cls, desc: ir.Type, target: ir.Type, barrier: ir.Type | None, *, warps: int,
        warp_used_hint: int, **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        _check_copy(cls.name, desc, target)
        active_warps(cls.name, warp_used_hint, warps)
        if barrier is not None:
            check_barrier(cls.name, barrier)
        return TOKEN

    def evaluate(
        self, context: Context, desc: Tile, result: Buffer, barrier: Buffer | None
    ) -> None:
        self.start(state_of(context), loaded(context, Placed.of(desc), result), barrier)


class AsyncTDMFusedCopyOp(TensorCopyOp):
    """Start copying the blocks of 2 to 4 descriptors, each by the warps of its
    `warp_used_hints`: one instruction of each warp."""

    name = "amdg.async_tdm_fused_copy_global_to_local"
    effects = (reads(GLOBAL, "descs"), writes(SHARED, "targets", Queue.TENSOR_COPY))
    syntax = (
        "$descs into $targets [cacheModifier = $cache] [evictionPolicy = $evict] attrs : "
        "type(descs) -> type(targets)"
    )
    descs = variadic()
    targets = variadic()
    barrier = None
    warp_used_hints = i32_array_attr()

    @classmethod
    def infer(
        cls, descs: Sequence[ir.Type], targets: Sequence[ir.Type], *, warps: int,
        warp_used_hints: tuple[int, ...], **attrs: Any,
    ) -> ir.Type:  # fmt: skip
        count = len(descs)
        if not 2 <= count <= MOST_FUSED or not count == len(targets) == len(warp_used_hints):
            raise OpError(
                f"{cls.name}: {count} descriptors, {len(targets)} pieces of memory, "
                f"{len(warp_used_hints)} hints; 2 to {MOST_FUSED} of each are required"
            )
        used: set[int] = set()
        for desc, target, hint in zip(descs, targets, warp_used_hints, strict=True):
            _check_copy(cls.name, desc, target)
            chosen = set(active_warps(cls.name, hint, warps))
            if not hint or chosen & used:
                raise OpError(
                    f"{cls.name}: warp_used_hints {[*map(bin, warp_used_hints)]}; masks of "
                    "different warps are required"
                )
            used |= chosen
        if len({len(block_of(cls.name, desc).get_shape()) for desc in descs}) > 1:
            raise OpError(f"{cls.name}: {describe(*descs)}; descriptors of one rank are required")
        return TOKEN

    def evaluate(
        self, context: Context, descs: tuple[Tile, ...], targets: tuple[Buffer, ...]
    ) -> None:
        copies = [loaded(context, Placed.of(desc), target)
                  for desc, target in zip(descs, targets, strict=True)]  # fmt: skip
        state_of(context).own.tensors.append([copy for copy in copies if copy is not None])


class AsyncTDMCopyLocalToGlobalOp(TensorCopyOp):
    """Start copying the memory `src`, which must keep it until a wait, to the block of a
    descriptor. What lies outside of the tensor is dropped."""

    name = "amdg.async_tdm_copy_local_to_global"
    effects = (reads(SHARED, "src", Queue.TENSOR_COPY), writes(GLOBAL, "desc"))
    QUEUED = (reads(SHARED, "src", Queue.MBARRIER), arrives("barrier"))
    syntax = (
        "$desc from $src [, barrier = $barrier] [cacheModifier = $cache] "
        "[evictionPolicy = $evict] attrs : type(src) [, type(barrier)] -> type(desc)"
    )
    desc = operand()
    src = operand()
    barrier = optional()

    @property
    def arrivals(self) -> int:
        return max(self.warps, pieces_of(self.src.type))

    @classmethod
    def infer(cls, desc: ir.Type, src: ir.Type, barrier: ir.Type | None, **attrs: Any) -> ir.Type:
        _check_copy(cls.name, desc, src, store=True)
        if barrier is not None:
            check_barrier(cls.name, barrier)
        return TOKEN

    def evaluate(self, context: Context, desc: Tile, src: Buffer, barrier: Buffer | None) -> None:
        self.start(state_of(context), stored(context, Placed.of(desc), src), barrier)


class AsyncTDMWaitOp(CopyWaitOp):
    """Wait until all but the `num` newest copies of tensors' blocks are done."""

    name = "amdg.async_tdm_wait"
    effects = (waits(SHARED, Queue.TENSOR_COPY),)

    def evaluate(self, context: Context, tokens: tuple[Any, ...]) -> None:
        state_of(context).wait_tensor_copies(self.num)
