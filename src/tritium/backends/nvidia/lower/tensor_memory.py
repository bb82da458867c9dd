"""Tensor memory (sm_100): 128 rows of 512 columns of 32 bits. A warp reaches the 32 rows that its
number modulo 4 says; an address has the row in its upper half and the column in its lower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.wgmma import uniform_warp
from tritium.codegen.gpu.context import Context, Memory, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory import shared
from tritium.codegen.gpu.memory.access import from_memory, to_memory
from tritium.codegen.gpu.types import memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.errors import OutOfResources
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.tensor_memory import (
    COLUMN,
    COLUMNS,
    ROW,
    ROWS,
    TensorEncoding,
    TensorMemoryEncoding,
)
from tritium.ops import ttgir
from tritium.ops.ttgir.tcgen05 import is_of_pair
from tritium.ops.ttgir.tensor_memory import columns_of

LEAST_COLUMNS = 32
OF_ROW = 16
"""The bit of an address at which the row begins."""
Place: TypeAlias = "tuple[int, int]"
"""A row and a column, or what is added to them."""


def blocks_together(c: Context, op: Any) -> int:
    """The number of thread blocks that the kernel's instructions for tensor memory concern: all of
    them must say the same."""
    if c.num_ctas == 1:
        return 1
    memories = (v.type for o in op.get_toplevel_object().walk() for v in o.results)
    return 2 if any(is_of_pair(type) for type in memories) else 1


def scratch_bytes(op: Any) -> int:
    """Shared memory to which the address of a kernel's first allocation is written."""
    return 16


def _places(op: Any) -> tuple[dict[Any, int], int]:
    """The first column of each of a kernel's allocations, and the number of all columns. Each is a
    power of two, the widest come first."""
    allocations = [
        o for o in op.get_toplevel_object().walk() if isinstance(o, ttgir.TMemAllocOp)
    ]  # fmt: skip
    places, end = dict[Any, int](), 0
    widths = {o: 1 << (columns_of(o.results[0].type) - 1).bit_length() for o in allocations}
    for allocation in sorted(allocations, key=lambda o: -widths[o]):
        places[allocation], end = end, end + widths[allocation]
    return places, end


@lowers(NVIDIA, ttgir.TMemAllocOp, scratch=scratch_bytes)
def allocate(c: Context, op: Any) -> None:
    """The first allocation is of the memory of all: of two thread blocks on a multiprocessor that
    each had a part, neither might get the rest."""
    if op.parent_op().parent_op() is not op.get_toplevel_object():
        raise c.unsupported(op, "in a branch, loop or partition")
    places, columns = _places(op)
    first = next(o for o in op.get_toplevel_object().walk() if o in places)
    if columns > COLUMNS:
        raise OutOfResources(columns, COLUMNS, "tensor memory")
    if op is first:
        start = _allocate(c, op, max(LEAST_COLUMNS, 1 << (columns - 1).bit_length()))
    else:
        start = c.f.op("sub", c.memory(first.results[0]).address, c.i32(places[first]))
    type = op.results[0].type
    memory = Memory(c.f.op("add", start, c.i32(places[op])) if places[op] else start, type)
    c.set(op.results[0], memory)
    if op.src is not None:
        _store(c, op, memory, op.src, None)


def _allocate(c: Context, op: Any, count: int) -> Value:
    """Allocate `count` columns; returns the first. Warp 0 does, and frees them before the kernel
    ends."""
    place, first = c.shared(c.offsets[op]), _first_warp(c)
    c.tensor_columns = count
    if (blocks := blocks_together(c, op)) > 1:
        c.synchronize()  # both blocks run
    text = f"@$1 tcgen05.alloc.cta_group::{blocks}.sync.aligned.shared::cta.b32 [$0], {count};"
    # Lets other programs of the multiprocessor allocate before this one returns.
    permit = f"tcgen05.relinquish_alloc_permit.cta_group::{blocks}.sync.aligned"
    c.asm("void", f"{text} @$1 {permit};", "r,b,~{memory}", c.address(place), first)
    c.barrier()
    address = c.f.load("i32", place, 4)
    c.barrier()  # the place is used again
    before = c.at_return

    def free() -> None:
        if blocks > 1:
            c.synchronize()  # neither uses the other's any more
        else:
            c.barrier()
        text = f"@$1 tcgen05.dealloc.cta_group::{blocks}.sync.aligned.b32 $0, {count};"
        c.asm("void", text, "r,b,~{memory}", address, _first_warp(c))
        before()

    c.at_return = free
    return address


