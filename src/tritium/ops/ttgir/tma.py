"""`ttng`: barriers in shared memory (mbarrier), and bulk copies of tiles (TMA)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, linear
from tritium.ops.base import Op
from tritium.ops.effects import (
    BARRIER,
    GLOBAL,
    SHARED,
    Effects,
    Queue,
    arrives,
    opaque,
    reads,
    waits,
    writes,
)
from tritium.ops.elementwise import describe
from tritium.ops.fields import (
    bool_attr,
    enum_attr,
    i32_attr,
    operand,
    optional,
    plain_i32_attr,
    unit_attr,
    variadic,
)
from tritium.ops.memory import Context, EvaluationError
from tritium.ops.ttgir.im2col import Patches
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.types import (
    MemDescType,
    blocks_of_barrier,
    check_barrier,
    check_left,
    check_memory,
    copied_bytes_of,
    route_of_arrivals,
    route_of_copies,
    told,
)
from tritium.ops.ttir.atomic import MemSemantic, combine
from tritium.ops.ttir.descriptor import (
    DescriptorReduceKind,
    block_of,
    check_indices,
    is_unsigned,
    signless,
)
from tritium.ops.ttir.memory import CachedOp, HintedOp, PaddingOption, Tile


def check_flag(name: str, type: ir.Type | None) -> None:
    """A predicate, where there is one, must be an i1."""
    if type is not None and type != ir.i1:
        raise OpError(f"{name}: predicate is {describe(type)}; i1 is required")


class InitBarrierOp(Op):
    """Make a barrier of which a phase ends after `count` arrivals and all bytes expected."""

    name = "ttng.init_barrier"
    effects = (writes(BARRIER, "alloc"), opaque(BARRIER))
    syntax = "$alloc, $count attrs : type(alloc)"
    alloc = operand()
    count = plain_i32_attr()

    @classmethod
    def infer(cls, alloc: ir.Type, *, count: int) -> None:
        check_barrier(cls.name, alloc)
        if count < 1:
            raise OpError(f"{cls.name}: count is {count}; 1 or more is required")

    @property
    def phase_arrivals(self) -> int:
        return self.count

    def evaluate(self, context: Context, alloc: Buffer) -> None:
        state_of(context).new_barrier(alloc, self.count)


class InvalBarrierOp(Op):
    """The memory is no barrier any more."""

    name = "ttng.inval_barrier"
    effects = (writes(BARRIER, "alloc"), opaque(BARRIER))
    syntax = "$alloc attrs : type(alloc)"
    alloc = operand()

    @classmethod
    def infer(cls, alloc: ir.Type) -> None:
        check_barrier(cls.name, alloc)

    def evaluate(self, context: Context, alloc: Buffer) -> None:
        state_of(context).drop_barrier(alloc)


ITSELF = -1
"""The value of `fromCTA` by which each block of a cluster arrives at its own barrier."""


class RoutedArrival(Op):
    """Base of arrivals. In a cluster the barrier of the block t gets one from the block
    `t & fromCTA`."""

    alloc: Any
    fromCTA = i32_attr(ITSELF)
    multicastCTA: Any = 0
    reads_operand_types = True

    @property
    def reaches_blocks(self) -> bool:
        routed = self.fromCTA != ITSELF or self.multicastCTA
        return bool(routed or blocks_of_barrier(self.alloc.type))

    def _arrive(self, context: Context, alloc: Buffer, count: int = 1, expected: int = 0) -> None:
        state = state_of(context)
        everyone = self.multicastCTA
        route = route_of_arrivals(self.alloc.type, state.blocks, self.fromCTA, everyone)
        arrivals = count << everyone.bit_count()
        state.barrier(alloc, route).arrive(arrivals, expected, route=route)


class BarrierExpectOp(RoutedArrival):
    """Arrive, and let the phase end only after `size` more bytes, if `pred`."""

    name = "ttng.barrier_expect"
    capabilities = 90, 999
    effects = (arrives("alloc"),)
    syntax = "$alloc, $size attrs , $pred : type(alloc)"
    alloc = operand()
    pred = operand()
    size = plain_i32_attr()

    @classmethod
    def infer(cls, alloc: ir.Type, pred: ir.Type, *, size: int, fromCTA: int) -> None:
        check_barrier(cls.name, alloc)
        check_flag(cls.name, pred)

    def most_arrivals(self) -> float:
        return inf if self.reaches_blocks else 1

    def expected_bytes(self) -> int:
        return self.size

    def evaluate(self, context: Context, alloc: Buffer, pred: Any) -> None:
        if pred:
            self._arrive(context, alloc, expected=self.size)


class ArriveBarrierOp(RoutedArrival):
    """Arrive `count` times, if `pred`. With `perWarp` each of the `count` warps that run the code
    arrives once, when it gets there. `multicastCTA`: bits of a block's number; each block arrives
    at the barriers of all that differ from it in these alone. `ownBlock`: memory that threads wrote
    is not handed on to threads of other blocks."""

    name = "ttng.arrive_barrier"
    effects = (arrives("alloc"),)
    syntax = "$alloc, $count [, $pred] attrs : type(alloc)"
    alloc = operand()
    pred = optional()
    count = plain_i32_attr()
    perWarp = unit_attr()
    multicastCTA = i32_attr(0)
    ownBlock = unit_attr()

    @classmethod
    def infer(
        cls, alloc: ir.Type, pred: ir.Type | None, *, count: int, perWarp: bool, fromCTA: int,
        multicastCTA: int, ownBlock: bool,
    ) -> None:  # fmt: skip
        check_barrier(cls.name, alloc)
        check_flag(cls.name, pred)

    def own_effects(self) -> Effects:
        """One thread arrives for all of them: what they have done before must be done."""
        return self.effects if self.perWarp else (*self.effects, arrives())

    def most_arrivals(self) -> float:
        return inf if self.reaches_blocks else self.count

    def evaluate(self, context: Context, alloc: Buffer, pred: Any) -> None:
        if pred is None or pred:
            self._arrive(context, alloc, self.count)


class WaitBarrierOp(Op):
    """Wait until the phase of parity `phase` has ended, if `pred`. `deps`: memory that is in use by
    what the barrier stands for until then. `ownBlock`: as for an arrival."""

    name = "ttng.wait_barrier"
    reads_operand_types = True
    effects = (waits(BARRIER, Queue.MBARRIER, "alloc"),)
    syntax = "$alloc, $phase [, $pred] [deps $deps] attrs : type(alloc) [, type(deps)]"
    alloc = operand()
    phase = operand()
    pred = optional()
    deps = variadic()
    ownBlock = unit_attr()

    @classmethod
    def infer(
        cls, alloc: ir.Type, phase: ir.Type, pred: ir.Type | None, deps: Sequence[ir.Type], *,
        ownBlock: bool,
    ) -> None:  # fmt: skip
        check_barrier(cls.name, alloc)
        check_flag(cls.name, pred)
        if phase != ir.i32:
            raise OpError(f"{cls.name}: phase is {describe(phase)}; i32 is required")

    def evaluate(
        self, context: Context, alloc: Buffer, phase: Any, pred: Any, deps: tuple[Any, ...]
    ) -> None:
        if pred is not None and not pred:
            return
        barrier = state_of(context).barrier(alloc)
        parity = int(phase) & 1
        if not state_of(context).wait(lambda: barrier.phase != parity or barrier.settle()):
            raise EvaluationError(
                f"waiting for a barrier's phase {int(phase)} that nothing ends: {barrier.progress}"
            )
        if barrier.unseen and barrier.is_complete:
            raise EvaluationError(
                f"waiting for a barrier's phase {int(phase)}, after which the next one may have "
                f"ended as well: {barrier.progress}"
            )
        barrier.unseen = 0
        state_of(context).acquired(barrier, blocks_of_barrier(self.alloc.type))


def _check_block(name: str, block: Any, memory: MemDescType) -> None:
    shape = memory.get_shape()
    same = block.get_shape()[-len(shape) :] == shape
    if not same or block.element_type != memory.element_type:
        raise OpError(f"{name}: blocks {describe(block)} and memory {describe(memory)} differ")


def _check_patches(
    name: str, desc: ir.PatchesDescType, coord: Sequence[ir.Type], offsets: Sequence[ir.Type],
    shape: Sequence[ir.Type], memory: MemDescType,
) -> None:  # fmt: skip
    rank = desc.rank.data
    if [*coord] != [ir.i32] * rank or [*offsets] != [ir.i16] * (rank - 2):
        raise OpError(
            f"{name}: coordinates ({describe(*coord)}), offsets ({describe(*offsets)}); for "
            f"{rank} axes {rank} of i32 and {rank - 2} of i16 are required"
        )
    shared = any(pixels for pixels, _ in linear(memory.encoding, memory.get_shape()).bases(BLOCK))
    if shared and not ([*shape] == [ir.i32] * rank and desc.filters.data):
        raise OpError(
            f"{name}: shape ({describe(*shape)}) of {describe(desc)}; where each block of a "
            f"cluster has some of the pixels {rank} of i32, and in the type the corners and steps "
            "of filters, are required"
        )


def _place(desc: Tile, coordinates: tuple[Any, ...], data: np.ndarray) -> Any:
    block = (1,) * (len(coordinates) - data.ndim) + data.shape
    addresses, inside = desc.at(coordinates).addresses(
        block, data.dtype.itemsize, range(len(block))
    )
    return addresses.reshape(data.shape), inside.reshape(data.shape)


def _target(desc: Tile, coordinates: tuple[Any, ...], data: np.ndarray) -> Any:
    """The place of a block that the copy engine writes. It takes none that begins before its array
    (CUDA C++ Programming Guide, "Tensor memory access"): a GPU stops with an illegal instruction.
    """
    if any(int(c) < 0 for c in coordinates):
        raise EvaluationError(
            f"a block at {tuple(map(int, coordinates))} begins before its array; the copy engine "
            "writes blocks from 0 on, of which it leaves out what is past the array's end"
        )
    return _place(desc, coordinates, data)


class BulkLoad(Op):
    """Base of copies by the copy engine into shared memory. Their bytes count for a barrier."""

    barrier: Any
    reads_operand_types = True
    multicast = unit_attr()
    divided: Any = False

    @property
    def reaches_blocks(self) -> bool:
        return self.multicast or bool(blocks_of_barrier(self.barrier.type))

    def most_arrivals(self) -> float:
        """0, as its bytes count and not its arrival; no limit if other blocks are reached."""
        return inf if self.reaches_blocks else 0

    def expected_bytes(self) -> int:
        return -copied_bytes_of(self.result.type)

    def start(
        self, context: Context, barrier: Buffer, result: Buffer, padding: PaddingOption,
        places: Callable[[np.ndarray], tuple[Any, Any]],
    ) -> None:  # fmt: skip
        """Start the copy. `places` gives the addresses of what the memory is to hold, and which of
        them are inside of the tensor."""
        state = state_of(context)
        state.check_bulk(result)
        route = route_of_copies(self.result.type, state.blocks, self.multicast, self.divided)
        data = state.check_write(result, route=route)
        addresses, inside = places(data)
        values = context.memory.load(addresses, data.dtype, inside)
        if padding is PaddingOption.PAD_NAN:
            values = np.where(inside, values, np.asarray(np.nan, data.dtype))
        route = told(route, self.barrier.type)
        copy = result.copy(values, copied_bytes_of(self.result.type), barrier.data)
        state.barrier(barrier, route).copies.append(copy)


def bulk_source(context: Context, src: Buffer) -> np.ndarray:
    """Read shared memory for the copy engine; it must not change before a wait for the copy."""
    state = state_of(context)
    state.check_bulk(src)
    data = state.check_read(src, by_proxy=True)
    state.own.stores.append(src.data)
    return data


class AsyncTMACopyGlobalToLocalOp(CachedOp, BulkLoad):
    """Start copying the block at `coord` into the memory `result`, if `pred`. Its bytes count for
    the barrier, which says when they are there. With `multicast` what several blocks of a cluster
    have copies of is read once, by the first of them, and counts for the barriers of all; if it is
    `divided` each of them reads a share. Of a descriptor of patches the block has the pixels from
    `coord` on as far as filters reach, each `offsets` further along the spatial axes; `shape`, of
    the tensor, says where the pixels of each block of a cluster are, if it has some of them."""

    name = "ttng.async_tma_copy_global_to_local"
    capabilities = 90, 999
    reads_operand_types = True
    effects = (
        reads(GLOBAL, "desc"), writes(SHARED, "result", Queue.MBARRIER), arrives("barrier")
    )  # fmt: skip
    syntax = (
        "$desc ~ '[' $coord ']' [offsets = '[' $offsets ']'] [shape = '[' $shape ']'] "
        "$result, $barrier, $pred "
        "[cacheModifier = $cache] [evictionPolicy = $evict] attrs : "
        "type(desc), type(barrier) -> type(result)"
    )
    desc = operand()
    coord = variadic()
    barrier = operand()
    result = operand()  # pyright: ignore[reportIncompatibleMethodOverride]
    pred = operand()
    offsets = variadic()
    shape = variadic()
    isVolatile = bool_attr(False)
    divided = unit_attr()

    @classmethod
    def infer(
        cls, desc: ir.Type, coord: Sequence[ir.Type], barrier: ir.Type, target: ir.Type,
        pred: ir.Type, offsets: Sequence[ir.Type], shape: Sequence[ir.Type], **attrs: Any,
    ) -> None:  # fmt: skip
        check_barrier(cls.name, barrier)
        check_flag(cls.name, pred)
        memory = check_memory(cls.name, target, mutable=True)
        if isinstance(desc, ir.PatchesDescType):
            _check_patches(cls.name, desc, coord, offsets, shape, memory)
            _check_block(cls.name, signless(desc.block), memory)  # pyright: ignore
            return
        check_indices(cls.name, desc, coord)
        if offsets or shape:
            raise OpError(f"{cls.name}: offsets or shape of {describe(desc)}, which has no patches")
        _check_block(cls.name, block_of(cls.name, desc), memory)

    def evaluate(
        self, context: Context, desc: Tile | Patches, coord: tuple[Any, ...], barrier: Buffer,
        result: Buffer, pred: Any, offsets: tuple[Any, ...], shape: tuple[Any, ...],
    ) -> None:  # fmt: skip
        if pred:
            self.start(context, barrier, result, desc.padding, lambda data: (
                desc.addresses(coord, offsets, data.shape, data.dtype.itemsize)
                if isinstance(desc, Patches) else _place(desc, coord, data)
            ))  # fmt: skip


class AsyncTMACopyLocalToGlobalOp(HintedOp):
    """Start writing a block at `coord` from shared memory, which must keep it until a
    `async_tma_store_wait`."""

    name = "ttng.async_tma_copy_local_to_global"
    capabilities = 90, 999
    effects = (reads(SHARED, "src", Queue.BULK_STORE), writes(GLOBAL, "desc"))
    syntax = "$desc ~ '[' $coord ']' $src attrs : type(desc), type(src)"
    desc = operand()
    coord = variadic()
    src = operand()

    @classmethod
    def infer(cls, desc: ir.Type, coord: Sequence[ir.Type], src: ir.Type, *, hints: str) -> None:
        check_indices(cls.name, desc, coord)
        _check_block(cls.name, block_of(cls.name, desc), check_memory(cls.name, src))

    def evaluate(self, context: Context, desc: Tile, coord: tuple[Any, ...], src: Buffer) -> None:
        data = bulk_source(context, src)
        addresses, inside = _target(desc, coord, data)
        context.memory.store(addresses, data, inside)


class AsyncTMAReduceOp(Op):
    """Start combining a block at `coord`, element by element atomically, with shared memory, which
    must keep it until an `async_tma_store_wait`. It orders nothing else."""

    name = "ttng.async_tma_reduce"
    changes_memory = True
    sem = MemSemantic.RELAXED
    exact = "none"
    capabilities = 90, 999
    reads_operand_types = True
    effects = (
        reads(SHARED, "src", Queue.BULK_STORE), reads(GLOBAL, "desc"), writes(GLOBAL, "desc")
    )  # fmt: skip
    syntax = "$kind, $desc ~ '[' $coord ']' $src attrs : type(desc), type(src)"
    desc = operand()
    coord = variadic()
    src = operand()
    kind = enum_attr(DescriptorReduceKind)

    @classmethod
    def infer(cls, desc: ir.Type, coord: Sequence[ir.Type], src: ir.Type, *, kind: Any) -> None:
        check_indices(cls.name, desc, coord)
        _check_block(cls.name, block_of(cls.name, desc), check_memory(cls.name, src))

    def evaluate(self, context: Context, desc: Tile, coord: tuple[Any, ...], src: Buffer) -> None:
        data = bulk_source(context, src)
        addresses, inside = _target(desc, coord, data)
        signed = not is_unsigned(self.desc.type)
        context.memory.update(
            addresses, data.dtype, inside,
            lambda old, at: combine(self.kind.name, old, data.reshape(-1)[at], signed),
        )  # fmt: skip


class AsyncTMAStoreWaitOp(Op):
    """Wait until all but the `pendings` newest stores have read their shared memory; with
    `complete`, until what they wrote can be loaded."""

    name = "ttng.async_tma_store_wait"
    capabilities = 90, 999
    effects = (waits(SHARED, Queue.BULK_STORE),)
    syntax = "attrs"
    pendings = i32_attr()
    complete = unit_attr()

    @classmethod
    def infer(cls, *, pendings: int, complete: bool) -> tuple[ir.Type, ...]:
        check_left(cls.name, "pendings", pendings)
        return ()

    @property
    def left_in_flight(self) -> int:
        return self.pendings

    def evaluate(self, context: Context) -> None:
        stores = state_of(context).own.stores
        while len(stores) > self.pendings:
            stores.popleft()
