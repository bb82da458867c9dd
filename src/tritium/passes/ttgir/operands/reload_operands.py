"""Read operands of products from shared memory in each iteration of loops short of registers.

before (the loop would hold %v beside all that it carries):
    %v = ttg.convert_layout %x : tensor<128x128xf16, #blocked> -> tensor<128x128xf16, #dot_op>
    scf.for ... {
      %d = tt.dot %a, %v, %c
    }
after:
    %m = ttg.local_alloc %x : (...) -> !ttg.memdesc<128x128xf16, #swizzled_shared, #smem>
    scf.for ... {
      %v = ttg.local_load %m : ... -> tensor<128x128xf16, #dot_op>
      %d = tt.dot %a, %v, %c
    }

A loop's registers are estimated: the tiles that it carries, those from before it that it uses, and
the operands and the result of its largest product. Where a thread has fewer, the largest operands
that do not change in the loop are read again, until the rest fits. What spills goes to memory
as well, but by more and smaller accesses, and accumulators may be among it. If that is not enough,
operands that the loop brings into their layout have shared memory of their own, where there is room
for it: what goes through scratch is read at once, as the next operand needs the same place. Where
there is room only for what operands are converted from, they are converted behind it, by each warp
that reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.loops import innermost_loops
from tritium.analysis.regions import defined_inside, functions
from tritium.analysis.shared_memory import allocate
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, DotOperandEncoding, MatrixEncoding, linear
from tritium.ops.base import Op
from tritium.ops.elementwise import CastOp
from tritium.ops.scf import ForOp
from tritium.ops.ttgir import LocalAllocOp, LocalLoadOp, memdesc_of
from tritium.ops.ttir.dot import TileProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.passes.ttgir.accelerate_matmul import source_of
from tritium.passes.ttgir.layout_propagation import (
    is_source,
    is_tile,
    num_warps_of,
    processor_of,
    retype,
)
from tritium.passes.ttgir.pipeline import operand_encoding
from tritium.target import Processor

SPARE = 24
"""Registers for addresses, counters and masks."""
Stored: TypeAlias = tuple[SSAValue, SSAValue]
"""An operand, and the tile that is stored for it: it, or what it is converted from, in the layout
from before."""


@dataclass(frozen=True)
class ReloadOperands(Pass):
    """Read operands of products from shared memory in each iteration of loops short of
    registers."""

    name: ClassVar[str] = "reload-operands"

    def run(self, module: ModuleOp) -> bool:
        found = operands_to_reload(module)
        for (operand, stored), loops in found.items():
            _reload(operand, stored, loops, processor_of(module))
        return bool(found)


def operands_to_reload(module: ModuleOp) -> dict[Stored, list[ForOp]]:
    """The operands that loops, those of them, should not hold in registers."""
    found: dict[Stored, list[ForOp]] = {}
    processor = processor_of(module)
    if not processor.registers:
        return found
    all_registers, most = processor.registers
    threads = num_warps_of(module) * processor.lanes
    budget = min(most, all_registers // threads) - SPARE
    for function in functions(module):
        for loop in innermost_loops(function):
            for operand in _too_many(loop, budget, function, processor.max_shared):
                found.setdefault(operand, []).append(loop)
    return found


def registers_of(value: SSAValue) -> int:
    """The 32-bit registers of a thread that a tile takes."""
    kind = value.type
    if not is_tile(value) or ir.is_pointer(kind):
        return 0  # of pointers most are a sum of a common one and a constant
    bits = ir.bit_width(kind) * linear(ir.encoding_of(kind), ir.shape_of(kind)).in_size(REGISTER)
    return -(-bits // 32)


def _too_many(loop: ForOp, budget: int, function: Op, most: int) -> list[Stored]:
    """The operands, largest first, without which a loop's tiles fit the registers. `most`: bytes of
    shared memory."""
    used = {
        v: None for op in loop.body.walk() for v in op.operands
        if is_tile(v) and not defined_inside(v, loop) and not _is_source(v)
    }  # fmt: skip
    candidates = list(filter(_can_reload, used))
    products = [op for op in loop.body.walk() if isinstance(op, TileProduct)]
    changing = _changing(products, loop)
    if not candidates and not changing:
        return []
    least = sum(map(registers_of, loop.body.args)) + max(
        (sum(registers_of(v) for v in (*op.operands[:2], op.results[0]) if defined_inside(v, loop))
         for op in products), default=0,
    )  # fmt: skip
    needed, chosen = least + sum(map(registers_of, used)), list[Stored]()
    for value in sorted(candidates, key=registers_of, reverse=True):
        if needed <= budget:
            break
        needed -= registers_of(value)
        chosen.append((value, source_of(value)))
    if not chosen and least > budget:
        room = most - allocate(function.regions[0].blocks, lambda _: 0).size
        whole = [(v, source_of(v)) for v in changing]
        for stored in (whole, [(v, _unconverted(source)) for v, source in whole]):
            if sum(_bytes(v) for _, v in stored) <= room:
                return stored
    return chosen


def _changing(products: list[TileProduct], loop: ForOp) -> list[SSAValue]:
    """The operands that a loop brings into their layout, if both operands of a product are."""
    found = dict[SSAValue, None]()
    for op in products:
        if all(defined_inside(v, loop) and _can_reload(v) for v in op.operands[:2]):
            found |= dict.fromkeys(op.operands[:2])
    return list(found)


def _bytes(value: SSAValue) -> int:
    return prod(ir.shape_of(value.type)) * ir.bit_width(value.type) // 8


def _is_source(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and is_source(value.owner)


def _can_reload(value: SSAValue) -> bool:
    """True if a tile is a matrix unit's operand that was brought into its layout before."""
    encoding = ir.encoding_of(value.type)
    if not isinstance(encoding, DotOperandEncoding) or not isinstance(
        encoding.get("parent"), MatrixEncoding
    ):
        return False
    # A conversion between the layouts of products does not leave the registers of a thread.
    source = source_of(value)
    return source is not value and not isinstance(ir.encoding_of(source.type), MatrixEncoding)


