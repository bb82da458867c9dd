"""The types of the `ttg` dialect, and what `infer` methods ask of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import (
    BLOCK,
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    NVMMASharedEncoding,
    PermutedSharedEncoding,
    SharedEncoding,
    SharedMemorySpace,
    linear,
    part_of,
)
from tritium.ir.layouts.tensor_memory import COLUMN, TensorEncoding
from tritium.ops.elementwise import describe


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>`: a piece of on-chip memory.

    Axes in front of those that the encoding has are buffers, one after the other.

    Attributes:
        element_type, encoding, memory_space.
        is_mutable: whether it may be written after its allocation.
        allocation: the shape of the tile that this is a slice of, if it is one; else the shape.
    """

    name = "ttg.memdesc"
    dimensions: ArrayAttr[IntAttr] = param_def()
    element_type: Attribute = param_def()
    encoding: Attribute = param_def()
    memory_space: Attribute = param_def()
    is_mutable: BoolAttr = param_def()
    allocation: ArrayAttr[IntAttr] = param_def()

    def get_shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(d.data for d in self.dimensions.data)

    def allocation_shape(self) -> tuple[int, ...]:
        """The shape whose layout tells where elements are."""
        return tuple(d.data for d in self.allocation.data)

    @property
    def mutable(self) -> bool:
        """True if it may be written after its allocation."""
        return bool(self.is_mutable.value.data)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.get_shape()))
            printer.print_attribute(self.element_type)
            for parameter in (self.encoding, self.memory_space):
                printer.print_string(", ")
                printer.print_attribute(parameter)
            if self.mutable:
                printer.print_string(", mutable")
            if self.allocation != self.dimensions:
                printer.print_string(", " + "x".join(map(str, self.allocation_shape())))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            parser.parse_punctuation(",")
            encoding = parser.parse_attribute()
            parser.parse_punctuation(",")
            space = parser.parse_attribute()
            mutable, allocation = False, list(shape)
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("mutable") is not None:
                    mutable = True
                else:
                    allocation = parser.parse_dimension_list()
        return [
            _sizes(tuple(shape)), element, encoding, space, BoolAttr.from_bool(mutable),
            _sizes(tuple(allocation)),
        ]  # fmt: skip


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """`!ttg.async.token`: orders what reads shared memory after the copy that fills it."""

    name = "ttg.async.token"


def _sizes(shape: tuple[int, ...]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(size) for size in shape])


@lru_cache(maxsize=4096)
def memdesc_of(
    shape: tuple[int, ...],
    element: ir.Type,
    encoding: Attribute,
    mutable: bool = True,
    allocation: tuple[int, ...] | None = None,
    space: Attribute | None = None,
) -> MemDescType:
    """The type of a piece of memory; shared memory unless `space` says otherwise."""
    return MemDescType(
        _sizes(shape), element, encoding, space or SharedMemorySpace(),
        BoolAttr.from_bool(mutable), _sizes(shape if allocation is None else allocation),
    )  # fmt: skip


TOKEN = AsyncTokenType()


def check_left(name: str, attribute: str, count: int) -> None:
    """A wait leaves a number of the newest operations of a queue in flight."""
    if count < 0:
        raise OpError(f"{name}: {attribute} is {count}; 0 or more is required")


def check_memory(name: str, type: Any, *, mutable: bool = False) -> MemDescType:
    """The operand must be memory; with `mutable`, memory that may be written."""
    if not isinstance(type, MemDescType):
        raise OpError(f"{name}: operand has type {describe(type)}; a memdesc is required")
    if mutable and not type.mutable:
        raise OpError(f"{name}: {describe(type)} is written; a mutable memdesc is required")
    return type


def check_new_memory(name: str, type: Any) -> MemDescType:
    """The type of new memory, or of a new view: its layout must be one of its shape."""
    memory = check_memory(name, type)
    encoding = memory.encoding
    if isinstance(encoding, (SharedEncoding, TensorEncoding)):
        try:
            encoding.check_memory(memory.allocation_shape(), ir.bit_width(memory.element_type))
        except ValueError as error:
            raise OpError(f"{name}: {describe(memory)}: {error}") from error
    return memory


def check_matrix(name: str, type: Any) -> MemDescType:
    """The operand must be memory as tensor cores read it: rows of 16 bytes, or swizzled ones."""
    memory = check_memory(name, type)
    encoding = memory.encoding
    if not isinstance(encoding, NVMMASharedEncoding):
        raise OpError(f"{name}: {describe(type)}; #ttg.nvmma_shared is required")
    if encoding.get("swizzlingByteWidth"):
        return memory
    part = part_of(encoding.get("CGALayout"), memory.allocation_shape()[-len(memory.get_shape()) :])
    row = part[-2 if encoding.get("transposed") else -1] * ir.bit_width(memory.element_type) // 8
    if row != MATRIX_ROW:
        raise OpError(
            f"{name}: {describe(type)} has rows of {row} bytes that are not swizzled; tensor cores "
            f"read rows of {MATRIX_ROW} bytes, or a swizzlingByteWidth of 32, 64 or 128"
        )
    return memory


