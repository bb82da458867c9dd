"""Products by sm_100's tensor cores (tcgen05.mma), copies to tensor memory (tcgen05.cp), and the
commits by which an mbarrier learns that they are done. One thread starts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.tensor_memory import OF_ROW, blocks_together
from tritium.backends.nvidia.lower.wgmma import Operand, describe
from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.memory.shared import memory_layout
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import OFFSET, linear, part_of
from tritium.ir.layouts.tensor_memory import (
    COLUMN,
    ROW,
    ROWS,
    TensorEncoding,
    TensorMemoryScalesEncoding,
)
from tritium.ops import ttgir
from tritium.ops.ttgir.tcgen05 import is_of_pair, run_of
from tritium.ops.ttgir.types import copies_of
from tritium.ops.ttir.dot import ScaleFormat

_KINDS: dict[Any, tuple[str, int]] = {
    ir.f16: ("f16", 0), ir.bf16: ("f16", 1), ir.f32: ("tf32", 2), ir.i8: ("i8", 1),
    ir.f8e4m3fn: ("f8f6f4", 0), ir.f8e5m2: ("f8f6f4", 1),
}  # fmt: skip
"""The kind of instruction, and the operand's format in its descriptor."""
_SUMS = {ir.f16: 0, ir.f32: 1, ir.i32: 2}
_SCALED = {ScaleFormat.E4M3: 0, ScaleFormat.E5M2: 1, ScaleFormat.E2M1: 1}
"""Formats of operands with scales; those of E2M1 alone have instructions of their own."""
_E2M1_BESIDE_OTHERS = 5
MOST_COLUMNS = 256
"""The most columns of the result of one instruction."""
VERSION = 1 << 46
"""In descriptors of operands in shared memory."""
STEP_BYTES = 32
"""Along k, of one instruction."""


def _place(memory: Any, axis: int, place: int) -> int:
    """The address, of a row and a column of 32 bits, of what begins at a multiple of a power of two
    along an axis."""
    layout = linear(memory.encoding, memory.allocation_shape()[-2:])
    found = {COLUMN: 0, ROW: 0}
    for name in found:
        for bit, basis in enumerate(layout.bases(name)):
            found[name] |= (1 << bit) if basis[axis] and place & basis[axis] else 0
    column = found[COLUMN] * ir.bit_width(memory.element_type) // 32
    return found[ROW] << OF_ROW | column


def encoded(c: Context, operand: Operand) -> Value:
    """The descriptor of an operand in shared memory."""
    f = c.f
    start = f.op("lshr", f.op("and", operand.start, c.i32(0x3FFFF)), c.i32(4))
    base = operand.base | VERSION
    signed = base if base < 1 << 63 else base - (1 << 64)
    return f.op("or", f.cast("zext", start, "i64"), const("i64", signed), "disjoint")