def _unconverted(value: SSAValue) -> SSAValue:
    """The narrower tile that a tile is converted from; the tile itself where there is none."""
    owner = value.owner
    if not isinstance(owner, CastOp):
        return value
    source = owner.operands[0]
    return source if _bytes(source) < _bytes(value) else value


def _reload(operand: SSAValue, stored: SSAValue, loops: list[ForOp], processor: Processor) -> None:
    """Store a tile where it was converted, and load it where the loops use it."""
    owner, source = operand.owner, source_of(operand)
    assert isinstance(owner, Operation)
    kind, home = cast("ir.TensorType", stored.type), stored.owner
    # What a loop carries is stored before the next tiles are loaded, which then take its registers.
    at = Builder(owner if isinstance(home, Operation) else cast("Operation", home.first_op))
    encoding = operand_encoding(kind, processor)
    shape, element = ir.shape_of(kind), ir.element_type(kind)
    memory = at.value(LocalAllocOp, stored, result=memdesc_of(shape, element, encoding, False))
    memory.name_hint = operand.name_hint
    read = ir.tensor_of(shape, element, ir.encoding_of(operand.type))
    for use in list(operand.uses):
        user = use.operation
        if any(loop.is_ancestor(user) for loop in loops):
            before = Builder(user)
            loaded = before.value(LocalLoadOp, memory, None, result=read)
            if stored is not source:
                conversion = before.copy(cast("Operation", source.owner), {stored: loaded})
                loaded = conversion.results[0]
                retype(loaded, ir.encoding_of(operand.type))
            loaded.name_hint = operand.name_hint
            user.operands[use.index] = loaded
    if operand.first_use is None:
        erase(owner)