def check_run(name: str, memory: MemDescType) -> None:
    """The memory must be one run: what is seen otherwise has no elements of others between its
    own, as a slice may have."""
    encoding: Any = memory.encoding
    shape = memory.get_shape()
    whole = memory.allocation_shape()[-len(shape) :]
    if shape == whole or not isinstance(encoding, SharedEncoding | TensorEncoding):
        return
    buffers = len(shape) - (encoding.rank if isinstance(encoding, SharedEncoding) else 2)
    inner = shape[buffers:]
    if inner == whole[buffers:]:
        is_run = shape[1:buffers] == whole[1:buffers]
    elif isinstance(encoding, TensorEncoding):
        columns = linear(encoding, whole[buffers:]).bases(COLUMN)
        own = [all(x < n for x, n in zip(basis, inner, strict=True)) for basis in columns]
        is_run = prod(shape[:buffers]) == 1 and all(own[: sum(own)])
    else:
        places = linear(encoding, whole[buffers:]).inverse()
        offsets = [places.apply({f"dim{axis}": 1 << bit})[OFFSET] for axis, size in enumerate(inner)
                   for bit in range(size.bit_length() - 1)]  # fmt: skip
        is_run = prod(shape[:buffers]) == 1 and all(n < prod(inner) for n in offsets)
    if not is_run:
        raise OpError(
            f"{name}: {describe(memory)} is a slice with other elements between its own; a slice "
            "that is one run of memory is required"
        )


MATRIX_ROW = 16
"""Bytes of a row of the matrices that tensor cores read without a swizzle."""


def check_barrier(name: str, type: ir.Type) -> None:
    """Barriers are one i64 in mutable memory, or one for each block of a cluster."""
    memory = check_memory(name, type, mutable=True)
    one = len(memory.get_shape()) == 1 and bytes_of(memory) == 8
    if not one or memory.element_type != ir.i64:
        raise OpError(f"{name}: barrier is {describe(type)}; a memdesc of 1xi64 is required")


def blocks_of_barrier(type: Any) -> int:
    """The bits of a block's number in its cluster that do not tell which barrier is its own: blocks
    that differ in them share one, which is the first's."""
    encoding: Any = type.encoding
    cluster = encoding.get("CGALayout") if isinstance(encoding, PermutedSharedEncoding) else ()
    return sum(1 << bit for bit, basis in enumerate(cluster) if not any(basis))


def copies_of(memory: Any) -> int:
    """The bits of a block's number that do not tell what the block has of a piece of memory."""
    bases = blocks_of_memory(memory)
    return sum(1 << bit for bit, basis in enumerate(bases) if not any(basis))


def blocks_of_memory(memory: Any) -> list[list[int]]:
    """The coordinates that each bit of a block's number adds to those at which its part begins."""
    shape = memory.allocation_shape()
    rank = memory.encoding.rank if isinstance(memory.encoding, SharedEncoding) else 2
    layout = linear(memory.encoding, shape[-rank:])
    return [list(basis) for basis in layout.bases(BLOCK)] if BLOCK in layout.in_names else []


def route_of_arrivals(
    barrier: Any, blocks: int, from_block: int = -1, everyone: int = 0
) -> list[tuple[int, int]]:
    """Pairs of blocks of a cluster: one that arrives at the barrier of the other. The barrier of
    block t gets the arrival of block `t & from_block`, and of all that differ from it in the bits
    `everyone` alone; where blocks share one, that of each."""
    shared = blocks_of_barrier(barrier)
    return [(source, t & ~shared) for t in range(blocks)
            for source in _alike(t & from_block, blocks, everyone)]  # fmt: skip


def _alike(block: int, blocks: int, bits: int) -> list[int]:
    """The blocks of a cluster that differ from one in some bits alone."""
    return [other for other in range(blocks) if not (other ^ block) & ~bits]


def route_of_copies(
    memory: Any, blocks: int, multicast: bool, divided: bool = False
) -> list[tuple[int, int]]:
    """Pairs of blocks of a cluster: one that copies into the memory of the other. With `multicast`
    it is the first of those that have copies of the same, if it is also `divided` each of them."""
    copies = copies_of(memory) if multicast and blocks > 1 else 0
    return [(source, t) for t in range(blocks)
            for source in _alike(t & ~copies, blocks, copies * divided)]  # fmt: skip


def blocks_of_tile(tile: ir.Type) -> list[list[int]]:
    """The coordinates that each bit of a block's number adds to those of its part of a tile."""
    layout = linear(ir.encoding_of(tile), ir.shape_of(tile))
    return [list(basis) for basis in layout.bases(BLOCK)] if BLOCK in layout.in_names else []


def leaves_block(
    tile: ir.Type, memory: MemDescType, *, writes: bool, axis: int | None = None
) -> bool:
    """True if threads access elements of a tile that another block's memory has; with `writes` also
    if a block gets elements of its copy from others. `axis`: any element along it."""
    places = linear(ir.encoding_of(tile), ir.shape_of(tile))
    parts, kept = blocks_of_tile(tile), blocks_of_memory(memory)
    if not any(map(any, (*parts, *kept))):
        return False
    if axis is not None and any(basis[axis] for basis in kept):
        return True
    inside, owners = _owners(tile, memory, axis)
    if any(inside):
        return True
    rank = len(places.out_dims)
    for bit, (part, own) in enumerate(zip_longest(parts, kept, fillvalue=[0] * rank)):
        found = owners[bit] if bit < len(owners) else 0
        if found != (1 << bit if any(own) else 0) or (writes and any(part) and not any(own)):
            return True
    return False


