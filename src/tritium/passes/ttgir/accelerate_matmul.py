"""Give products to the tensor cores.

before:
    %d = tt.dot %a, %b, %c : tensor<128x64xf16, #dot_op 0> * ... -> tensor<128x128xf32, #blocked>
after (sm_90, four warps or a multiple):
    %0 = ttg.local_alloc %a : (...) -> !ttg.memdesc<128x64xf16, #nvmma_shared, #smem>
    %1 = ttg.local_alloc %b : (...) -> !ttg.memdesc<64x128xf16, #nvmma_shared, #smem>
    %d = ttng.warp_group_dot %0, %1, %c : ... -> tensor<128x128xf32, #mma>
after (sm_100):
    %d = ttng.tensor_dot %0, %1, %c : ... -> tensor<128x128xf32, #linear>
after (sm_80, or what wgmma cannot do):
    %d = tt.dot %a, %b, %c : tensor<..., #ttg.dot_op<{..., parent = #mma, kWidth = 2}>> * ...

with conversions from and to the former encodings. The left operand of a wgmma stays in registers
when it was computed from another product, or from loads that are read where it is needed
(`convert-loads`), and, where shared memory is short (`registers`), when it was computed at all: it
then needs none beside the right one. Products that neither can do are
left to `fma`.

wgmma sums products of 8-bit floats with some 14 bits: where `maxNumImpreciseAcc` is the tile's
K, only those of one tile, which are then added precisely; below it, mma.sync is used instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.regions import functions, is_loop_invariant
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import Cluster, DotOperandEncoding, part_of
from tritium.ir.layouts.moves import permuted
from tritium.ir.layouts.tensor_memory import COLUMNS
from tritium.ops.arith import AddFOp
from tritium.ops.base import Op, changes_layout, permutes
from tritium.ops.ttgir import LocalAllocOp, MemDescTransOp, memdesc_of
from tritium.ops.ttgir.hopper import is_asynchronous
from tritium.ops.ttgir.tcgen05 import sums_columns
from tritium.ops.ttir.dot import MatrixProduct, TileProduct
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_after
from tritium.passes.ttgir.clusters import num_ctas_of, operand_cluster, split_product
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert, convert_operand, convert_result
from tritium.passes.ttgir.layout_propagation import (
    Threads,
    is_follower,
    is_tile,
    keeps_places,
    num_warps_of,
    nvmma_encoding,
    order_of,
    processor_of,
)
from tritium.passes.ttgir.operands.convert_loads import plan_of
from tritium.passes.ttgir.tensor_cores.webs import statement_of
from tritium.target import MatrixUnit, Processor

MOST_HELD = 192
"""Registers of a thread for sums and a left operand that is computed from loads."""


@dataclass(frozen=True)
class AccelerateMatmul(Pass):
    """Give products to the matrix units of the processor.

    `wgmma`: use units that read operands from shared memory, where the processor has them;
    `rows`, `pack`: which instructions to use (`MatrixUnit.tuned`); `registers`: left operands that
    are computed stay in registers.
    """

    name: ClassVar[str] = "accelerate-matmul"
    title: ClassVar[str] = "TritonGPUAccelerateMatmul"
    wgmma: bool = True
    rows: int = 0
    pack: int = 1
    registers: bool = False

    def run(self, module: ModuleOp) -> bool:
        num_warps, num_ctas = num_warps_of(module), num_ctas_of(module)
        processor = processor_of(module)
        units = [u for u in processor.matrix_units if self.wgmma or not u.from_shared]
        if (self.rows, self.pack) != (0, 1):
            units = [u.tuned(self.rows, self.pack) for u in units]
        changed = False
        for function in functions(module):
            room = _TensorMemory(function, num_ctas)
            for op in list(_products(function)):
                shape = ir.shape_of(op.results[0].type)
                cluster = split_product(shape, num_ctas, processor)
                part = part_of(cluster, shape)
                able = (u for u in units if u.scaled or not op.has_scales)
                able = (u for u in able if u.takes(op, num_warps, part))
                unit = next((u for u in able if room.has(op, u)), None)
                if unit is not None and unit.from_shared and op.has_scales:
                    _scaled_from_shared_memory(op, unit, num_warps)
                elif unit is not None and unit.from_shared:
                    assert isinstance(op, MatrixProduct)
                    held = self.registers and is_computed(op.a)
                    # What a loop does not change would be copied in each iteration.
                    held |= _computed_from_product(op.a) and not is_loop_invariant(op.a, op)
                    if not unit.from_shared.takes_registers:
                        held = False
                    elif not held:
                        held = _computed_from_loads(
                            op, unit, Threads(num_warps, processor.lanes), cluster
                        )
                    _from_shared_memory(op, unit, num_warps, cluster, held)
                elif unit is not None:
                    _from_registers(op, unit, num_warps, cluster)
                changed |= unit is not None
        return changed


class _TensorMemory:
    """The tensor memory of a function, for the sums of products. Products of different statements
    of the function's body follow each other, and may have the same (`statement_of`)."""

    def __init__(self, function: FuncOp, num_ctas: int):
        self.function = function
        #: Whether there is any: kernels allocate it, in the beginning.
        self.usable = num_ctas == 1 and function.sym_visibility != "private"
        self.taken: dict[Any, dict[Operation | None, int]] = {}

    def has(self, op: TileProduct, unit: MatrixUnit) -> bool:
        """True if a unit's product, if it needs tensor memory, finds room there; then it takes
        that."""
        if unit.from_shared is None or not unit.from_shared.in_tensor_memory:
            return True
        if not self.usable:
            return False
        shape, place = ir.shape_of(op.results[0].type), statement_of(op, self.function)
        columns = sums_columns(op)
        kind = shape, ir.element_type(op.results[0].type), columns
        taken = self.taken.setdefault(kind, {})
        before = sum(max(places.values(), default=0) for places in self.taken.values())
        more = max(taken.get(place, 0) + columns - max(taken.values(), default=0), 0)
        if before + more > COLUMNS:
            return False
        taken[place] = taken.get(place, 0) + columns
        return True


