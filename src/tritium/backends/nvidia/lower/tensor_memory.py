"""Tensor memory (sm_100): 128 rows of 512 columns of 32 bits. A warp reaches the 32 rows that its
number modulo 4 says; an address has the row in its upper half and the column in its lower."""

from __future__ import annotations

from typing import Any

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
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP, linear
from tritium.ir.layouts.tensor_memory import (
    COLUMN,
    ROW,
    ROWS,
    TensorEncoding,
    TensorMemoryEncoding,
)
from tritium.ops import ttgir
from tritium.ops.ttgir.tensor_memory import columns_of

LEAST_COLUMNS = 32
MOST_WORDS = 128
"""Of one load or store."""
OF_ROW = 16
"""The bit of an address at which the row begins."""


def scratch_bytes(op: Any) -> int:
    """Shared memory to which the address of an allocation is written."""
    return 16


@lowers(NVIDIA, ttgir.TMemAllocOp, scratch=scratch_bytes)
def allocate(c: Context, op: Any) -> None:
    """Warp 0 allocates and, before the kernel returns, frees."""
    if op.parent_op().parent_op() is not op.get_toplevel_object():
        raise c.unsupported(op, "in a branch, loop or partition")
    type, place, first = op.results[0].type, c.shared(c.offsets[op]), _first_warp(c)
    count = max(LEAST_COLUMNS, 1 << (columns_of(type) - 1).bit_length())
    text = f"@$1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], {count};"
    c.asm("void", text, "r,b,~{memory}", c.address(place), first)
    c.barrier()
    address = c.f.load("i32", place, 4)
    c.barrier()  # the place is used again
    before = c.at_return

    def free() -> None:
        c.barrier()
        text = f"@$1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, {count};"
        c.asm("void", text, "r,b,~{memory}", address, _first_warp(c))
        before()

    c.at_return = free
    memory = Memory(address, type)
    c.set(op.results[0], memory)
    if op.src is not None:
        _store(c, op, memory, op.src, None)


def _first_warp(c: Context) -> Value:
    return c.f.icmp("eq", uniform_warp(c), c.i32(0))


def place_of(c: Context, op: Any, tile_type: Any, memory: Any) -> tuple[dict[int, int], int]:
    """The column, in elements, of each register, and how much further the upper half of the lanes
    is, where it has the rows of the lower (0 where it has its own). Raises `NotImplementedError`
    for layouts in which a warp does not have the rows that it reaches, one a lane."""
    where: dict[tuple[int, ...], tuple[str, int]] = {}
    layout = linear(memory.encoding, memory.allocation_shape()[-2:])
    for name in (COLUMN, ROW):
        for bit, basis in enumerate(layout.bases(name)):
            if any(basis):
                where[tuple(basis)] = name, 1 << bit
    tile = layout_of(tile_type)
    free = [1 << i for i, basis in enumerate(layout.bases(ROW)) if not any(basis)]
    rows = {LANE: [1 << i for i in range(5)], WARP: [32, 64]}
    half = _column(c, op, tile_type, where, tile.bases(LANE)[4], otherwise=0)
    for name, wanted in rows.items():
        for basis, row in zip(tile.bases(name), wanted, strict=False):
            if name == LANE and half and row == 16:
                continue
            there = where.get(tuple(basis)) == (ROW, row)
            if not there and (any(basis) or row not in free or _is_half(memory)):
                raise c.unsupported(op, f"with the layout {tile_type.encoding}")
    columns = [_column(c, op, tile_type, where, basis) for basis in tile.bases(REGISTER)]
    found: dict[int, int] = {}
    for register in range(tile.in_size(REGISTER)):
        found[register] = sum(x for i, x in enumerate(columns) if register >> i & 1)
    return found, half


def _is_half(memory: Any) -> bool:
    """Whether blocks have 64 rows: what lies between them is no copy."""
    encoding = memory.encoding
    return isinstance(encoding, TensorMemoryEncoding) and encoding.get("blockM") < ROWS


def _column(
    c: Context, op: Any, type: Any, where: dict[tuple[int, ...], tuple[str, int]], basis: Any,
    otherwise: int | None = None,
) -> int:  # fmt: skip
    """The column of what a basis adds. What is in none is unsupported, or `otherwise`."""
    if not any(basis):
        return 0
    name, column = where.get(tuple(basis), (ROW, 0))
    if name != COLUMN:
        if otherwise is not None:
            return otherwise
        raise c.unsupported(op, f"with the layout {type.encoding}")
    return column


