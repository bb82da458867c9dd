"""Give scans, and maps of several neighbours, layouts in which threads can do them.

before:
    %s = tt.scan %x {axis = 0} ... : tensor<64x16xi32, #any>
after:
    %0 = ttg.convert_layout %x : ... -> tensor<64x16xi32, #blocked>
    %1 = tt.scan %0 {axis = 0} ... : tensor<64x16xi32, #blocked>
    %s = ttg.convert_layout %1 : ... -> tensor<64x16xi32, #any>

For kernels whose layouts are the program's: those of `tl` kernels get such layouts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import REGISTER, Encoding, linear
from tritium.ops.base import Op
from tritium.passes.base import Pass
from tritium.passes.ttgir.clusters import num_ctas_of, split_rows
from tritium.passes.ttgir.convert_ttir_to_ttgir import (
    convert_all,
    packed_encoding,
    scan_encoding,
)
from tritium.passes.ttgir.layout_propagation import Threads, threads_of


@dataclass(frozen=True)
class OrderScans(Pass):
    """Give scans, and maps of several neighbours, layouts in which threads can do them."""

    name: ClassVar[str] = "gluon-order-scans"
    title: ClassVar[str] = "GluonOrderScansPass"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for function in functions(module):
            for op in list(function.walk()):
                if not isinstance(op, Op) or (op.ordered_axis is None and op.neighbours == 1):
                    continue
                encoding = _wanted(op, threads_of(module), num_ctas_of(module))
                if encoding is not None:
                    convert_all(op, encoding)
                    changed = True
        return changed


def _wanted(op: Op, threads: Threads, num_ctas: int) -> Encoding | None:
    """Another encoding, if the op cannot have its own."""
    type, axis = op.operands[0].type, op.ordered_axis
    shape = ir.shape_of(type)
    layout = linear(ir.encoding_of(type), shape)
    if axis is not None:
        if moves.in_order(layout, axis):
            return None
        return scan_encoding(shape, axis, threads, split_rows(shape, num_ctas, whole=axis))
    columns = moves.flat(layout).columns_of(REGISTER)
    if all(1 << i in columns for i in range(op.neighbours.bit_length() - 1)):
        return None
    return packed_encoding(shape, op.neighbours, threads, split_rows(shape, num_ctas))
