"""Distribute tiles of pointers so that threads access memory together, in wide pieces.

before (%p known to be 16 contiguous bytes aligned to 16):
    %x = tt.load %p : tensor<1024x!tt.ptr<f32>, #blocked>       sizePerThread = [1]
after:
    %0 = ttg.convert_layout %p : ... -> tensor<1024x!tt.ptr<f32>, #blocked1>     = [4]
    %1 = tt.load %0 : tensor<1024x!tt.ptr<f32>, #blocked1>
    %x = ttg.convert_layout %1 : ... -> tensor<1024xf32, #blocked>

The fastest axis is that along which addresses run on longest; a thread takes as many neighbours as
16 bytes hold, as far as contiguity and alignment of addresses and mask allow, and as there is work
for all threads. Tiles of one shape whose addresses run along the same axis share the widest choice;
on processors with `even_accesses` loads and stores of different elements, the one computed from the
other, take as many as the widest elements allow, so that nothing moves between threads.
Blocks of descriptors, which go through shared memory, are taken row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.loops import counted_loops
from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import (
    OFFSET,
    BlockedEncoding,
    Cluster,
    Encoding,
    LinearEncoding,
    linear,
    part_of,
)
from tritium.ops import ttir
from tritium.ops.base import Op, changes_layout, permutes
from tritium.ops.elementwise import CastOp
from tritium.ops.ttir.dot import MatrixProduct, TileProduct
from tritium.passes.base import Pass
from tritium.passes.ttgir.clusters import num_ctas_of, product_accesses, split_rows
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert_operand, convert_result
from tritium.passes.ttgir.encode_descriptors import encode_descriptors
from tritium.passes.ttgir.layout_propagation import (
    Threads,
    blocked_for,
    is_tile,
    keeps_places,
    processor_of,
    threads_of,
)
from tritium.passes.ttgir.pipeline import swizzled_encoding
from tritium.target import Processor

MANY_ROWS = 32
"""Rows whose addresses, of 64 bits, take a quarter of a thread's registers."""
WORD_BYTES, RUN_BYTES = 4, 8
"""The least bytes of a run of an operand along the axis of the sum, and those of longer ones: a
thread can write them at once to shared memory in which the run is together, as products read it."""
ACCESSES = (ttir.ElementAccess, ttir.AtomicOp)


@dataclass(frozen=True)
class Coalesce(Pass):
    """Choose how loads, stores and atomics are distributed over threads. `transpose`: a thread
    loads of operands of products, which run along another axis than that of the sum, runs along
    both, and transposes them. `direct`: operands in loops, which run along the axis of the sum, are
    distributed for copies by lanes (`Processor.lane_copy_bytes`)."""

    name: ClassVar[str] = "coalesce"
    title: ClassVar[str] = "TritonGPUCoalesce"
    transpose: bool = False
    direct: bool = False

    def run(self, module: ModuleOp) -> bool:
        changed, num_ctas, processor = False, num_ctas_of(module), processor_of(module)
        operands: dict[int, Cluster] = {}
        if num_ctas > 1:
            for function in functions(module):
                operands |= product_accesses(function, num_ctas, processor)
        encode_descriptors(module, num_ctas, operands)
        for function in functions(module):
            analysis = AxisAnalysis(function, assume_no_wrap=True)
            accesses = list(_accesses(function))
            wishes = {id(op): _wish(op, analysis, processor) for op in accesses}
            products = _summed(function) if self.transpose or self.direct else {}
            loops = counted_loops(function)
            for key, (axis, product) in products.items() if self.transpose else ():
                run = _run(wishes[key], product, processor, threads_of(module))
                wishes[key] = replace(wishes[key], summed=axis, run=run)
            widest: dict[tuple[Any, ...], int] = {}
            for wish in wishes.values():
                widest[wish.key] = max(widest.get(wish.key, 1), wish.width)
            even = _even_widths(accesses, wishes) if processor.even_accesses else {}
            for op in accesses:
                wish = wishes[id(op)]
                loads = not isinstance(op, ttir.AtomicOp) and op.is_load
                width = widest[wish.key] if loads else wish.width
                width = min(width, even.get(id(op), width))
                cluster = operands.get(id(op)) or split_rows(wish.shape, num_ctas)
                if isinstance(op, ttir.BlockAccess) and num_ctas > 1:
                    cluster = op.desc.type.block.encoding.get("CGALayout")
                encoding = _encoding(wish, width, processor, threads_of(module), cluster)
                in_loop = op.parent_op() in loops
                if self.direct and id(op) in products and in_loop and _is_operand(op.results[0]):
                    axis, product = products[id(op)]
                    direct = _for_lanes(wish, axis, product, processor, threads_of(module))
                    encoding = direct or encoding
                changed |= _apply(op, encoding)
        return changed