def _products(function: Operation) -> Iterator[TileProduct]:
    for op in function.walk():
        if isinstance(op, TileProduct) and not is_asynchronous(op):
            yield op


def source_of(value: SSAValue) -> SSAValue:
    """The value before conversions of its layout."""
    while changes_layout(value.owner):
        value = value.owner.operands[0]
    return value


def _computed_from_product(value: SSAValue) -> bool:
    """True if a tile is computed, element by element, from a product's result, which was transposed
    twice if at all: where it is computed is then where it is needed as a left operand."""
    pending, seen = [(value, False)], set[tuple[int, bool]]()
    while pending:
        current, swapped = pending.pop()
        owner = current.owner
        if not isinstance(owner, Operation) or (id(owner), swapped) in seen:
            continue
        seen.add((id(owner), swapped))
        if isinstance(owner, TileProduct):
            if not swapped:
                return True
            continue
        swapped ^= permutes(owner)
        if keeps_places(owner) or permutes(owner):
            pending += [(v, swapped) for v in owner.operands if is_tile(v)]
    return False


def _computed_from_loads(
    op: MatrixProduct, unit: MatrixUnit, threads: Threads, cluster: Cluster
) -> bool:
    """True if the left operand of a product can be computed where it is needed, from loads of no
    more bytes (`convert-loads`)."""
    if not is_computed(op.a) or ir.bit_width(op.a.type) != 16:
        return False
    rows, columns = part_of(cluster, ir.shape_of(op.results[0].type))
    words = rows * columns + rows * ir.shape_of(op.a.type)[1] // 2
    if words > MOST_HELD * threads.total:
        return False
    encoding = unit.encoding(op, threads.warps, cluster, False)
    width = unit.neighbours(op, encoding)
    operand = DotOperandEncoding.make(opIdx=0, parent=encoding, kWidth=width)
    return plan_of(op.a, operand, op) is not None


def is_computed(value: SSAValue) -> bool:
    """True if a tile is computed, neither as it was loaded nor as something else made it."""
    owner = source_of(value).owner
    if permutes(owner):
        return is_computed(owner.operands[0])
    return isinstance(owner, Op) and is_follower(owner)


def has_computed_operands(module: ModuleOp, processor: Processor) -> bool:
    """True if a product for a unit that reads shared memory may have a computed left operand."""
    if not any(unit.from_shared for unit in processor.matrix_units):
        return False
    products = (op for op in module.walk() if isinstance(op, TileProduct))
    return any(op.has_scales or is_computed(op.a) for op in products)


def _add_apart(op: MatrixProduct) -> None:
    """Take the addition out of a product whose sums are rounded."""
    total, result = op.c, op.results[0]
    op.operands[2] = Builder(op).constant(0.0, total)
    added = AddFOp.build(result, total, location=op.location)
    insert_after(op, added)
    result.replace_uses_with_if(added.results[0], lambda use: use.operation is not added)


