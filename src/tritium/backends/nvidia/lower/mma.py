"""`tt.dot` on registers by tensor cores: `mma.sync`."""

from __future__ import annotations

from typing import Any

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.llvm.writer import Value
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import NvidiaMmaEncoding, part_of
from tritium.ir.layouts.pieces import register_coordinates

_NAMES: dict[Any, str] = {
    ir.f16: "f16", ir.bf16: "bf16", ir.f32: "tf32", ir.i8: "s8",
    ir.f8e4m3fn: "e4m3", ir.f8e5m2: "e5m2", ir.f64: "f64",
}  # fmt: skip

_BYTE_FLOATS = (ir.f8e4m3fn, ir.f8e5m2)


class MmaSync:
    """`mma.sync`."""

    def __init__(self, arch: int):
        self._double = (8, 4) if arch < 90 else (16, 16)
        self._lacks = _BYTE_FLOATS if arch < 89 else ()

    def multiply(self, c: Context, op: Any) -> None:
        encoding = op.results[0].type.encoding
        if not isinstance(encoding, NvidiaMmaEncoding) or encoding.version != 2:
            raise c.unsupported(op, f"a result in {encoding}")
        for operand in (op.a, op.b):
            if ir.element_type(operand.type) in self._lacks:
                element = ir.element_type(operand.type)
                raise c.unsupported(op, f"mma.sync of {element}, which sm_89 and later have")
        _mma_sync(c, op, self._double)


def _mma_sync(c: Context, op: Any, double: tuple[int, int]) -> None:
    """m16n8kK with K elements of 32 bytes (`double`: the rows, and the most of K, of an instruction
    for float64); a fragment's registers are found by the coordinates of the first thread's
    elements, which the layouts give. Of a tile that is smaller than the instruction's, rows and
    columns are repeated. Which elements along K meet in an instruction does not matter, as long as
    both operands have them in the same places."""
    a_type, b_type, result = op.a.type, op.b.type, op.results[0].type
    element = ir.element_type(a_type)
    if len(ir.shape_of(a_type)) != 2:
        raise c.unsupported(op, "mma.sync of batches")
    if element not in _NAMES or ir.element_type(b_type) not in _NAMES:
        raise c.unsupported(op, f"mma.sync of {element}")
    bits = ir.bit_width(element)
    pair = max(32 // bits, 1)
    widths = {t.encoding.get("kWidth") for t in (a_type, b_type)}
    if len(widths) > 1 or min(widths) % pair or ir.bit_width(b_type) != bits:
        raise c.unsupported(op, "operands of different kWidth, or of one below 32 bits")
    registers = {
        name: {p: i for i, p in enumerate(register_coordinates(layout_of(t)))}
        for name, t in (("a", a_type), ("b", b_type), ("c", result))
    }
    a, b, out = c.tile(op.a), c.tile(op.b), list(c.tile(op.c))
    rows, width = part_of(result.encoding.get("CGALayout"), ir.shape_of(result))
    extent = ir.shape_of(a_type)[-1]
    words: dict[tuple[str, int, int], Value] = {}

    def word(name: str, row: int, column: int) -> Value:
        """The packed register that starts at these coordinates."""
        if (name, row, column) not in words:
            tile = a if name == "a" else b
            places = [(row, column + i) if name == "a" else (row + i, column) for i in range(pair)]
            parts = [tile[registers[name][p]] for p in places]
            words[name, row, column] = c.pack(parts, "i32")[0] if bits < 64 else parts[0]
        return words[name, row, column]

    columns = sorted({n for _, n in registers["c"] if n % 8 == 0})
    tall, step = (double[0], min(extent, double[1])) if bits == 64 else (16, 256 // bits)
    starts = sorted({k for _, k in registers["a"]})[::pair]
    for k in range(0, len(starts), step // (4 * pair)):
        inner = starts[k : k + step // (4 * pair)]
        for m in sorted({m for m, _ in registers["c"] if m % tall == 0}):
            for n in columns:
                halves = [i % rows for i in range(m, m + tall, 8)]
                where = [registers["c"][i, (n + j) % width] for i in halves for j in (0, 1)]
                left = [word("a", i, j) for j in inner for i in halves]
                right = [word("b", j, n) for j in inner]
                shape = f"m{tall}n8k{step}"
                done = _instruction(c, op, left, right, [out[r] for r in where], shape)
                for register, value in zip(where, done, strict=True):
                    out[register] = value
    c.set(op.results[0], out)


def _instruction(
    c: Context, op: Any, a: list[Value], b: list[Value], acc: list[Value], shape: str
) -> list[Value]:
    types = [_NAMES[ir.element_type(v.type)] for v in (op.a, op.b)]
    held = acc[0].type
    if held == "half":
        acc = c.pack(acc, "i32")
    name = {"float": "f32", "half": "f16", "i32": "s32", "double": "f64"}[held]
    code = {"float": "f", "half": "r", "i32": "r", "double": "d"}[held]
    n, kind = len(acc), acc[0].type
    wide = "d" if held == "double" else "r"
    lists, start = list[str](), 0
    for count in (n, len(a), len(b)):
        names = ", ".join(f"${i}" for i in range(start, start + count))
        lists.append(f"{{{names}}}")
        start += count
    text = (
        f"mma.sync.aligned.{shape}.row.col.{name}.{types[0]}.{types[1]}.{name} "
        f"{', '.join([*lists, lists[0]])};"
    )
    inputs = len(a) + len(b)
    constraints = [f"={code}"] * n + [wide] * inputs + [str(i) for i in range(n)]
    struct = "{ " + ", ".join([kind] * n) + " }"
    done = c.asm(struct, text, ",".join(constraints), *a, *b, *acc, effects=False)
    parts = c.members(done, [kind] * n)
    return c.unpack(parts, "half") if held == "half" else parts