@dataclass(frozen=True)
class _Wish:
    """The wishes of one access: the axes' order, and how many elements of `size` bytes at
    once, of `most` that an instruction takes; `least` even where threads are left without work
    then. So many as `together` are neighbours in memory. `summed`: the axis along which a product
    sums, and of which a thread takes `run` elements, too."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    most: int
    width: int
    size: int
    least: int = 1
    together: int = 1
    summed: int | None = None
    run: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """Accesses with the same key should use the same encoding."""
        return self.shape, self.order


def _accesses(function: Operation) -> Iterator[Any]:
    for op in function.walk():
        at_tile = isinstance(op, ACCESSES) and is_tile(op.operands[0])
        if at_tile or isinstance(op, ttir.BlockAccess):
            yield op


def _even_widths(accesses: Sequence[Operation], wishes: dict[int, _Wish]) -> dict[int, int]:
    """For accesses (by id) that a store and the loads of what it stores are, the elements that all
    of them can take at once; none where that would be less than a word of one of them."""
    found = dict[int, int]()
    for store in accesses:
        if isinstance(store, ttir.ElementAccess) and not store.is_load:
            together = [store, *_loaded(store, wishes)]
            mine = [wishes[id(op)] for op in together]
            width = min(wish.most for wish in mine)
            if all(width * wish.size >= WORD_BYTES for wish in mine):
                for op in together:
                    found[id(op)] = min(found.get(id(op), width), width)
    return found


def _loaded(store: ttir.ElementAccess, wishes: dict[int, _Wish]) -> list[Operation]:
    """The loads, distributed alike, of what a store writes element by element."""
    found, seen = list[Operation](), set[int]()
    pending = [v for v in store.operands if is_tile(v) and v is not store.ptr]
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation) or id(owner) in seen:
            continue
        seen.add(id(owner))
        if isinstance(owner, ttir.ElementAccess):
            if owner.is_load and wishes[id(owner)].key == wishes[id(store)].key:
                found.append(owner)
        elif keeps_places(owner):
            pending += [v for v in owner.operands if is_tile(v)]
    return found


def _summed(function: Operation) -> dict[int, tuple[int, TileProduct]]:
    """For loads (by id) of operands of products, the axis that is summed over, and the product."""
    found = dict[int, tuple[int, TileProduct]]()
    for op in function.walk():
        if not isinstance(op, TileProduct):
            continue
        rank = len(ir.shape_of(op.results[0].type))
        pending: list[tuple[SSAValue, int]] = [(op.a, rank - 1), (op.b, rank - 2)]
        while pending:
            value, axis = pending.pop()
            owner = value.owner
            if isinstance(owner, ttir.ElementAccess):
                found[id(owner)] = axis, op
            elif permutes(owner):
                assert owner.permuted_axes is not None
                pending.append((owner.operands[0], owner.permuted_axes[axis]))
            elif changes_layout(owner) or isinstance(owner, CastOp):
                pending.append((owner.operands[0], axis))
            elif isinstance(owner, Op) and owner.is_elementwise:
                pending += [(value, axis) for value, _ in owner.forwarded_values()]
    return found


def _is_operand(loaded: SSAValue) -> bool:
    """True if only products use what is loaded. The layouts of swizzled memory go along two axes
    with one bit of a lane, as reductions do not take them."""
    pending = [loaded]
    while pending:
        for user in [use.operation for use in pending.pop().uses]:
            if permutes(user) or changes_layout(user) or isinstance(user, CastOp):
                pending += user.results
            elif not isinstance(user, TileProduct):
                return False
    return True


def _tile(op: Any) -> ir.Type:
    """The type of what is accessed: a tile of pointers, or a descriptor's block."""
    return op.tile if isinstance(op, ttir.BlockAccess) else op.ptr.type


def atomic_width(op: Any, processor: Processor) -> int:
    """The most neighbours that one instruction for the atomic operation takes."""
    if getattr(op, "atomic_rmw_op", None) is not ttir.AtomicKind.FADD:
        return 1
    return processor.sum_width(str(ir.element_type(op.val.type)))


