"""`ttng.warp_group_dot`: wgmma on operands in shared memory (the left one may be in registers).

The whole product is one piece of inline assembly, and the accumulators are tied through it and
through the wait that follows: ptxas serializes wgmma when it sees them touched in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.analysis.regions import is_loop_invariant
from tritium.backends.nvidia.lower.hardware import NVIDIA, shfl
from tritium.codegen.gpu.context import Context, Memory, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.shared import gaps_of, memory_layout
from tritium.codegen.gpu.types import value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import NVMMASharedEncoding, part_of
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ops import ttgir

_NAMES: dict[Any, str] = {
    ir.f16: "f16", ir.bf16: "bf16", ir.f32: "tf32", ir.i8: "s8",
    ir.f8e4m3fn: "e4m3", ir.f8e5m2: "e5m2",
}  # fmt: skip
_RESULTS: dict[Any, str] = {ir.f32: "f32", ir.i32: "s32", ir.f16: "f16"}
_SUMS_IN_HALF = (ir.f16, ir.f8e4m3fn, ir.f8e5m2)
MOST_CARRIED = 192
"""Registers a thread of tiles, at most, that a loop carries whose descriptors are computed outside
of it: they are kept in registers (an attention's gradients with 128 columns, which carry 256, are
.91 times as fast with them on an H200; those with 64 columns 1.05 times)."""
_SWIZZLE_MODE = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Operand:
    """An operand in shared memory, as matrix descriptors see it.

    Attributes:
        start: its address (i32).
        base: the descriptor without the address.
        where: the byte offset of a coordinate.
        k_major: whether neighbours along k are neighbours in memory.
    """

    start: Value
    base: int
    where: Any
    k_major: bool


def describe(c: Context, memory: Memory, k_axis: int) -> Operand:
    """The descriptor's fields, read off the memory's layout.

    The layout must be one of the tensor core's: rows of `swizzlingByteWidth` bytes in blocks of
    8, with 16-byte groups permuted.
    """
    encoding = memory.type.encoding
    if not isinstance(encoding, NVMMASharedEncoding):
        raise NotImplementedError(f"wgmma on shared memory in the layout {encoding}")
    swizzle, size = encoding.get("swizzlingByteWidth"), memory_bytes(memory.type.element_type)
    inner = 0 if encoding.get("transposed") else 1
    k_major = inner == k_axis
    shape = part_of(encoding.get("CGALayout"), memory.type.get_shape())
    where = byte_offsets(memory.type)
    chunk = max(swizzle, 16) // size // encoding.dilution
    outer_step = where(**{f"dim{1 - inner}": 8}) if shape[1 - inner] > 8 else 0
    inner_step = where(**{f"dim{inner}": chunk}) if shape[inner] > chunk else 0
    if swizzle == 0:  # the steps along k and across it, whichever is the inner one (PTX ISA)
        lead, stride = (inner_step, outer_step) if k_major else (outer_step, inner_step)
    elif k_major:
        lead, stride = 16, outer_step
    else:
        lead, stride = inner_step, outer_step
    base = _SWIZZLE_MODE[swizzle] << 62 | (stride >> 4) << 32 | (lead >> 4) << 16
    return Operand(c.start_of(memory), base, where, k_major)


def byte_offsets(type: Any) -> Any:
    """A function from coordinates (`dim0=.., dim1=..`) in a piece of shared memory to the byte
    offset of the element."""
    inverse, gaps = memory_layout(type).inverse(), gaps_of(type)
    size = memory_bytes(type.element_type)

    def where(**coordinates: int) -> int:
        offset = int(inverse.apply(coordinates)["offset"])
        return (offset + sum(offset // run * padding for run, padding in gaps)) * size

    return where


@lowers(NVIDIA, ttgir.WarpGroupDotOp)
def warp_group_dot(c: Context, op: Any) -> None:
    result = op.results[0].type
    encoding = result.encoding
    plan = _Plan(c, op, encoding)
    zeroed = op.useC is not None
    builder = _Asm(_packed(c, op.c))
    if zeroed:
        predicate = builder.argument(c.f.cast("zext", c.scalar(op.useC), "i32"), "r")
        builder.lines.append(f"setp.ne.b32 use, {predicate}, 0;")
    builder.lines.append("wgmma.fence.sync.aligned;")
    for m, n, registers in plan.tiles:
        for k in range(0, plan.extent, plan.step):
            use = "use" if zeroed and k == 0 else "1"
            plan.instruction(builder, m, n, k, registers, use)
    builder.lines.append("wgmma.commit_group.sync.aligned;")
    wait = _wait_that_follows(c, op)
    if wait is not None or not op.isAsync:
        pendings = 0 if wait is None else wait.pendings
        builder.lines.append(f"wgmma.wait_group.sync.aligned {pendings};")
    done = _unpacked(c, builder.emit(c), result)
    c.set(op.results[0], done)
    if wait is not None:
        _hand_on(c, wait, done)


def _packed(c: Context, tile: Any) -> list[Value]:
    """The registers of an accumulator; of 16-bit ones each has two neighbours along a row."""
    values = list(c.tile(tile))
    return c.pack(values, "i32") if bits_of(values[0].type) == 16 else values


def _unpacked(c: Context, registers: list[Value], type: Any) -> list[Value]:
    """The elements in registers that `_packed` gave."""
    element = value_type(ir.element_type(type))
    return c.unpack(registers, element) if bits_of(element) == 16 else registers


def _wait_that_follows(c: Context, op: Any) -> Any:
    """The wait right after a product that goes on, and for it alone: one piece of assembly with
    hundreds of operands does for both."""
    wait = op.next_op
    if not op.isAsync or not isinstance(wait, ttgir.WarpGroupDotWaitOp) or wait in c.barriers:
        return None
    tiles = [
        v for v in wait.inputs
        if v is op.results[0] or not isinstance(v.type, ttgir.MemDescType)
    ]  # fmt: skip
    alone = tiles == [op.results[0]] and len(list(op.results[0].uses)) == 1
    return wait if alone else None


def uniform_warp(c: Context) -> Value:
    """The warp's index in a form that the assembler knows to be the same in all lanes."""
    return c.at_entry("uniform warp", lambda: shfl(c, "idx", c.warp, c.i32(0)))


