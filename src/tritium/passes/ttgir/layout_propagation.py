"""Encodings of tiles: what ops say of those of operands and results, and helpers to change them.

Three kinds of ops matter to layouts:

    a source    has no tile operand (constants, splat, make_range): any encoding will do
    a follower  computes each element from the same thread's operands: the encoding of its result
                tells those of its operands, and the other way round
    an anchor   everything else: it has reasons of its own for the encodings it has
"""

from __future__ import annotations

from functools import lru_cache
from itertools import takewhile
from math import prod
from typing import Any, NamedTuple, TypeGuard

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import (
    LEAST_ROWS,
    REGISTER,
    BlockedEncoding,
    Cluster,
    DotOperandEncoding,
    Encoding,
    NVMMASharedEncoding,
    SwizzledSharedEncoding,
    linear,
    part_of,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops.attributes import NUM_WARPS, TARGET, THREADS_PER_WARP
from tritium.ops.base import Op
from tritium.ops.ttgir.memory import without_axes
from tritium.ops.ttgir.types import bytes_of, memdesc_of
from tritium.ops.ttgir.warp_specialize import WarpSpecializeOp
from tritium.ops.ttir.descriptor import DescriptorAccess
from tritium.target import Processor, processor_named


def with_encoding(type: Attribute, encoding: Attribute | None) -> Attribute:
    """A tile's type with another encoding; other types as they are."""
    if type.__class__ is not ir.TensorType:
        return type
    return ir.tensor_of(ir.shape_of(type), ir.element_type(type), encoding)  # pyright: ignore


def retype(value: SSAValue, encoding: Attribute) -> None:
    """Change the encoding of a value's type in place, and in the attribute of a constant."""
    if ir.encoding_of(value.type) is encoding:
        return
    value._type = with_encoding(value.type, encoding)  # pyright: ignore
    owner: Any = value.owner
    held: Any = None if owner.__class__ is Block else owner.properties.get("value")
    if held.__class__ is DenseIntOrFPElementsAttr:
        tile: Any = value.type
        owner.properties["value"] = DenseIntOrFPElementsAttr(tile, held.data)


def is_tile(value: SSAValue) -> bool:
    """True if a value is a tile."""
    return value.type.__class__ is ir.TensorType


def is_source(op: Operation) -> bool:
    """True if the op makes a tile of nothing, or of scalars."""
    return isinstance(op, Op) and op.tile_source


def keeps_places(op: Operation) -> bool:
    """True if each element is, or is computed from, operands' elements at the same place alone."""
    return isinstance(op, Op) and op.keeps_places


def is_follower(op: Operation) -> TypeGuard[Op]:
    """True if the encodings of operands and result determine each other."""
    follows = isinstance(op, Op) and (op.follows_layout or op.is_elementwise)
    return follows and any(is_tile(r) for r in op.results)


def layouts_before(op: Op, encoding: Encoding) -> list[Encoding | None] | None:
    """The encodings of the operands of a result in this one; None where it cannot have it."""
    try:
        return op.operand_layouts(encoding)
    except OpError:
        return None


def weight(op: Operation) -> int:
    """Estimated cost of computing one more element, in simple instructions."""
    return op.cost if isinstance(op, Op) else 1


class Threads(NamedTuple):
    """The threads of a block: its warps, and the lanes of a warp; both are powers of two."""

    warps: int
    lanes: int

    @property
    def total(self) -> int:
        """The number of threads."""
        return self.warps * self.lanes


@lru_cache(maxsize=4096)
def blocked_for(
    shape: tuple[int, ...],
    per_thread: tuple[int, ...],
    order: tuple[int, ...],
    threads_of_block: Threads,
    cluster: Cluster = (),
    most_along: int | None = None,
) -> BlockedEncoding:
    """A blocked encoding that covers a tile of this shape: threads go along the fastest axis as far
    as it reaches, then on to the next; the slowest takes what is left. `cluster`: its
    `CGALayout`; `most_along`: how many threads go along the fastest axis at most."""
    shape, lanes_left = part_of(cluster, shape), threads_of_block.lanes
    warps_left, threads_left = threads_of_block.warps, threads_of_block.total
    threads, warps = [1] * len(shape), [1] * len(shape)
    for axis in order[:-1]:
        here = max(1, min(threads_left, shape[axis] // per_thread[axis]))
        if axis == order[0] and most_along is not None:
            here = min(here, most_along)
        threads[axis] = min(here, lanes_left)
        warps[axis] = max(1, min(here // threads[axis], warps_left))
        lanes_left //= threads[axis]
        warps_left //= warps[axis]
        threads_left //= here
    threads[order[-1]], warps[order[-1]] = lanes_left, warps_left
    return BlockedEncoding.make(
        sizePerThread=per_thread, threadsPerWarp=tuple(threads), warpsPerCTA=tuple(warps),
        order=order, CGALayout=cluster,
    )  # fmt: skip


def default_encoding(
    shape: tuple[int, ...], threads: Threads, cluster: Cluster = ()
) -> BlockedEncoding:
    """One element a thread, rows first."""
    rank = len(shape)
    return blocked_for(shape, (1,) * rank, tuple(reversed(range(rank))), threads, cluster)


def nvmma_encoding(
    shape: tuple[int, ...], bits: int, fastest: int, cluster: Cluster = (), rows: int = 0
) -> NVMMASharedEncoding:
    """The encoding of shared memory that TMA fills and wgmma reads, with the widest swizzle that
    rows along the axis `fastest` fill, if there are enough for it. `cluster`: its `CGALayout`;
    `rows`: how many tiles have, if blocks of them are of fewer."""
    part = part_of(cluster, shape)
    row = part[fastest] * bits // 8
    enough = max(prod(part) // part[fastest], rows) >= LEAST_ROWS
    width = next((w for w in (128, 64, 32) if row >= w and enough), 0)
    return NVMMASharedEncoding.make(
        swizzlingByteWidth=width, transposed=fastest == len(shape) - 2, elementBitWidth=bits,
        rank=len(shape), CGALayout=cluster,
    )  # fmt: skip


def block_encoding(kind: Any, cluster: Cluster = (), rows: int = 0) -> Any:
    """The encoding of shared memory for the blocks of a descriptor of this type: the one that it
    has, if it has been given one. `cluster`, `rows`: see `nvmma_encoding`."""
    if isinstance(kind.block.encoding, Encoding):
        return kind.block.encoding
    shape = tuple(kind.block.get_shape())
    if len(shape) == 1:
        return SwizzledSharedEncoding.make(
            vec=1, perPhase=1, maxPhase=1, order=(0,), CGALayout=cluster
        )
    bits = ir.bit_width(ir.element_type(kind.block))
    return nvmma_encoding(shape, bits, len(shape) - 1, cluster, rows)


def memory_encoding(access: DescriptorAccess) -> Any:
    """The encoding of shared memory for the tile of an access through a descriptor: that of the
    descriptor's blocks, for the axes that the tile has."""
    encoding = block_encoding(access.desc.type)
    missing = len(access.desc.type.block.get_shape()) - len(ir.shape_of(access.tile))
    return without_axes(encoding, missing) if missing > 0 else encoding


BULK_ALIGNMENT = 128
"""Bytes that the place in shared memory of a bulk copy is a multiple of."""


def fills_buffers(access: DescriptorAccess) -> bool:
    """True if each of several buffers, one after the other, for the tile of an access begins where
    the engine may copy to, and where the pattern of a swizzle begins."""
    encoding = memory_encoding(access)
    tile = access.tile
    memory = memdesc_of(ir.shape_of(tile), ir.element_type(tile), encoding)
    return bytes_of(memory) % max(BULK_ALIGNMENT, encoding.base_alignment) == 0


def order_of(encoding: Attribute | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of a tile, that along which a thread has neighbours first."""
    if isinstance(encoding, BlockedEncoding):
        return encoding.get("order")
    if isinstance(encoding, DotOperandEncoding):
        return tuple(reversed(range(len(shape))))
    rank = len(shape)
    bases = linear(encoding, shape).bases(REGISTER)
    neighbours = [any(b[a] == 1 and sum(b) == 1 for b in bases) for a in range(rank)]
    return tuple(sorted(range(rank), key=lambda a: (not neighbours[a], -a)))


def first_run(layout: LinearLayout, axis: int) -> int:
    """The number of register bits, from the lowest on, that go 1, 2, 4, ... further along an axis
    and along no other."""
    steps = enumerate(layout.bases(REGISTER))
    leading = takewhile(lambda step: step[1][axis] == sum(step[1]) == 1 << step[0], steps)
    return sum(1 for _ in leading)


def num_warps_of(module: Operation) -> int:
    """The warps of a program, from the module's attributes. Raises `ValueError` without them."""
    return _number_of(module, NUM_WARPS)


def threads_of(module: Operation) -> Threads:
    """The threads of a block, from the module's attributes. Raises `ValueError` without them."""
    return Threads(num_warps_of(module), _number_of(module, THREADS_PER_WARP))


def threads_at(op: Operation) -> Threads:
    """The threads that run an op: of the partition that it is in, or of the block."""
    warps: int | None = None
    while (outer := op.parent_op()) is not None:
        if isinstance(outer, WarpSpecializeOp) and warps is None:
            index = [*outer.partitions, outer.default].index(op.parent_region())  # pyright: ignore
            warps = [*outer.partitionNumWarps, None][index]
        op = outer
    threads = threads_of(op)
    return threads if warps is None else threads._replace(warps=warps)


def _number_of(module: Operation, name: str) -> int:
    found: Any = module.attributes.get(name)
    if found is None:
        raise ValueError(f'the module has no attribute "{name}"; run convert-ttir-to-ttgir')
    return found.value.data


def processor_of(module: Operation) -> Processor:
    """The processor that the module's attribute `ttg.target` names. Raises `ValueError`."""
    found: Any = module.attributes.get(TARGET)
    if found is None:
        raise ValueError(f'the module has no attribute "{TARGET}"; run convert-ttir-to-ttgir')
    return processor_named(found.data)