def _first_warp(c: Context) -> Value:
    return c.f.icmp("eq", uniform_warp(c), c.i32(0))


@dataclass(frozen=True)
class _Shape:
    """The distribution of memory by an instruction: what each bit of the lane, and of the first
    registers, adds to the row and to the column (of 32 bits) of a place.

    Attributes:
        unit: the columns that the least of its kind takes; registers: it has of them.
        most: such units, of one instruction. All have 32 registers then: an instruction of more
            does not assemble where threads may have few.
    """

    name: str
    lanes: tuple[Place, ...]
    registers: tuple[Place, ...]
    unit: int
    most: int


_ROWS_OF_LANES: tuple[Place, ...] = ((1, 0), (2, 0), (4, 0))
_SHAPES = (
    _Shape("32x32b", (*_ROWS_OF_LANES, (8, 0), (16, 0)), (), 1, 32),
    _Shape("16x64b", ((8, 0), (0, 1), *_ROWS_OF_LANES), (), 2, 32),
    _Shape("16x128b", ((0, 1), (0, 2), *_ROWS_OF_LANES), ((8, 0),), 4, 16),
    _Shape("16x256b", ((0, 2), (0, 4), *_ROWS_OF_LANES), ((0, 1), (8, 0)), 8, 8),
)
_HALVES = "16x32bx2"
"""The shape of 16 rows, to which the upper half of the lanes adds columns; else like 32x32b."""