def _from_shared_memory(
    op: MatrixProduct, unit: MatrixUnit, num_warps: int, cluster: Cluster, held: bool
) -> None:
    """`held`: the left operand stays in registers, where it has 16 bits."""
    if unit.rounds_sums(op):
        _add_apart(op)
    bits = ir.bit_width(op.a.type)
    encoding = unit.encoding(op, num_warps, cluster, False)
    a: SSAValue
    if bits == 16 and held:
        width = unit.neighbours(op, encoding)
        operand = DotOperandEncoding.make(opIdx=0, parent=encoding, kWidth=width)
        a = convert(source_of(op.a), operand, op)
    else:
        a = _in_shared_memory(op, op.a, 1, bits, operand_cluster(cluster, 1))
    b = _in_shared_memory(op, op.b, 0, bits, operand_cluster(cluster, 0))
    dot = Builder(op).value(
        unit.from_shared, a, b, convert(op.c, encoding, op), None,
        inputPrecision=op.inputPrecision, maxNumImpreciseAcc=op.maxNumImpreciseAcc,
    )  # fmt: skip
    dot.name_hint = op.results[0].name_hint
    back = convert(dot, ir.encoding_of(op.results[0].type), op)
    op.results[0].replace_all_uses_with(back)
    erase(op)


def _scaled_from_shared_memory(op: TileProduct, unit: MatrixUnit, num_warps: int) -> None:
    product: Any = op
    encoding = unit.encoding(product, num_warps, (), False)
    a = _in_shared_memory(op, op.a, 1, ir.bit_width(op.a.type), ())
    b = _in_shared_memory(op, op.b, 0, ir.bit_width(op.b.type), ())
    scales = [
        convert(source_of(value), unit.scales(product, encoding, index), op)
        for index, value in enumerate((product.a_scale, product.b_scale))
    ]
    dot = Builder(op).value(
        unit.from_shared, a, b, convert(op.c, encoding, op), *scales,
        a_type=product.a_elem_type, b_type=product.b_elem_type,
    )  # fmt: skip
    dot.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(convert(dot, ir.encoding_of(op.results[0].type), op))
    erase(op)


def _in_shared_memory(
    op: Operation, value: SSAValue, k_axis: int, bits: int, cluster: Cluster
) -> SSAValue:
    """The operand in memory that wgmma can read. 16-bit elements may have either axis fastest, the
    one that they are loaded along; others must have k. A transpose becomes a view."""
    source, at = source_of(value), Builder(op)
    if permutes(source.owner):
        inner = source_of(source.owner.operands[0])
        if bits == 16 or _fastest(inner) == 1 - k_axis:
            memory = _in_shared_memory(op, inner, 1 - k_axis, bits, permuted(cluster, (1, 0)))
            return at.value(MemDescTransOp, memory, order=(1, 0))
    shape = ir.shape_of(source.type)
    fastest = _fastest(source) if bits == 16 else k_axis
    encoding = nvmma_encoding(shape, bits, fastest, cluster)
    kind = memdesc_of(shape, ir.element_type(source.type), encoding, False)
    memory = at.value(LocalAllocOp, source, result=kind)
    memory.name_hint = source.name_hint
    return memory


def _fastest(value: SSAValue) -> int:
    """The axis along which a tile's neighbours are in one thread, and so in memory."""
    return order_of(ir.encoding_of(value.type), ir.shape_of(value.type))[0]


def _from_registers(op: TileProduct, unit: MatrixUnit, num_warps: int, cluster: Cluster) -> None:
    chained = _computed_from_product(op.a) or _feeds_product(op.results[0])
    encoding = unit.encoding(op, num_warps, cluster, chained)
    width = unit.neighbours(op, encoding)
    for index in (0, 1):
        operand = DotOperandEncoding.make(opIdx=index, parent=encoding, kWidth=width)
        op.operands[index] = convert(source_of(op.operands[index]), operand, op)
    convert_operand(op, 2, encoding)
    if op.has_scales:
        product: Any = op
        for index, scale in enumerate((product.a_scale, product.b_scale)):
            if scale is not None:
                place = list(op.operands).index(scale)
                convert_operand(op, place, unit.scales(op, encoding, index))
    convert_result(op.results[0], encoding)


def _feeds_product(value: SSAValue) -> bool:
    """True if a product's result is, element by element, computed on to an operand of another."""
    pending, seen = [value], set[int]()
    while pending:
        current = pending.pop()
        for use in current.uses:
            user = use.operation
            if isinstance(user, TileProduct) and not is_asynchronous(user) and use.index == 0:
                return True
            if keeps_places(user) and id(user) not in seen:
                seen.add(id(user))
                pending += user.results
    return False
