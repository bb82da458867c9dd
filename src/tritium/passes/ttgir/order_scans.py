"""Give scans, reductions and maps of several neighbours layouts in which threads can do them.

before:
    %s = tt.scan %x {axis = 0} ... : tensor<64x16xi32, #any>
after:
    %0 = ttg.convert_layout %x : ... -> tensor<64x16xi32, #blocked>
    %1 = tt.scan %0 {axis = 0} ... : tensor<64x16xi32, #blocked>
    %s = ttg.convert_layout %1 : ... -> tensor<64x16xi32, #any>

For kernels whose layouts are the program's: those of `tl` kernels get such layouts at once. With
`loaded`, for these, scans take the layouts in which what they scan is loaded, where threads can do
them in those as well:

    %x = tt.load %p : tensor<32x128x!tt.ptr<f32>, #loaded>
    %0 = ttg.convert_layout %x : ... -> tensor<32x128xf32, #blocked>
    %s = tt.scan %0 {axis = 1} ... : tensor<32x128xf32, #blocked>      becomes #loaded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP, Encoding, linear
from tritium.ops import ttir
from tritium.ops.base import Op
from tritium.passes.base import Pass
from tritium.passes.ttgir.accelerate_matmul import source_of
from tritium.passes.ttgir.clusters import num_ctas_of, split_rows
from tritium.passes.ttgir.convert_ttir_to_ttgir import (
    convert_operand,
    convert_result,
    packed_encoding,
    scan_encoding,
)
from tritium.passes.ttgir.layout_propagation import Threads, is_tile, keeps_places


@dataclass(frozen=True)
class OrderScans(Pass):
    """Give scans, reductions and maps of several neighbours layouts in which threads can do them;
    `loaded`: scans those of the loads before them."""

    name: ClassVar[str] = "gluon-order-scans"
    title: ClassVar[str] = "GluonOrderScansPass"
    loaded: bool = False

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for function in functions(module):
            for op in list(function.walk()):
                if not isinstance(op, Op):
                    continue
                if self.loaded:
                    axis = op.ordered_axis
                    encoding = None if axis is None else _loaded(op, axis)
                else:
                    encoding = _wanted(op, num_ctas_of(module))
                if encoding is not None:
                    _convert(op, encoding)
                    changed = True
        return changed


def _convert(op: Op, encoding: Encoding) -> None:
    """Make all operands have this encoding, and the results the one that follows from it."""
    for index in range(len(op.operands)):
        convert_operand(op, index, encoding)
    follows = op.result_layout(encoding)
    for result in filter(is_tile, op.results):
        assert follows is not None
        convert_result(result, follows)


def _loaded(op: Op, axis: int) -> Encoding | None:
    """The encoding in which an operand is loaded, or what it is computed from, if a scan can be
    done in it, with no more warps along the axis."""
    type = op.operands[0].type
    mine, shape = ir.encoding_of(type), ir.shape_of(type)
    pending, seen = list(op.operands), set[int]()
    while pending:
        owner = source_of(pending.pop()).owner
        if not isinstance(owner, Operation) or id(owner) in seen:
            continue
        seen.add(id(owner))
        if isinstance(owner, ttir.ElementAccess):
            found = ir.encoding_of(owner.results[0].type)
            if found != mine and _as_good(found, mine, shape, axis):
                return found
        elif keeps_places(owner):
            pending += [v for v in owner.operands if is_tile(v)]
    return None


def _as_good(found: Encoding, mine: Encoding, shape: tuple[int, ...], axis: int) -> bool:
    layouts = [linear(encoding, shape) for encoding in (found, mine)]
    warps, most = (sum(bool(basis[axis]) for basis in e.bases(WARP)) for e in layouts)
    return moves.in_order(layouts[0], axis) and warps <= most


def _wanted(op: Op, num_ctas: int) -> Encoding | None:
    """The encoding to convert an op's operands to; None if the op works in the one that they
    have."""
    axis = op.ordered_axis if op.ordered_axis is not None else op.separate_axis
    if axis is None and op.neighbours == 1:
        return None
    type = op.operands[0].type
    shape = ir.shape_of(type)
    layout = linear(ir.encoding_of(type), shape)
    threads = Threads(layout.in_size(WARP), layout.in_size(LANE))
    if axis is not None:
        fits = moves.is_separate if op.ordered_axis is None else moves.in_order
        if fits(layout, axis):
            return None
        return scan_encoding(shape, axis, threads, split_rows(shape, num_ctas, whole=axis))
    columns = moves.flat(layout).columns_of(REGISTER)
    if all(1 << i in columns for i in range(op.neighbours.bit_length() - 1)):
        return None
    return packed_encoding(shape, op.neighbours, threads, split_rows(shape, num_ctas))