class _Access:
    """The instructions that load or store a tile.

    Attributes:
        shape: of all of them; half: the columns that the upper half of the lanes adds.
        runs: (row, column) of the first place of each, with its registers: by what lies in them.
        words: the registers of the tile at a place, and the bit at which each lies.
    """

    def __init__(self, c: Context, op: Any, type: Any, memory: Memory):
        self.failure = c.unsupported(
            op, f"of {type} in {memory.type}: layouts that get_tmem_reg_layout gives are allowed"
        )
        self.size, self.tile = 8 * memory_bytes(type), layout_of(type)
        self.layout = linear(memory.type.encoding, memory.type.allocation_shape()[-2:])
        self.where, self.free = _inverse(self.layout), list[int]()
        if not _is_half(memory.type):  # where rows are missing what lies there is no copy
            rows = enumerate(self.layout.bases(ROW))
            self.free = [1 << bit for bit, basis in rows if not any(basis)]
        if BLOCK in self.layout.in_names and self.tile.bases(BLOCK) != self.layout.bases(BLOCK):
            raise self.failure
        self.warps = [self.place(basis) for basis in self.tile.bases(WARP)]
        for found, row in zip(self.warps, (32, 64), strict=False):
            if found != (row, 0) and (found != (0, 0) or row not in self.free):
                raise self.failure
        self.shape, self.half = self._shape()
        self.words = self._words()
        self.runs = list(self._runs())

    def place(self, basis: Sequence[int]) -> Place:
        """The row and the column, in bits, that a basis of the tile adds."""
        if not any(basis):
            return 0, 0
        if tuple(basis) not in self.where:
            raise self.failure
        name, place = self.where[tuple(basis)]
        return (place, 0) if name == ROW else (0, place * self.size)

    def _shape(self) -> tuple[_Shape, int]:
        places = [self.place(basis) for basis in self.tile.bases(LANE)]
        for shape in _SHAPES:
            wanted = [(row, 32 * column) for row, column in shape.lanes]
            missing = [(0, 0) if row in self.free else (row, column) for row, column in wanted]
            if places in (wanted, missing):
                return shape, 0
        row, column = places[4]
        whole = [(place, 0) for place, _ in _SHAPES[0].lanes[:4]]
        if places[:4] == whole and not row and column and column % 32 == 0:
            return _SHAPES[0], column // 32
        raise self.failure

    def _words(self) -> dict[Place, list[tuple[int, int]]]:
        found: dict[Place, list[tuple[int, int]]] = {}
        places = [self.place(basis) for basis in self.tile.bases(REGISTER)]
        for register in range(self.tile.in_size(REGISTER)):
            chosen = [place for i, place in enumerate(places) if register >> i & 1]
            word, bit = divmod(sum(column for _, column in chosen), 32)
            found.setdefault((sum(row for row, _ in chosen), word), []).append((register, bit))
        return found

    def _runs(self) -> Iterator[list[Place]]:
        """For each instruction, the places in memory that its registers hold."""
        unit, inside = self.shape.unit, [(0, 0)]
        for row, column in self.shape.registers:
            inside += [(r + row, w + column) for r, w in inside]
        reached = sum(row for row, _ in self.shape.registers)
        starts = {(row & ~reached, word // unit) for row, word in self.words}
        units = {s: [(s[0] + r, s[1] * unit + w) for r, w in inside] for s in starts}
        if {place for places in units.values() for place in places} != set(self.words):
            raise self.failure
        runs: list[list[Place]] = []
        for row, number in sorted(units):
            if runs and (runs[-1][-1][0], runs[-1][-1][1] + 1) == (row, number):
                runs[-1].append((row, number))
            else:
                runs.append([(row, number)])
        for run in runs:
            for part in _powers_of_two(run, self.shape.most):
                yield [place for start in part for place in units[start]]

    def instruction(self, name: str, count: int) -> tuple[str, str]:
        """The instruction for `count` registers up to its operands, and its last operand."""
        number = count >> len(self.shape.registers)
        shape = _HALVES if self.half else self.shape.name
        how = f"tcgen05.{name}.sync.aligned.{shape}.x{number}.b32"
        return how, f", {self.half}" if self.half else ""

    def start(self, c: Context, memory: Memory) -> Value:
        """The address of the first row and column of this warp's part."""
        f, warp = c.f, uniform_warp(c)
        row = f.op("shl", f.op("and", warp, c.i32(3)), c.i32(OF_ROW + 5))
        start = f.op("add", memory.address, row)
        steps = [row << OF_ROW | column // 32 for row, column in self.warps[2:]]
        moved = c.linear_map(f.op("lshr", warp, c.i32(2)), steps) if any(steps) else None
        return start if moved is None else f.op("add", start, moved)


def _inverse(layout: LinearLayout) -> dict[tuple[int, ...], tuple[str, int]]:
    """The bit of the memory's row or column for each basis of the tile's coordinates."""
    return {
        tuple(basis): (name, 1 << bit)
        for name in (COLUMN, ROW) for bit, basis in enumerate(layout.bases(name)) if any(basis)
    }  # fmt: skip


def _is_half(memory: Any) -> bool:
    """True if blocks have 64 rows: what lies between them is no copy."""
    encoding = memory.encoding
    return isinstance(encoding, TensorMemoryEncoding) and encoding.get("blockM") < ROWS


def _powers_of_two(run: list[Place], most: int) -> Iterator[list[Place]]:
    while run:
        count = min(most, 1 << len(run).bit_length() - 1)
        yield run[:count]
        run = run[count:]


def _at(c: Context, start: Value, place: Place) -> Value:
    further = place[0] << OF_ROW | place[1]
    return c.f.op("add", start, c.i32(further)) if further else start


@lowers(NVIDIA, ttgir.TMemLoadOp)
def load(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    element, access = memory_type(type), _Access(c, op, type, memory)
    start, found = access.start(c, memory), dict[int, Value]()
    c.asm("void", "tcgen05.fence::after_thread_sync;", "~{memory}")
    for run in access.runs:
        n = len(run)
        how, half = access.instruction("ld", n)
        names = ", ".join(f"${i}" for i in range(n))
        text = f"{how} {{{names}}}, [${n}]{half}; tcgen05.wait::ld.sync.aligned;"
        struct = "i32" if n == 1 else "{ " + ", ".join(["i32"] * n) + " }"
        address = _at(c, start, run[0])
        loaded = c.asm(struct, text, ",".join(["=r"] * n) + ",r,~{memory}", address)
        for place, value in zip(run, c.members(loaded, ["i32"] * n), strict=True):
            for register, bit in access.words[place]:
                part = _part(c, value, element, bit)
                found[register] = from_memory(c, part, type)
    c.asm("void", "tcgen05.fence::before_thread_sync;", "~{memory}")
    c.barrier()
    c.set(op.results[0], [found[r] for r in range(len(found))])


def _part(c: Context, word: Value, element: str, bit: int) -> Value:
    moved = c.f.op("lshr", word, c.i32(bit)) if bit else word
    size = bits_of(element)
    return c.as_type(moved if size == 32 else c.f.cast("trunc", moved, f"i{size}"), element)


@lowers(NVIDIA, ttgir.TMemStoreOp)
def store(c: Context, op: Any) -> None:
    _store(c, op, c.memory(op.dst), op.src, c.scalar(op.pred))


def _store(c: Context, op: Any, memory: Memory, src: Any, condition: Value | None) -> None:
    values, type = c.tile(src), src.type
    access = _Access(c, op, type, memory)
    start = access.start(c, memory)
    c.asm("void", "tcgen05.fence::after_thread_sync;", "~{memory}")
    for run in access.runs:
        n = len(run)
        how, half = access.instruction("st", n)
        parts = [_word(c, values, access.words[place]) for place in run]
        names = ", ".join(f"${i + 1}" for i in range(n))
        guard = "" if condition is None else f"@${n + 1} "
        codes = ["r"] * (n + 1) + ([] if condition is None else ["b"])
        given = [] if condition is None else [condition]
        c.asm("void", f"{guard}{how} [$0]{half}, {{{names}}};", ",".join([*codes, "~{memory}"]),
              _at(c, start, run[0]), *parts, *given)  # fmt: skip
    text = "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;"
    c.asm("void", text, "~{memory}")
    c.barrier()


def _word(c: Context, values: Any, members: list[tuple[int, int]]) -> Value:
    """A column of 32 bits from the registers in it."""
    word = None
    for register, bit in members:
        value = to_memory(c, values[register])
        size = bits_of(value.type)
        part = c.as_type(value, f"i{size}")
        part = c.f.cast("zext", part, "i32") if size < 32 else part
        part = c.f.op("shl", part, c.i32(bit)) if bit else part
        word = part if word is None else c.f.op("or", word, part)
    assert word is not None
    return word


def moved(c: Context, memory: Memory, columns: Value | int, type: Any) -> Memory:
    """A view some columns further on."""
    number = c.i32(columns) if isinstance(columns, int) else columns
    return Memory(c.f.op("add", memory.address, number), type)


@lowers(NVIDIA, ttgir.TMemSubSliceOp)
def subslice(c: Context, op: Any) -> None:
    type, size = op.src.type, ir.bit_width(op.src.type.element_type)
    shape = type.allocation_shape()[-len(type.get_shape()) :]
    offset: int = op.offset
    axis = op.dim - len(shape)
    if axis < -2:
        columns = offset * type.encoding.columns_of(shape[op.dim + 1 :], size)
    else:
        layout = linear(type.encoding, shape[-2:])
        steps: list[int] = [basis[axis] for basis in layout.bases(COLUMN)]
        column = sum(1 << bit for bit, step in enumerate(steps) if offset & step)
        if offset & ~sum(set(steps)):
            raise c.unsupported(op, f"from {offset} on along axis {op.dim} of {type}")
        columns = column * size // 32
    c.set(op.results[0], moved(c, c.memory(op.src), columns, op.results[0].type))


@lowers(NVIDIA, ttgir.MemDescIndexOp)
def index(c: Context, op: Any) -> None:
    type = op.results[0].type
    if not isinstance(type.encoding, TensorEncoding):
        shared.index(c, op)
        return
    columns = c.f.op("mul", c.scalar(op.index), c.i32(columns_of(type)))
    c.set(op.results[0], moved(c, c.memory(op.src), columns, type))