class _Asm:
    """Inline assembly over tied accumulators: `$0..` are these, arguments follow; `before` stands
    before all other lines."""

    def __init__(self, acc: list[Value]):
        self.acc, self.lines, self.before = acc, list[str](), list[str]()
        self.arguments: list[Value] = []
        self.codes: list[str] = []

    def argument(self, value: Value, code: str) -> str:
        """The operand's name; the same value is passed once."""
        if value not in self.arguments:
            self.arguments.append(value)
            self.codes.append(code)
        return f"${len(self.acc) + self.arguments.index(value)}"

    def renewed(self, name: str) -> str:
        """A copy of an operand that the assembler takes for another value in each iteration: ptxas
        12.8 and 12.9 copy registers that a loop does not change into the instruction's own once,
        before the loop, and give these to another product's operand as well where an mbarrier is
        waited for in between."""
        if not self.before:
            self.before.append(".reg .b32 zero; mov.u32 zero, %smid; shr.u32 zero, zero, 31;")
        copy = f"copy{name[1:]}"
        line = f".reg .b32 {copy}; or.b32 {copy}, {name}, zero;"
        if line not in self.before:
            self.before.append(line)
        return copy

    def emit(self, c: Context) -> list[Value]:
        kinds, n = [value.type for value in self.acc], len(self.acc)
        results = ["=f" if kind == "float" else "=r" for kind in kinds]
        constraints = results + self.codes + [str(i) for i in range(n)] + ["~{memory}"]
        struct = kinds[0] if n == 1 else "{ " + ", ".join(kinds) + " }"
        text = "{ .reg .pred use; " + " ".join(self.before + self.lines) + " }"
        done = c.asm(struct, text, ",".join(constraints), *self.arguments, *self.acc)
        return c.members(done, kinds)


