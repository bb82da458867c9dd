"""Bring tiles that go to shared memory to the blocks of the cluster whose memory it is.

before (the tile's rows split between two blocks, the memory in both):
    %m = ttg.local_alloc %x : (tensor<64x128xf16, #blocked>) -> !ttg.memdesc<64x128xf16, #shared>
after:
    %0 = ttg.convert_layout %x : ... -> tensor<64x128xf16, #blocked1>
    %m = ttg.local_alloc %0 : ...

A block writes only its own shared memory; what moves between blocks is moved by changes of layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp

from tritium.analysis.regions import functions
from tritium.analysis.shared_memory import allocates_memory
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP, LinearEncoding, linear
from tritium.ops import ttir
from tritium.ops.base import Op
from tritium.ops.ttgir import LocalStoreOp
from tritium.passes.base import Pass
from tritium.passes.ttgir.clusters import blocks_of
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert_operand
from tritium.passes.ttgir.layout_propagation import Threads, default_encoding, threads_of


@dataclass(frozen=True)
class MatchClusters(Pass):
    """Bring tiles that go to shared memory to the blocks whose memory it is."""

    name: ClassVar[str] = "match-clusters"
    title: ClassVar[str] = "TritonGPUMatchClusters"

    def run(self, module: ModuleOp) -> bool:
        changed, threads = False, threads_of(module)
        for function in functions(module):
            ops: list[Any] = list(function.walk())
            for op in ops:
                if isinstance(op, ttir.BlockAccess) and not op.is_load:
                    changed |= _match(op, op.desc.type.block.encoding, threads)
                elif isinstance(op, LocalStoreOp):
                    changed |= _match(op, op.dst.type.encoding, threads)
                elif allocates_memory(op) and op.src:
                    memory: Any = op.results[0].type
                    changed |= _match(op, memory.encoding, threads)
        return changed


@dataclass(frozen=True)
class MakeOperandsWhole(Pass):
    """Bring all of a tile to each block of the cluster, where any element of it may be one that an
    element of the result depends on. For kernels whose layouts are the program's."""

    name: ClassVar[str] = "gluon-make-operands-whole"
    title: ClassVar[str] = "GluonMakeOperandsWholePass"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        ops = [op for function in functions(module) for op in function.walk() if isinstance(op, Op)]
        for op in ops:
            for value in [v for name in op.whole_operands for v in op.operand_values(name)]:
                encoding = _whole(value.type)
                if encoding is not None:
                    convert_operand(op, list(op.operands).index(value), encoding)
                    changed = True
        return changed


def _whole(type: ir.Type) -> LinearEncoding | None:
    """The encoding of a tile of which each block has the parts of all blocks in further registers;
    None where it has all."""
    layout = linear(ir.encoding_of(type), ir.shape_of(type))
    parts = [basis for basis in layout.bases(BLOCK) if any(basis)]
    if not parts:
        return None
    bases = {name: tuple(map(tuple, layout.bases(name))) for name in (REGISTER, LANE, WARP)}
    bases[REGISTER] += tuple(map(tuple, parts))
    none = ((0,) * len(ir.shape_of(type)),) * layout.in_bits(BLOCK)
    return LinearEncoding.make(**bases, **{BLOCK: none})


def _match(op: Any, memory: Any, threads: Threads) -> bool:
    """`memory`: the encoding of the memory that the operand `src` goes to."""
    tile, shape = op.src.type, ir.shape_of(op.src.type)
    if blocks_of(ir.encoding_of(tile), shape) == blocks_of(memory, shape):
        return False
    encoding = default_encoding(shape, threads, memory.get("CGALayout"))
    convert_operand(op, list(op.operands).index(op.src), encoding)
    return True