def _words(
    c: Context, op: Any, type: Any, memory: Memory
) -> tuple[list[list[int]], dict[int, list[tuple[int, int]]], tuple[str, str]]:
    """(runs of neighbouring columns that one access takes, for each column the registers in it:
    which, and at what bit, the name of the access and its last operand)."""
    size, words = 8 * memory_bytes(type), dict[int, list[tuple[int, int]]]()
    places, half = place_of(c, op, type, memory.type)
    if half * size % 32:
        raise c.unsupported(op, f"with the layout {type.encoding}")
    for register, column in places.items():
        word, bit = divmod(column * size, 32)
        words.setdefault(word, []).append((register, bit))
    runs: list[list[int]] = []
    for word in sorted(words):
        if runs and runs[-1][-1] + 1 == word:
            runs[-1].append(word)
        else:
            runs.append([word])
    parts = [part for run in runs for part in _powers_of_two(run)]
    how = ("16x32bx2", f", {half * size // 32}") if half else ("32x32b", "")
    return parts, words, how


def _powers_of_two(run: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    while run:
        count = min(MOST_WORDS, 1 << len(run).bit_length() - 1)
        found.append(run[:count])
        run = run[count:]
    return found


def _start(c: Context, op: Any, type: Any, memory: Memory) -> Value:
    """The address of the first column of this warp's part."""
    f, tile, layout = c.f, layout_of(type), memory.type
    warp = uniform_warp(c)
    row = f.op("shl", f.op("and", warp, c.i32(3)), c.i32(OF_ROW + 5))
    start = f.op("add", memory.address, row)
    further = tile.bases(WARP)[2:]
    if not any(map(any, further)):
        return start
    where = {
        tuple(basis): 1 << bit for bit, basis in enumerate(
            linear(layout.encoding, layout.allocation_shape()[-2:]).bases(COLUMN))
    }  # fmt: skip
    size = 8 * memory_bytes(type)
    columns = [where.get(tuple(b), 0) * size // 32 for b in further]
    moved = c.linear_map(f.op("lshr", warp, c.i32(2)), columns)
    return start if moved is None else f.op("add", start, moved)


@lowers(NVIDIA, ttgir.TMemLoadOp)
def load(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    element, (runs, words, (shape, half)) = memory_type(type), _words(c, op, type, memory)
    start, found = _start(c, op, type, memory), dict[int, Value]()
    c.asm("void", "tcgen05.fence::after_thread_sync;", "~{memory}")
    for run in runs:
        n = len(run)
        names = ", ".join(f"${i}" for i in range(n))
        text = f"tcgen05.ld.sync.aligned.{shape}.x{n}.b32 {{{names}}}, [${n}]{half};"
        struct = "i32" if n == 1 else "{ " + ", ".join(["i32"] * n) + " }"
        address = c.f.op("add", start, c.i32(run[0])) if run[0] else start
        wait = " tcgen05.wait::ld.sync.aligned;"
        loaded = c.asm(struct, text + wait, ",".join(["=r"] * n) + ",r,~{memory}", address)
        for word, value in zip(run, c.members(loaded, ["i32"] * n), strict=True):
            for register, bit in words[word]:
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
    runs, words, (shape, half) = _words(c, op, type, memory)
    start = _start(c, op, type, memory)
    c.asm("void", "tcgen05.fence::after_thread_sync;", "~{memory}")
    for run in runs:
        n = len(run)
        parts = [_word(c, values, words[word]) for word in run]
        names = ", ".join(f"${i + 1}" for i in range(n))
        guard = "" if condition is None else f"@${n + 1} "
        text = f"{guard}tcgen05.st.sync.aligned.{shape}.x{n}.b32 [$0]{half}, {{{names}}};"
        codes = ["r"] * (n + 1) + ([] if condition is None else ["b"])
        address = c.f.op("add", start, c.i32(run[0])) if run[0] else start
        given = [] if condition is None else [condition]
        c.asm("void", text, ",".join([*codes, "~{memory}"]), address, *parts, *given)
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
    layout = linear(type.encoding, type.allocation_shape()[-2:])
    column, rest = 0, op.offset
    for bit, basis in enumerate(layout.bases(COLUMN)):
        if basis[1] and op.offset & basis[1]:
            column, rest = column | 1 << bit, rest & ~basis[1]
    if rest:
        raise c.unsupported(op, f"from column {op.offset} on of {type}")
    c.set(op.results[0], moved(c, c.memory(op.src), column * size // 32, op.results[0].type))


@lowers(NVIDIA, ttgir.MemDescIndexOp)
def index(c: Context, op: Any) -> None:
    type = op.results[0].type
    if not isinstance(type.encoding, TensorEncoding):
        shared.index(c, op)
        return
    columns = c.f.op("mul", c.scalar(op.index), c.i32(columns_of(type)))
    c.set(op.results[0], moved(c, c.memory(op.src), columns, type))