class _Product:
    """The instructions of one product.

    Attributes:
        kind: of instruction; formats: of the operands, in its descriptor.
    """

    def __init__(self, c: Context, op: Any):
        self.c, self.op, self.arguments, self.codes = c, op, list[Value](), list[str]()
        a, b, d = op.a.type, op.b.type, op.d.type
        if b.element_type not in _KINDS or d.element_type not in _SUMS:
            raise c.unsupported(op, f"of {b.element_type} to {d.element_type}")
        self.kind, right = _KINDS[b.element_type]
        self.formats = _KINDS[a.element_type][1], right
        self.blocks = blocks_together(c, op)
        self.part = part_of(d.encoding.get("CGALayout"), d.get_shape())
        if (self.blocks > 1) != is_of_pair(d):
            raise c.unsupported(op, "of one block, in a kernel with products of two")
        self.rows = d.encoding.get("blockM")
        self.width = min(d.encoding.get("blockN"), MOST_COLUMNS, self.part[1])
        self.packs: tuple[int, int] = op.packs if self.scaled else (1, 1)
        self.step = STEP_BYTES * 8 // ir.bit_width(b.element_type)
        self.step *= 2 if self.packed else 1
        self.a_columns = isinstance(a.encoding, TensorEncoding)
        self.a = None if self.a_columns else describe(c, c.memory(op.a), 1)
        self.b = describe(c, c.memory(op.b), 0)
        if 2 in self.packs:
            left, right = (
                _SCALED[f] if self.packed or pack == 1 else _E2M1_BESIDE_OTHERS
                for f, pack in zip((op.a_type, op.b_type), self.packs, strict=True)
            )
            self.formats = left, right
            if not self.b.k_major or (self.a is not None and not self.a.k_major):
                raise c.unsupported(op, "of e2m1, unless k goes along the rows of shared memory")

    def argument(self, value: Value, code: str) -> str:
        """The operand's name in the assembly; the same value is passed once."""
        if value not in self.arguments:
            self.arguments.append(value)
            self.codes.append(code)
        return f"${self.arguments.index(value)}"

    def descriptor(self, scale: int = 0) -> int:
        """The instruction's descriptor (PTX ISA, "Instruction descriptor")."""
        sums = 0 if self.scaled else _SUMS[self.op.d.type.element_type] << 4
        left, right = self.formats
        turned = (self.a is not None and not self.a.k_major) << 15 | (not self.b.k_major) << 16
        found = sums | left << 7 | right << 10 | turned | self.width >> 3 << 17
        found |= self.rows * self.blocks >> 4 << 24
        if not self.scaled:
            return found
        powers = self.op.a_scale.type.element_type != ir.f8e4m3fn
        return found | powers << 23 | scale << 4 | scale << 29

    @property
    def scaled(self) -> bool:
        return isinstance(self.op, ttgir.TCGen5MMAScaledOp)

    @property
    def packed(self) -> bool:
        """True if both operands have two elements a byte."""
        return self.packs == (2, 2)

    def tiles(self) -> Iterator[tuple[int, int]]:
        """The first row and column of what each instruction gives."""
        rows, columns = self.part
        for m in range(0, rows, self.rows):
            for n in range(0, columns, self.width):
                yield m, n

    def write(self) -> None:
        """The code; thread 0 runs it, of two blocks that of the first."""
        c, op = self.c, self.op
        go = c.f.op("and", _starter(c, self.blocks), c.scalar(op.pred))
        guard = self.argument(go, "b")
        use = self.argument(c.f.cast("zext", c.scalar(op.useD), "i32"), "r")
        lines = [
            "{ .reg .pred use, always; .reg .b32 how, to, left, sa, sb; .reg .b64 da, db;",
            f"setp.ne.b32 use, {use}, 0; setp.eq.b32 always, 0, 0;",
            "tcgen05.fence::after_thread_sync;",
        ]
        for m, n in self.tiles():
            for k in range(0, op.b.type.get_shape()[0] * self.packs[1], self.step):
                lines += self.instruction(guard, m, n, k)
        for barrier, condition in zip(op.barriers, op.barrierPreds, strict=True):
            lines += self.commit(go, barrier, condition)
        self.c.asm("void", " ".join([*lines, "}"]), ",".join([*self.codes, "~{memory}"]),
                   *self.arguments)  # fmt: skip

    def commit(self, go: Value, barrier: Any, condition: Any) -> list[str]:
        """The arrival at a barrier."""
        place = self.c.address(self.c.memory(barrier).address)
        both = self.argument(self.c.f.op("and", go, self.c.scalar(condition)), "b")
        heard = _listeners(self.c, [self.op.a, self.op.b] if self.op.multicast else [], self.blocks)
        mask = "" if heard is None else self.argument(heard, "h")
        return [f"@{both} {commit_text(self.argument(place, 'r'), self.blocks, mask)}"]

    def instruction(self, guard: str, m: int, n: int, k: int) -> list[str]:
        """One product, with the computation of its descriptors."""
        op, memory = self.op, self.c.memory(self.op.d)
        column = _place(op.d.type, 0, m) + _place(op.d.type, 1, n)
        to = self.argument(memory.address, "r")
        right = self.argument(encoded(self.c, self.b), "l")
        lines = [f"add.u32 to, {to}, {column};"]
        in_a, in_b = (k // pack for pack in self.packs)
        lines.append(f"add.s64 db, {right}, {self.b.where(dim0=in_b, dim1=n) >> 4};")
        if self.a is None:
            start = self.argument(self.c.memory(op.a).address, "r")
            column = _place(op.a.type, 0, m) + _place(op.a.type, 1, in_a)
            lines.append(f"add.u32 left, {start}, {column};")
            left = "[left]"
        else:
            start = self.argument(encoded(self.c, self.a), "l")
            lines.append(f"add.s64 da, {start}, {self.a.where(dim0=m, dim1=in_a) >> 4};")
            left = "da"
        use = "always" if k else "use"
        if not self.scaled:
            lines.append(f"mov.b32 how, {self.descriptor()};")
            name = f"tcgen05.mma.cta_group::{self.blocks}.kind::{self.kind}"
            return [*lines, f"@{guard} {name} [to], {left}, db, how, {use};"]
        run = run_of(op.a_scale.type)
        number = k // run
        for side, scale, first in (("sa", op.a_scale, m), ("sb", op.b_scale, n)):
            start = self.argument(self.c.memory(scale).address, "r")
            where = _place(scale.type, 0, first) + _place(scale.type, 1, number)
            lines.append(f"add.u32 {side}, {start}, {where};")
        lines.append(f"mov.b32 how, {self.descriptor(number % 4)};")
        kind = ("mxf4" if run == 32 else "mxf4nvf4") if self.packed else "mxf8f6f4"
        name = f"tcgen05.mma.cta_group::{self.blocks}.kind::{kind}.block_scale.block{run}"
        return [*lines, f"@{guard} {name} [to], {left}, db, how, [sa], [sb], {use};"]


def commit_text(barrier: str, blocks: int, mask: str = "") -> str:
    """The instruction that arrives at a barrier when all work that was started is done. `mask`:
    the blocks of the cluster whose barriers it arrives at; empty: only this block's."""
    how, others = (".multicast::cluster", f", {mask}") if mask else ("", "")
    name = f"tcgen05.commit.cta_group::{blocks}.mbarrier::arrive::one.shared::cluster{how}.b64"
    return f"{name} [{barrier}]{others};"


def _starter(c: Context, blocks: int) -> Value:
    """True if this thread starts what the tensor cores do, for its block or for two."""
    first = c.f.icmp("eq", c.thread, c.i32(0))
    if blocks == 1:
        return first
    even = c.f.icmp("eq", c.f.op("and", c.block, c.i32(1)), c.i32(0))
    return c.f.op("and", first, even)


def _listeners(c: Context, memories: Sequence[Any], blocks: int) -> Value | None:
    """The blocks of the cluster (a mask of 16 bits) that are told of the end of this one's work:
    those with copies of one of the memories. None: the block itself."""
    if c.num_ctas == 1 or (blocks == 1 and not memories):
        return None
    found, pair = c.i32(0), blocks - 1
    for free in {copies_of(m.type) | pair for m in memories} or {pair}:
        first = sum(1 << block for block in range(c.num_ctas) if not block & ~free)
        mask = c.f.op("shl", c.i32(first), c.f.op("and", c.block, c.i32(~free)))
        found = c.f.op("or", found, mask)
    return c.f.cast("trunc", found, "i16")


@lowers(NVIDIA, ttgir.TCGen5MMAOp)
def multiply(c: Context, op: Any) -> None:
    _Product(c, op).write()


@lowers(NVIDIA, ttgir.TCGen5MMAScaledOp)
def multiply_scaled(c: Context, op: Any) -> None:
    for format in (op.a_type, op.b_type):
        if format not in _SCALED:
            raise c.unsupported(op, f"of {format.name.lower()}")
    _Product(c, op).write()


@lowers(NVIDIA, ttgir.TCGen5CommitOp)
def commit(c: Context, op: Any) -> None:
    blocks = blocks_together(c, op)
    go = _starter(c, blocks)
    if op.pred is not None:
        go = c.f.op("and", go, c.scalar(op.pred))
    place, heard = c.address(c.memory(op.barrier).address), _listeners(c, op.descs, blocks)
    mask, code = ("", "") if heard is None else ("$2", "h,")
    c.asm("void", f"@$1 {commit_text('$0', blocks, mask)}", f"r,b,{code}~{{memory}}", place, go,
          *([] if heard is None else [heard]))  # fmt: skip


BLOCK_BYTES, BLOCK_COLUMNS = 512, 4
"""Bytes that one copy of scales moves: 32 rows of 16 bytes, for all four warps."""


@lowers(NVIDIA, ttgir.TMemCopyOp)
def copy(c: Context, op: Any) -> None:
    if isinstance(op.dst.type.encoding, TensorMemoryScalesEncoding):
        _copy_scales(c, op)
    else:
        _copy_rows(c, op)


def _copy_rows(c: Context, op: Any) -> None:
    """Blocks of 128 rows, of which an instruction takes up to 32 bytes each."""
    source, target = describe(c, c.memory(op.src), 1), c.memory(op.dst)
    size, encoding = ir.bit_width(op.src.type.element_type) // 8, op.dst.type.encoding
    rows, columns = part_of(encoding.get("CGALayout"), op.dst.type.get_shape())
    whole = encoding.get("colStride") == 1 and encoding.get("blockM") == ROWS
    if not whole or not source.k_major or columns * size < 16:
        raise c.unsupported(op, f"from {op.src.type} to {op.dst.type}")
    blocks = blocks_together(c, op)
    first, width = _starter(c, blocks), min(STEP_BYTES, columns * size)
    start = encoded(c, source)
    for row in range(0, rows, ROWS):
        for column in range(0, columns, width // size):
            from_ = c.f.op("add", start, const("i64", source.where(dim0=row, dim1=column) >> 4))
            place = _place(op.dst.type, 0, row) + _place(op.dst.type, 1, column)
            to = c.f.op("add", target.address, c.i32(place))
            text = f"@$2 tcgen05.cp.cta_group::{blocks}.{ROWS}x{8 * width}b [$0], $1;"
            c.asm("void", text, "r,l,b,~{memory}", to, from_, first)


def _copy_scales(c: Context, op: Any) -> None:
    """Scales, which lie in shared memory as tensor memory has them."""
    source, target = c.memory(op.src), c.memory(op.dst)
    encoding, tile = target.type.encoding, target.type.get_shape()
    rows, columns = encoding.bases(part_of(encoding.get("CGALayout"), tile))
    wanted = [*columns[:4], *rows[:5], *columns[4:]]
    layout = memory_layout(source.type)
    if [list(b) for b in layout.bases(OFFSET)] != wanted or source.origin:
        raise c.unsupported(op, f"from {source.type}; memory with the bases {wanted} is required")
    blocks = blocks_together(c, op)
    first = _starter(c, blocks)
    start = c.f.op("lshr", c.f.op("and", c.address(source.address), c.i32(0x3FFFF)), c.i32(4))
    base = c.f.op("or", c.f.cast("zext", start, "i64"), const("i64", VERSION | 8 << 32))
    count = max(1 << len(wanted) >> 9, 1)
    for number in range(count):
        from_ = c.f.op("add", base, const("i64", number * BLOCK_BYTES >> 4))
        to = c.f.op("add", target.address, c.i32(number * BLOCK_COLUMNS))
        text = f"@$2 tcgen05.cp.cta_group::{blocks}.warpx4.32x128b [$0], $1;"
        c.asm("void", text, "r,l,b,~{memory}", to, from_, first)
