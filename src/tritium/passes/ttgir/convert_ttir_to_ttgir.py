"""Give every tile an encoding: the default one of its shape.

before:
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %e = tt.expand_dims %r {axis = 1 : i32} : tensor<128xi32> -> tensor<128x1xi32>
after:
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %0 = ttg.convert_layout %r : ... -> tensor<128xi32, #ttg.slice<{dim = 1, parent = #blocked1}>>
    %e = tt.expand_dims %0 {axis = 1 : i32} : ... -> tensor<128x1xi32, #blocked1>

Where an op needs or gives another encoding than the default, conversions are put around it. The
module gets the attributes that say how many threads run it, and for what.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BlockedEncoding, Cluster, DotOperandEncoding, part_of
from tritium.ops.attributes import NUM_CTAS, NUM_WARPS, TARGET, THREADS_PER_WARP
from tritium.ops.base import Op
from tritium.ops.ttgir import ConvertLayoutOp
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, insert_after
from tritium.passes.ttgir.clusters import copies, split_product, split_rows
from tritium.passes.ttgir.layout_propagation import (
    Threads,
    blocked_for,
    default_encoding,
    is_tile,
    retype,
    with_encoding,
)
from tritium.target import processor_named


@dataclass(frozen=True)
class ConvertTTIRToTTGIR(Pass):
    """Give every tile the default encoding of its shape.

    `num_warps`: how many warps run a block of a program; `num_ctas`: how many blocks do;
    `target`: the processor, `cuda:90`; `lanes`: the threads of a warp, 0 for the processor's.
    """

    name: ClassVar[str] = "convert-ttir-to-ttgir"
    title: ClassVar[str] = "ConvertTritonToTritonGPU"
    num_warps: int = 4
    num_ctas: int = 1
    target: str = ""
    lanes: int = 0

    def run(self, module: ModuleOp) -> bool:
        if self.num_warps < 1 or self.num_warps & (self.num_warps - 1):
            raise ValueError(f"num_warps is {self.num_warps}; a power of two is required")
        module.attributes.update(
            {
                NUM_CTAS: IntegerAttr(self.num_ctas, i32),
                NUM_WARPS: IntegerAttr(self.num_warps, i32),
                TARGET: StringAttr(self.target),
                THREADS_PER_WARP: IntegerAttr(self._threads.lanes, i32),
            }
        )
        for function in functions(module):
            ops = [op for op in function.walk() if op is not function]
            for block in [b for op in function.walk() for r in op.regions for b in r.blocks]:
                for argument in block.args:
                    self._default(argument)
            for op in ops:
                for result in op.results:
                    self._default(result)
            for op in ops:
                self._fix(op)
            function.update_type()
        return True

    @cached_property
    def _threads(self) -> Threads:
        return Threads(self.num_warps, self.lanes or processor_named(self.target).lanes)

    def _encoding(self, shape: tuple[int, ...]) -> BlockedEncoding:
        return default_encoding(shape, self._threads, split_rows(shape, self.num_ctas))

    def _default(self, value: SSAValue) -> None:
        if is_tile(value):
            retype(value, self._encoding(ir.shape_of(value.type)))

    def _fix(self, op: Operation) -> None:
        """Put conversions around an op whose encodings must belong together."""
        if not any(is_tile(v) for v in op.operands):
            return
        if isinstance(op, Op) and (op.whole_operands or op.placed_by):
            self._fix_by_traits(op)
        elif isinstance(op, Op) and op.layouts_from == "results":
            wanted = op.operand_layouts(ir.encoding_of(op.results[0].type))
            for index, encoding in enumerate(wanted):
                if encoding is not None:
                    convert_operand(op, index, encoding)
        elif isinstance(op, Op) and op.layouts_from == "operands":
            encoding = op.result_layout(ir.encoding_of(op.operands[0].type))
            assert encoding is not None, op.name
            for result in op.results:
                if is_tile(result):
                    convert_result(result, encoding)
        elif isinstance(op, MatrixProduct):
            self._fix_dot(op)
        elif isinstance(op, Op) and op.ordered_axis is not None:
            shape = ir.shape_of(op.operands[0].type)
            cluster = split_rows(shape, self.num_ctas, whole=op.ordered_axis)
            convert_all(op, scan_encoding(shape, op.ordered_axis, self._threads, cluster))
        elif isinstance(op, Op) and op.neighbours > 1:
            shape = ir.shape_of(op.operands[0].type)
            cluster = self._between_packs(shape, op.neighbours)
            convert_all(op, packed_encoding(shape, op.neighbours, self._threads, cluster))

    def _fix_by_traits(self, op: Op) -> None:
        """Every block of a cluster has all of a whole operand; results are as `placed_by` says."""
        whole = [v for name in op.whole_operands for v in op.operand_values(name)]
        for index, value in enumerate(op.operands):
            if value in whole and self.num_ctas > 1:
                shape = ir.shape_of(value.type)
                encoding = default_encoding(shape, self._threads, copies(len(shape), self.num_ctas))
                convert_operand(op, index, encoding)
        if op.placed_by is not None:
            (place,) = op.operand_values(op.placed_by)
            for result in op.results:
                convert_result(result, ir.encoding_of(place.type))

    def _between_packs(self, shape: tuple[int, ...], pack: int) -> Cluster:
        """Blocks split the outermost axis, if that cuts no group of `pack` neighbours."""
        if shape[0] // self.num_ctas * prod(shape[1:]) % pack == 0 and shape[0] >= self.num_ctas:
            return split_rows(shape, self.num_ctas)
        return copies(len(shape), self.num_ctas)

    def _fix_dot(self, op: MatrixProduct) -> None:
        shape = ir.shape_of(op.results[0].type)
        cluster = split_product(shape, self.num_ctas, processor_named(self.target))
        parent = product_encoding(shape, self._threads, cluster)
        for index in (0, 1):
            operand = DotOperandEncoding.make(opIdx=index, parent=parent)
            convert_operand(op, index, operand)
        convert_operand(op, 2, parent)
        convert_result(op.results[0], parent)


def product_encoding(
    shape: tuple[int, ...], block: Threads, cluster: Cluster = ()
) -> BlockedEncoding:
    """The encoding of a product that the tensor cores do not take: a thread has squares of the
    result, as many down as across where the tile lets it, which takes the fewest elements of the
    operands.
    `cluster`: its `CGALayout`."""
    part, rank = part_of(cluster, shape), len(shape)
    share = prod(part) // block.total
    side = 4 if share >= 16 else 2 if share >= 4 else 1
    per_thread = (*[1] * (rank - 2), *[min(side, s) for s in part[-2:]])
    order = tuple(reversed(range(rank)))
    if rank > 2 or side < 4 or min(part) < side:
        return blocked_for(shape, per_thread, order, block, cluster)
    squares = [s // side for s in part]
    threads, warps = [1, min(block.lanes // 2, squares[1])], [1, 1]
    threads[0] = block.lanes // threads[1]
    while warps[0] * warps[1] < block.warps:
        left = [s // (t * w) for s, t, w in zip(squares, threads, warps, strict=True)]
        warps[0 if left[0] >= left[1] else 1] *= 2
    return BlockedEncoding.make(
        sizePerThread=per_thread, threadsPerWarp=tuple(threads), warpsPerCTA=tuple(warps),
        order=order, CGALayout=cluster,
    )  # fmt: skip


def scan_encoding(
    shape: tuple[int, ...], axis: int, block: Threads, cluster: Cluster = ()
) -> BlockedEncoding:
    """Along the axis each thread has one run of neighbours, lanes and then warps have runs that
    follow each other. Warps go over the other axes first: between them shared memory is needed.
    `cluster`, the `CGALayout`, does not split the axis."""
    shape = part_of(cluster, shape)
    rank, size = len(shape), shape[axis]
    threads, warps = [1] * rank, [1] * rank
    threads[axis] = min(block.lanes, size)
    lanes, left = block.lanes // threads[axis], block.warps
    for other in reversed([a for a in range(rank) if a != axis]):
        threads[other] = min(lanes, shape[other])
        warps[other] = min(left, shape[other] // threads[other])
        lanes, left = lanes // threads[other], left // warps[other]
    warps[axis] = min(left, size // threads[axis])
    spare = rank - 1 if axis == 0 else 0  # what covers more than the tile holds copies
    per_thread = [1] * rank
    per_thread[axis] = size // (threads[axis] * warps[axis])
    threads[spare] *= lanes
    warps[spare] *= left // warps[axis]
    return BlockedEncoding.make(
        sizePerThread=tuple(per_thread), threadsPerWarp=tuple(threads), warpsPerCTA=tuple(warps),
        order=(axis, *[a for a in reversed(range(rank)) if a != axis]), CGALayout=cluster,
    )  # fmt: skip


def packed_encoding(
    shape: tuple[int, ...], pack: int, block: Threads, cluster: Cluster = ()
) -> BlockedEncoding:
    """Each thread has runs of `pack` neighbours in row-major order."""
    per_thread, left = [1] * len(shape), pack
    for axis in reversed(range(len(shape))):
        per_thread[axis] = min(left, shape[axis])
        left //= per_thread[axis]
    order = tuple(reversed(range(len(shape))))
    return blocked_for(shape, tuple(per_thread), order, block, cluster)


def convert(value: SSAValue, encoding: Attribute, before: Operation) -> SSAValue:
    """The value in another encoding, converted before `before`."""
    if ir.encoding_of(value.type) == encoding:
        return value
    kind = with_encoding(value.type, encoding)
    converted = Builder(before).value(ConvertLayoutOp, value, result=kind)
    converted.name_hint = value.name_hint
    return converted


def convert_operand(op: Operation, index: int, encoding: Attribute) -> None:
    """Make an operand have this encoding."""
    op.operands[index] = convert(op.operands[index], encoding, op)


def convert_all(op: Operation, encoding: Attribute) -> None:
    """Make all operands and results have this encoding."""
    for index in range(len(op.operands)):
        convert_operand(op, index, encoding)
    for result in op.results:
        convert_result(result, encoding)


def convert_result(result: Any, encoding: Attribute) -> None:
    """Make an op's result have this encoding, its users still see the former one."""
    before = ir.encoding_of(result.type)
    if before == encoding:
        return
    op: Operation = result.op
    retype(result, encoding)
    converted = ConvertLayoutOp.build(
        result, result=with_encoding(result.type, before), location=op.location
    )
    insert_after(op, converted)
    for use in list(result.uses):
        if use.operation is not converted:
            use.operation.operands[use.index] = converted.results[0]