class _Plan:
    """The instructions of one product: which part of the tile each computes, and its operands."""

    def __init__(self, c: Context, op: Any, encoding: Any):
        self.c, self.op = c, op
        self.a_type, self.b_type = op.a.type, op.b.type
        element = self.b_type.element_type
        if element not in _NAMES:
            raise c.unsupported(op, f"wgmma of {element}")
        self.result = ir.element_type(op.results[0].type)
        if self.result not in _RESULTS or (self.result == ir.f16 and element not in _SUMS_IN_HALF):
            raise c.unsupported(op, f"sums in {self.result} of products of {element}")
        self.types = [_NAMES[element if t is self.b_type else t.element_type]
                      for t in (self.a_type, self.b_type)]  # fmt: skip
        self.step = 256 // ir.bit_width(element)
        self.extent = self.b_type.get_shape()[0]
        self.width = encoding.get("instrShape")[1]
        warps = encoding.get("warpsPerCTA")
        self.b = describe(c, c.memory(op.b), 0)
        in_memory = isinstance(c.values[op.a], Memory)
        self.a = describe(c, c.memory(op.a), 1) if in_memory else None
        self.a_registers = None if in_memory else {
            p: i for i, p in enumerate(register_coordinates(layout_of(self.a_type)))
        }  # fmt: skip
        self.renews = not in_memory and is_loop_invariant(op.a, op)
        places = register_coordinates(layout_of(op.results[0].type))
        self.tiles = self._tiles(places, 16 * warps[0], self.width * warps[1])
        self._start_addresses(warps)
        self.descriptors: dict[tuple[Value, int], Value] = {}
        tiles = [c.values[v] for v in op.parent.args if v in c.values]
        self.hoisted = sum(len(v) for v in tiles if isinstance(v, tuple)) <= MOST_CARRIED

    def _tiles(
        self, places: list[tuple[int, ...]], rows: int, columns: int
    ) -> list[tuple[int, int, list[int]]]:
        """(first row, first column, registers in the instruction's order), for the first thread."""
        found: dict[tuple[int, int], list[tuple[tuple[int, ...], int]]] = {}
        for register, (m, n) in enumerate(places):
            key = m // rows * rows, n // columns * columns
            order = ((n - key[1]) // 8, m % 16 // 8, n % 2)
            found.setdefault(key, []).append((order, register))
        return [(m, n, [r for _, r in sorted(v)]) for (m, n), v in sorted(found.items())]

    def _start_addresses(self, warps: tuple[int, ...]) -> None:
        """The encoded addresses of this warp group's part of the operands. Consecutive warps go
        down the rows: 4 make up the 64 rows of an instruction."""
        c, f = self.c, self.c.f
        groups_m = warps[0] // 4
        group = f.op("lshr", uniform_warp(c), c.i32(2))
        down = f.op("and", group, c.i32(groups_m - 1)) if groups_m > 1 else None
        right = f.op("lshr", group, c.i32(groups_m.bit_length() - 1)) if warps[1] > 1 else None
        if self.a is not None:
            self.a_start = self._encoded(self.a, down, self.a.where(dim0=64) if down else 0)
        self.b_start = self._encoded(self.b, right, self.b.where(dim1=self.width) if right else 0)

    def _encoded(self, operand: Operand, number: Value | None, stride: int) -> Value:
        c, f = self.c, self.c.f
        start = operand.start
        if number is not None:
            start = f.op("add", start, f.op("mul", number, c.i32(stride)))
        # In assembly: LLVM would widen first and shift 64 bits, which takes more instructions.
        start = c.asm("i32", "bfe.u32 $0, $1, 4, 14;", "=r,r", start, effects=False)
        return f.cast("zext", start, "i64")

    def instruction(
        self, asm: _Asm, m: int, n: int, k: int, registers: list[int], use: str
    ) -> None:
        """One wgmma, with the computation of its descriptors."""
        kind = _RESULTS[self.result]
        name = (
            f"wgmma.mma_async.sync.aligned.m64n{self.width}k{self.step}.{kind}."
            f"{self.types[0]}.{self.types[1]}"
        )
        wide = self.types[0] in ("f16", "bf16")
        if kind == "f16":
            registers = [r // 2 for r in registers[::2]]
        acc = "{" + ", ".join(f"${r}" for r in registers) + "}"
        flags = "" if kind == "s32" else ", 1, 1"
        if self.a is None:
            left = "{" + ", ".join(self._from_registers(asm, m, k)) + "}"
        else:
            left = self._descriptor(asm, self.a, self.a_start, dim0=m, dim1=k)
            flags += f", {int(not self.a.k_major)}" if wide else ""
        right = self._descriptor(asm, self.b, self.b_start, dim0=k, dim1=n)
        flags += f", {int(not self.b.k_major)}" if wide else ""
        asm.lines.append(f"{name} {acc}, {left}, {right}, {use}{flags};")

    def _descriptor(self, asm: _Asm, operand: Operand, start: Value, **place: int) -> str:
        """A matrix descriptor: the encoded address and all the rest. LLVM has the sum outside of a
        loop where it can; what is added in the assembly stays there."""
        rest = operand.base + (operand.where(**place) >> 4)
        rest -= 1 << 64 if rest >= 1 << 63 else 0
        if not self.hoisted:
            name = f"d{len(asm.lines)}"
            asm.lines.append(
                f".reg .b64 {name}; add.s64 {name}, {asm.argument(start, 'l')}, {rest:#x};"
            )
            return name
        if (start, rest) not in self.descriptors:
            self.descriptors[start, rest] = self.c.f.op("add", start, const("i64", rest))
        return asm.argument(self.descriptors[start, rest], "l")

    def _from_registers(self, asm: _Asm, m: int, k: int) -> list[str]:
        """The four registers of the left operand's fragment."""
        assert self.a_registers is not None
        c, values, pair = self.c, self.c.tile(self.op.a), self.step // 8
        names: list[str] = []
        for column in (k, k + self.step // 2):
            for row in (m, m + 8):
                parts = [values[self.a_registers[row, column + i]] for i in range(pair)]
                name = asm.argument(c.pack(parts, "i32")[0], "r")
                names.append(asm.renewed(name) if self.renews else name)
        return names


@lowers(NVIDIA, ttgir.WarpGroupDotWaitOp)
def warp_group_dot_wait(c: Context, op: Any) -> None:
    """Accumulators go through the wait, so that nothing reads them before it."""
    if op.results and op.results[0] in c.values:
        return  # the product has it
    tiles = [v for v in op.inputs if isinstance(c.values[v], tuple)]
    parts = [_packed(c, v) for v in tiles]
    builder = _Asm([value for part in parts for value in part])
    builder.lines.append(f"wgmma.wait_group.sync.aligned {op.pendings};")
    if not parts:
        c.asm("void", builder.lines[0], "~{memory}")
    left, done = builder.emit(c) if parts else [], list[Value]()
    for tile, part in zip(tiles, parts, strict=True):
        done += _unpacked(c, left[: len(part)], tile.type)
        left = left[len(part) :]
    _hand_on(c, op, done)


def _hand_on(c: Context, op: Any, accumulators: list[Value]) -> None:
    """Define a wait's results."""
    left = list(accumulators)
    for source, result in zip(op.inputs, op.results, strict=True):
        lowered = c.values[source]
        if isinstance(lowered, Memory):
            c.set(result, Memory(lowered.address, result.type, lowered.origin))
        else:
            count = len(c.tile(source))
            c.set(result, left[:count])
            left = left[count:]
