"""`tt.dot` on registers: tensor cores (`mma.sync`), or one multiplication at a time (`fma`)."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.matmul import fma
from tritium.codegen.gpu.shape import register_coordinates
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BlockedEncoding, NvidiaMmaEncoding
from tritium.ops import ttir

_NAMES: dict[Any, str] = {
    ir.f16: "f16", ir.bf16: "bf16", ir.f32: "tf32", ir.i8: "s8",
    ir.f8e4m3fn: "e4m3", ir.f8e5m2: "e5m2",
}  # fmt: skip


@lowers(NVIDIA, ttir.DotOp)
def dot(c: Context, op: Any) -> None:
    encoding = op.results[0].type.encoding
    if isinstance(encoding, NvidiaMmaEncoding) and encoding.version == 2:
        _mma_sync(c, op)
    elif isinstance(encoding, BlockedEncoding):
        fma.multiply(c, op)
    else:
        raise c.unsupported(op, f"a result in {encoding}")


def _mma_sync(c: Context, op: Any) -> None:
    """m16n8kK with K elements of 32 bytes; a fragment's registers are found by the coordinates of
    the first thread's elements, which the layouts give."""
    a_type, b_type, result = op.a.type, op.b.type, op.results[0].type
    element = ir.element_type(a_type)
    if element not in _NAMES or ir.element_type(b_type) not in _NAMES:
        raise c.unsupported(op, f"mma.sync of {element}")
    bits = ir.bit_width(element)
    if a_type.encoding.get("kWidth") * bits != 32 or ir.bit_width(b_type) != bits:
        raise c.unsupported(op, "operands whose kWidth is not 32 bits")
    pair, step = 32 // bits, 256 // bits
    registers = {
        name: {p: i for i, p in enumerate(register_coordinates(layout_of(t)))}
        for name, t in (("a", a_type), ("b", b_type), ("c", result))
    }
    a, b, out = c.tile(op.a), c.tile(op.b), list(c.tile(op.c))
    depth = ir.shape_of(a_type)[-1]
    words: dict[tuple[str, int, int], Value] = {}

    def word(name: str, row: int, column: int) -> Value:
        """The packed register that starts at these coordinates."""
        if (name, row, column) not in words:
            tile = a if name == "a" else b
            places = [(row, column + i) if name == "a" else (row + i, column) for i in range(pair)]
            parts = [tile[registers[name][p]] for p in places]
            words[name, row, column] = c.pack(parts, "i32")[0]
        return words[name, row, column]

    rows = sorted({m for m, _ in registers["c"] if m % 16 == 0})
    columns = sorted({n for _, n in registers["c"] if n % 8 == 0})
    half = step // 2
    for k in range(0, depth, step):
        for m in rows:
            for n in columns:
                places = [(m, n), (m, n + 1), (m + 8, n), (m + 8, n + 1)]
                where = [registers["c"][p] for p in places]
                left = [word("a", m + i, k + j) for j in (0, half) for i in (0, 8)]
                right = [word("b", k, n), word("b", k + half, n)]
                done = _instruction(c, op, left, right, [out[r] for r in where], step)
                for register, value in zip(where, done, strict=False):
                    out[register] = value
    c.set(op.results[0], out)


def _instruction(
    c: Context, op: Any, a: list[Value], b: list[Value], acc: list[Value], step: int
) -> list[Value]:
    types = [_NAMES[ir.element_type(v.type)] for v in (op.a, op.b)]
    held = acc[0].type
    if held == "half":
        acc = c.pack(acc, "i32")
    name = {"float": "f32", "half": "f16", "i32": "s32"}[held]
    code = {"float": "f", "half": "r", "i32": "r"}[held]
    n, kind = len(acc), acc[0].type
    saturate = ""

    def listed(start: int, count: int) -> str:
        return "{" + ", ".join(f"${i}" for i in range(start, start + count)) + "}"

    text = (
        f"mma.sync.aligned.m16n8k{step}.row.col{saturate}.{name}.{types[0]}.{types[1]}.{name} "
        f"{listed(0, n)}, {listed(n, 4)}, {listed(n + 4, 2)}, {listed(0, n)};"
    )
    constraints = [f"={code}"] * n + ["r"] * 6 + [str(i) for i in range(n)]
    struct = "{ " + ", ".join([kind] * n) + " }"
    done = c.asm(struct, text, ",".join(constraints), *a, *b, *acc, effects=False)
    parts = c.members(done, [kind] * n)
    return c.unpack(parts, "half") if held == "half" else parts