def _wish(op: Any, analysis: AxisAnalysis, processor: Processor) -> _Wish:
    pointers, widest = _tile(op), processor.access_bytes
    if isinstance(op, ttir.BlockAccess):
        shape, most = ir.shape_of(pointers), 8 * widest // ir.bit_width(pointers)
        size = ir.memory_bytes(pointers)
        return _Wish(shape, tuple(reversed(range(len(shape)))), most, most, size)
    info = analysis.of(op.ptr)
    shape = ir.shape_of(pointers)
    axes = reversed(range(len(shape)))
    order = tuple(sorted(axes, key=lambda a: -info.contiguity[a]))
    size = ir.pointee_bytes(pointers)
    fastest = order[0]
    width = min(
        info.contiguity[fastest], max(info.divisibility[fastest] // size, 1), widest // size,
        shape[fastest],
    )  # fmt: skip
    mask = getattr(op, "mask", None)
    if mask is not None:
        width = min(width, analysis.of(mask).constancy[fastest])
    least = 1
    if isinstance(op, ttir.AtomicOp):
        width = min(width, atomic_width(op, processor))
        least = min(width, max(4 // size, 1))  # words: halves of them are exchanged in a loop
    together = info.contiguity[fastest]
    return _Wish(shape, order, widest // size, max(width, 1), size, least, together)


def access_encoding(
    op: object, analysis: AxisAnalysis, processor: Processor, threads: Threads, cluster: Cluster
) -> BlockedEncoding:
    """The encoding that an access alone would like."""
    wish = _wish(op, analysis, processor)
    return _encoding(wish, wish.width, processor, threads, cluster)


def _encoding(
    wish: _Wish, width: int, processor: Processor, threads: Threads, cluster: Cluster
) -> BlockedEncoding:
    part = part_of(cluster, wish.shape)
    share = max(prod(part) // threads.total, wish.least)
    per_thread = [1] * len(wish.shape)
    width = per_thread[wish.order[0]] = min(width, share, wish.most, part[wish.order[0]])
    if wish.summed not in (None, wish.order[0]):
        word = max(WORD_BYTES // wish.size, 1)
        width = per_thread[wish.order[0]] = min(width, max(share // word, word))
        per_thread[wish.summed] = max(min(share // width, wish.run, part[wish.summed]), 1)
    along = _sector_threads(part, wish, width, processor, threads)
    return blocked_for(wish.shape, tuple(per_thread), wish.order, threads, cluster, along)


def _sector_threads(
    part: tuple[int, ...], wish: _Wish, width: int, processor: Processor, threads: Threads
) -> int | None:
    """The most threads along a row, None for as many as fit: where a warp would read less than a
    line of each of many rows, it reads a sector of several at once. Memory delivers as
    much, and a thread has the addresses of fewer rows in its registers."""
    row, piece = part[wish.order[0]], width * wish.size
    rows = prod(part) // row // (threads.total // min(row // width, threads.total))
    sector = processor.sector_bytes
    narrow = piece < sector and threads.lanes * piece < processor.line_bytes
    if not narrow or wish.together * wish.size < sector or rows < MANY_ROWS:
        return None
    return sector // piece


def _run(wish: _Wish, product: TileProduct, processor: Processor, threads: Threads) -> int:
    """The elements along the axis of the sum that a thread should have: as many as a matrix unit
    takes. With shorter runs, what is read at once would be parts of several instructions' operands,
    all of which a thread would hold together."""
    shape = ir.shape_of(product.results[0].type)
    units = [u for u in processor.matrix_units if u.takes(product, threads.warps, shape)]
    taken = units[0].neighbours(product) if units else 1
    return max(RUN_BYTES // wish.size, min(taken, processor.access_bytes // wish.size))


def _for_lanes(
    wish: _Wish, axis: int, product: TileProduct, processor: Processor, threads: Threads
) -> LinearEncoding | None:
    """The encoding in which the lanes of each warp have what is together in swizzled memory; None
    for operands that do not run along `axis`, and products that matrix units do not take."""
    widths = [n for n in processor.lane_copy_bytes if n <= wish.width * wish.size]
    if not widths or wish.order[0] != axis or len(wish.shape) != 2:
        return None
    shape = ir.shape_of(product.results[0].type)
    units = [u for u in processor.matrix_units if u.takes(product, threads.warps, shape)]
    if not units or not isinstance(product, MatrixProduct):
        return None
    access = max(widths[-1], units[0].neighbours(product) * wish.size)
    memory = swizzled_encoding(wish.shape, wish.order, wish.size, access, processor)
    bases = linear(memory, wish.shape).bases(OFFSET)
    first = (widths[-1] // wish.size).bit_length() - 1
    lanes = first + threads.lanes.bit_length() - 1
    warps = lanes + threads.warps.bit_length() - 1
    if len(bases) < warps:
        return None
    return LinearEncoding.make(
        register=[*bases[:first], *bases[warps:]], lane=bases[first:lanes],
        warp=bases[lanes:warps], block=(),
    )  # fmt: skip


def _apply(op: Op, encoding: Encoding) -> bool:
    if ir.encoding_of(_tile(op)) == encoding:
        return False
    for index, value in enumerate(op.operands):
        if is_tile(value):
            convert_operand(op, index, encoding)
    for result in op.results:
        convert_result(result, encoding)
    return True