def _owners(
    tile: ir.Type, memory: MemDescType, axis: int | None = None
) -> tuple[list[int], list[int]]:
    """The blocks whose memory has the elements of a tile, of those with copies the first: what each
    register, lane and warp bit of the tile's layout adds to the number of the first element's, and
    each bit of a block's number. `axis`: places along it do not count."""
    places = linear(ir.encoding_of(tile), ir.shape_of(tile))
    inverse = linear(memory.encoding, memory.allocation_shape()[-len(places.out_dims) :]).inverse()

    def owner(basis: Sequence[int]) -> int:
        place = {f"dim{i}": 0 if i == axis else x for i, x in enumerate(basis)}
        return int(inverse.apply(place).get(BLOCK, 0))

    inside = [owner(basis) for name in (REGISTER, LANE, WARP) for basis in places.bases(name)]
    return inside, [owner(basis) for basis in blocks_of_tile(tile)]


def check_own_block(name: str, tile: ir.Type, memory: MemDescType, *, writes: bool) -> None:
    """Raise `OpError` for a copy by threads between a tile and other blocks' memory."""
    if leaves_block(tile, memory, writes=writes):
        raise OpError(
            f"{name}: {describe(tile)} and {describe(memory)}; threads copy to and from their own "
            "block's memory, so that both layouts must give each block of the cluster the same"
        )


def route_of_stores(tile: ir.Type, memory: MemDescType, blocks: int) -> list[tuple[int, int]]:
    """Pairs of blocks: one that has elements of a tile for the memory of the other. Of blocks with
    copies of elements the first has them; all blocks with copies of memory get them."""
    if blocks == 1:
        return [(0, 0)]
    places = linear(ir.encoding_of(tile), ir.shape_of(tile))
    free, copies = places.free_variables().get(BLOCK, 0), copies_of(memory)
    found = {pair for pair in _reached(tile, memory, blocks) if not pair[0] & free}
    return [(source, target) for target in range(blocks) for source in range(blocks)
            if (source, target & ~copies) in found]  # fmt: skip


def route_of_loads(tile: ir.Type, memory: MemDescType, blocks: int) -> list[tuple[int, int]]:
    """Pairs of blocks: one that needs elements of a tile, and the one whose memory it reads; of
    those with copies the one with its own bits in what tells them apart."""
    copies = copies_of(memory)
    return sorted({(r, owner | r & copies) for r, owner in _reached(tile, memory, blocks)})


def _reached(tile: ir.Type, memory: MemDescType, blocks: int) -> set[tuple[int, int]]:
    """Pairs of blocks: one that has elements of a tile, and the one whose memory has them, of those
    with copies the first."""
    inside, owners = _owners(tile, memory)
    spread = {0}
    for step in inside:
        spread |= {block ^ step for block in spread}
    firsts = [0]
    for owner in owners:
        firsts += [first ^ owner for first in firsts]
    parts = (firsts[block & len(firsts) - 1] for block in range(blocks))
    return {(block, first ^ other) for block, first in enumerate(parts) for other in spread}


def told(route: Sequence[tuple[int, int]], barrier: Any) -> list[tuple[int, int]]:
    """Pairs of blocks: one whose copies, by a route, count for the barrier of the other."""
    shared = blocks_of_barrier(barrier)
    return [(source, target & ~shared) for source, target in route]


def check_same_tile(name: str, tile: ir.Type, memory: MemDescType) -> None:
    """A tile and the memory that it is copied from or to must have one shape and element type."""
    same = ir.shape_of(tile) == memory.get_shape()
    if not same or ir.element_type(tile) != memory.element_type:
        raise OpError(f"{name}: tile {describe(tile)} and memory {describe(memory)} do not match")
    encoding = memory.encoding
    if isinstance(encoding, SharedEncoding) and encoding.rank < len(ir.shape_of(tile)):
        raise OpError(f"{name}: {describe(memory)} has buffers in front of the axes of its layout; "
                      "one of them is required (`index`)")  # fmt: skip


def copied_bytes_of(type: Any) -> int:
    """The bytes that a bulk copy to the memory counts: those of its elements, without gaps."""
    padded = isinstance(type.encoding, NVMMASharedEncoding)
    return bytes_of(type) // (type.encoding.dilution if padded else 1)


def bytes_of(type: Any) -> int:
    """The size of the memory that a descriptor stands for, in bytes; where the blocks of a cluster
    share a tile, of one block's."""
    shape, encoding = type.get_shape(), type.encoding
    shared = isinstance(encoding, SharedEncoding)
    count = encoding.elements_of_block(shape) if shared else prod(shape)
    return count * ir.memory_bytes(type.element_type)
