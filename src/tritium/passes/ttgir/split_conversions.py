"""Change the layout of large tiles in parts, where nothing else needs as much shared memory.

before (the loop's copies take 32 KiB):
    %y = ttg.convert_layout %x : tensor<128x128xf32, #mma> -> tensor<128x128xf32, #blocked>
after:
    %y = ttg.convert_layout %x {ttg.parts = 2 : i32} : ...

The tile of a result, which is in registers, goes through shared memory on its way to its store. As
a whole it may need more than the loop before: fewer blocks then fit into a multiprocessor. In parts
it needs a part of that, and a few barriers more, which count for nothing outside of loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tritium.analysis.shared_memory import allocate, allocates_memory
from tritium.ir import types as ir
from tritium.ops.attributes import PARTS
from tritium.ops.ttgir.types import bytes_of
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.ttgir.accelerate_matmul import source_of

SMALL = 32 * 1024
"""Bytes of scratch that leave room for several blocks in any case."""
MOST_PARTS = 4


@dataclass(frozen=True)
class SplitConversions(FunctionPass):
    """Change the layout of large tiles in parts, where nothing else needs as much shared
    memory."""

    name: ClassVar[str] = "split-conversions"

    def function(self, function: FuncOp) -> bool:
        found = {op: size for op in function.body.ops if (size := _bytes(op)) > SMALL}
        largest = max(map(_allocated, function.walk()), default=0)
        found = {op: size for op, size in found.items() if size > largest}
        if not found:
            return False
        changed = False
        others = max(allocate(function.regions[0].blocks, lambda _: 0).size, SMALL)
        for op, size in found.items():
            parts = min(1 << (-(-size // others) - 1).bit_length(), MOST_PARTS)
            if parts > 1:
                op.attributes[PARTS] = IntegerAttr(parts, ir.i32)
                changed = True
        return changed


def _allocated(op: Operation) -> int:
    return bytes_of(op.results[0].type) if allocates_memory(op) else 0


def _bytes(op: Operation) -> int:
    """The most bytes that a change of layout moves through shared memory; 0 for other ops."""
    if len(op.results) != 1 or source_of(op.results[0]) is op.results[0]:
        return 0
    kind = op.results[0].type
    return prod(ir.shape_of(kind)) * ir.bit_width(kind) // 8
