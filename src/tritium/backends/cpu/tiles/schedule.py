"""Schedule nests: the dimension that runs over the lanes, their number, the unrolling.

before:
    tile.nest [1024] { tt.store %q, %y }
after (for vectors of 512 bits):
    tile.nest [1024] lane 0 width 16 unroll 4 { tt.store %q, %y }

Nests that go element by element have loops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tritium.backends.cpu.lower.values import result_axes
from tritium.backends.cpu.tiles.ir import Nest, Shape, TileFunction, functions_of, runs_on_scalars
from tritium.backends.cpu.tiles.slices import nests_of
from tritium.codegen.llvm.types import memory_bytes
from tritium.ir import types as ir
from tritium.ops.tile.nests import NestOp, tiles_of
from tritium.ops.ttir.reduction import CombiningOp
from tritium.passes.base import Pass

_HEAVY = 24
"""A chunk of at least this many ops has enough parallelism of its own: unroll less."""
_DEEP = 12
"""From this cost on, an op is a long chain of instructions that wait for each other."""


@dataclass(frozen=True)
class Facts:
    """Facts on which a schedule depends, beside the nest: the values that are in buffers by then,
    what is known of addresses, the bits of a vector register and how many there are."""

    buffers: Container[SSAValue]
    address_info: Callable[[SSAValue], Any]
    bits: int
    registers: int


@dataclass(frozen=True)
class Schedule(Pass):
    """Set the schedules of nests, for `registers` vector registers of `bits` bits."""

    bits: int = 512
    registers: int = 32
    name: ClassVar[str] = "tile-schedule"
    keeps_analyses: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> bool:
        for function in functions_of(module):
            info = function.address_axes.of
            for op, filled in nests_of(function):
                nest = Nest.of(op)
                if not nest.is_scalarized:
                    _set(op, choose(Facts(filled, info, self.bits, self.registers), nest))
        return True


def _set(nest: NestOp, shape: Shape) -> None:
    for name, number in shape._asdict().items():
        if number is not None:
            nest.properties[name] = NestOp.attr_fields[name].encode(number)


def verify_schedules(function: TileFunction) -> None:
    """Raise `VerifyException` for nests that have no schedule, or one that they cannot have."""
    for op, _ in nests_of(function):
        nest = Nest.of(op)
        if nest.is_scalarized == (nest.shape is not None):
            why = "loops of its own, so no lane" if nest.is_scalarized else "no lane, width, unroll"
            raise VerifyException(f"tile.nest {list(op.domain)} has {why}")
        wide = nest.shape is not None and nest.shape.width > 1
        if wide and any(map(is_scalar_combine, nest.roots)):
            raise VerifyException(f"tile.nest {list(op.domain)} combines element by element")
        if nest.is_sequential and nest.shape is not None and nest.shape.unroll > 1:
            raise VerifyException(f"tile.nest {list(op.domain)} scans one chunk at a time")


def is_scalar_combine(root: Any) -> bool:
    """True if a root is a reduction or scan that combines element by element."""
    return isinstance(root, CombiningOp) and runs_on_scalars(root)


def choose(facts: Facts, nest: Nest, in_order: bool = False) -> Shape:
    """The shape of a nest of pointwise roots and reductions; `in_order` if chunks must be (of a
    nest that does not reduce)."""
    domain = nest.domain
    if not domain:
        return Shape(0, 1, 1)
    if nest.scan is not None:
        return _scan_shape(facts, nest.scan, domain)
    values = [v for root in nest.roots for v in tiles_of(root)]
    seen: set[SSAValue] = set()
    bits, weight, deep, by_elements = 0, 0, False, True
    stack = list(values)
    while stack:
        value: Any = stack.pop()
        if value in seen or not ir.shape_of(value.type):
            continue
        seen.add(value)
        owner: Any = value.owner
        leaf = isinstance(owner, Block) or value in facts.buffers
        loaded = not isinstance(owner, Block) and owner.loads_elements
        data = leaf or value in values or loaded or ir.is_float(value.type)
        if data and not ir.is_pointer(value.type):
            bits = max(bits, _lane_bits(value.type))
        weight += ir.is_float(value.type)
        if not isinstance(owner, Block) and (not leaf or value in values):
            stack.extend(owner.operands)
            deep |= owner.cost >= _DEEP and not loaded
            moves = owner.source_axes() is not None or not owner.operands
            by_elements &= loaded or moves or owner.is_elementwise
    lane = len(domain) - 1 if in_order else store_dimension(facts, nest)
    lane = _lane_dimension(domain) if lane is None else lane
    if any(map(is_scalar_combine, nest.roots)):
        return Shape(lane, 1, 1)
    size, bits = domain[lane], max(bits, 8)  # addresses alone have no data
    width = min(facts.bits // bits, size)
    block = block_dimension(facts, nest, lane, min(width, facts.registers))
    if block is not None and not in_order:
        return Shape(lane, min(width, facts.registers), 1, block)
    unroll = max(1, min(4 if weight < _HEAVY else 2, size // width))
    packs = facts.bits < 512 and weight < _HEAVY
    narrow = bits // _stored_bits(nest, bits) if packs else 1
    if not ((deep or narrow > 1) and by_elements and _in_runs(facts, nest, lane, width)):
        return Shape(lane, width, unroll)
    # LLVM computes a vector that is longer than a register by turns, an instruction for each part;
    # chunks it computes one after the other if registers are few (exp on AVX2: .48 ns an element in
    # four chunks, .3 in one of four registers; AVX-512: .18 and .14 in two of two). What is stored
    # as bytes or in 16 bits comes from four or two registers, which are packed into one and take
    # one store (fp32 to int8 on AVX2: .09 ns an element, .13 in four chunks; to int16 .1 and .12);
    # AVX-512 has an instruction for each register.
    parts = min(unroll, max(narrow, (4 if facts.registers < 32 else 2) if deep else 1))
    return Shape(lane, parts * width, unroll // parts)


def _stored_bits(nest: Nest, most: int) -> int:
    """The bits of the smallest elements that a nest stores, or `most`."""
    stored = [8 * memory_bytes(r.value.type) for r in nest.roots if r.stores_elements]
    return min([most, *stored])


def _in_runs(facts: Facts, nest: Nest, lane: int, width: int) -> bool:
    """True if all that a nest reads and stores are runs of `width` elements along the lanes, or the
    same for them."""
    everywhere = tuple(range(len(nest.domain)))
    stores = [root for root in nest.roots if root.stores_elements]
    stored = ((everywhere, facts.address_info(root.ptr).contiguity) for root in stores)
    for dims, contiguity in chain(stored, _reads(facts, nest)):
        along = [c for d, c in zip(dims, contiguity, strict=True) if d == lane]
        if along and along[0] % width:
            return False
    return True


def _scan_shape(facts: Facts, scan: CombiningOp, domain: tuple[int, ...]) -> Shape:
    bits = max(8 * memory_bytes(v.type) for v in scan.operands)
    width = min(facts.bits // max(bits, 32), domain[-1])
    return Shape(len(domain) - 1, 1 if runs_on_scalars(scan) else width, 1)


def _lane_bits(type: ir.Type) -> int:
    """Bits that a lane computes in: sixteen-bit floats are computed as float."""
    bits = ir.bit_width(type)
    if ir.is_float(type):
        return max(bits, 32)
    return 8 if bits == 1 else bits


def _lane_dimension(domain: tuple[int, ...]) -> int:
    last = len(domain) - 1
    if domain[last] >= 8:
        return last
    return max(range(len(domain)), key=lambda d: (domain[d] if domain[d] <= 16 else 16, d))


Dims = tuple[int | None, ...]
"""For each axis of a value the dimension of the nest that it runs along."""


def store_dimension(facts: Facts, nest: Nest) -> int | None:
    """The dimension along which all stores of a nest are consecutive; None for the last."""
    last = len(nest.domain) - 1
    found: set[int] = set()
    for root in nest.roots:
        if not root.stores_elements:
            return None
        contiguity = facts.address_info(root.ptr).contiguity
        found.add(max(range(last, -1, -1), key=lambda d: contiguity[d]))
    (dim,) = found if len(found) == 1 else (last,)
    return None if dim == last or nest.domain[dim] < 8 else dim


def block_dimension(facts: Facts, nest: Nest, lane: int, width: int) -> int | None:
    """A dimension along which reads are consecutive that are not so along the lanes."""
    if nest.axis is not None or width < 4 or len(nest.domain) < 2:
        return None
    for dims, contiguity in _reads(facts, nest):
        along = [c for d, c in zip(dims, contiguity, strict=True) if d == lane]
        if not along or along[0] % width == 0:
            continue
        for dim, count in zip(dims, contiguity, strict=True):
            if dim is not None and count % width == 0 and nest.domain[dim] >= width:
                return dim
    return None


def _reads(facts: Facts, nest: Nest) -> Iterator[tuple[Dims, tuple[int, ...]]]:
    """Loads and reads of buffers: along what they run, and how far they are consecutive."""
    stack: list[tuple[SSAValue, Dims]] = [
        (v, tuple(range(len(nest.domain)))) for root in nest.roots for v in tiles_of(root)
    ]
    seen: set[tuple[SSAValue, Dims]] = set()
    filling = {copy.value for copy in nest.copies}
    while stack:
        value, dims = stack.pop()
        if (value, dims) in seen or len(ir.shape_of(value.type)) != len(dims):
            continue
        seen.add((value, dims))
        owner: Any = value.owner
        if value in facts.buffers and value not in filling:
            shape = ir.shape_of(value.type)
            yield dims, (*(1 for _ in shape[:-1]), shape[-1])
        elif isinstance(owner, Block):
            continue
        elif owner.loads_elements:
            yield dims, facts.address_info(owner.operands[0]).contiguity
        else:
            stack.extend(_operands(owner, dims))


def _operands(op: Any, dims: Dims) -> Iterator[tuple[SSAValue, Dims]]:
    moves = op.source_axes() is not None
    if not moves and not op.is_elementwise:
        return
    for operand in op.operands:
        if isinstance(operand.type, ir.TensorType):
            axes = result_axes(op) if moves else ()
            yield operand, tuple(None if a is None else dims[a] for a in axes) if moves else dims
