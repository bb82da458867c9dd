"""Code of the program's own, applied to elements: inline PTX and `tt.map_elementwise`."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.context import Context, bits_of, layout_of
from tritium.backends.nvidia.lower.control import inline
from tritium.backends.nvidia.lower.gather import offsets, row_major
from tritium.backends.nvidia.lower.types import value_type
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER
from tritium.lowering.llvm import Value
from tritium.lowering.registry import lowers
from tritium.ops import ttir
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp

NVIDIA = "nvidia"


def escaped(text: str) -> str:
    """Text between quotes in LLVM IR."""
    return "".join(
        ch if 32 <= ord(ch) < 127 and ch not in '"\\' else f"\\{ord(ch):02X}" for ch in text
    )


@lowers(NVIDIA, ElementwiseInlineAsmOp)
def inline_asm(c: Context, op: Any) -> None:
    """The assembly for each `packed_element` registers; operands narrower than 32 bits are packed
    into words of at most 32 bits."""
    pack, tiles = op.packed_element, [c.tile(v) for v in op.arguments]
    shaped = [v for v in (*op.arguments, *op.results) if ir.shape_of(v.type)]
    count = layout_of(shaped[0].type).in_size(REGISTER) if shaped else 1
    kinds = [value_type(r.type) for r in op.results]
    widths = [min(pack, max(32 // bits_of(kind), 1)) for kind in kinds]
    words = [
        kind if width == 1 else f"i{width * bits_of(kind)}"
        for kind, width in zip(kinds, widths, strict=True)
        for _ in range(pack // width)
    ]
    struct = "void" if not words else words[0] if len(words) == 1 else f"{{ {', '.join(words)} }}"
    text, constraints = escaped(op.asm_string), escaped(op.constraints)
    results: list[list[Value]] = [[] for _ in op.results]
    for start in range(0, count, pack):
        arguments: list[Value] = []
        for tile in tiles:
            # Fewer registers than go into one piece of assembly: the last ones are repeated.
            group = [tile[min(start + i, len(tile) - 1) if len(tile) > 1 else 0]
                     for i in range(pack)]  # fmt: skip
            width = min(pack, max(32 // bits_of(group[0].type), 1))
            word = f"i{width * bits_of(group[0].type)}"
            arguments += c.pack(group, word) if width > 1 else group
        done = c.asm(struct, text, constraints, *arguments, effects=not op.pure)
        parts = c.members(done, words) if words else []
        for n, (kind, width) in enumerate(zip(kinds, widths, strict=True)):
            mine, parts = parts[: pack // width], parts[pack // width :]
            results[n] += c.unpack(mine, kind) if width > 1 else mine
    for result, values in zip(op.results, results, strict=True):
        c.set(result, values[:count])


@lowers(NVIDIA, ttir.MapElementwiseOp)
def map_elementwise(c: Context, op: Any) -> None:
    """The region for each register, or for each `pack` neighbours, which are in one thread."""
    tiles, pack = [c.tile(v) for v in op.inputs], op.pack
    results: list[dict[int, Value]] = [{} for _ in op.results]
    for group in _neighbours(op, pack):
        arguments = [tile[register] for tile in tiles for register in group]
        found = inline(c, op.regions[0].block, arguments)
        for n, result in enumerate(results):
            result.update(zip(group, found[n * pack : (n + 1) * pack], strict=True))
    for value, result in zip(op.results, results, strict=True):
        c.set(value, [result[r] for r in range(len(result))])


def _neighbours(op: Any, pack: int) -> list[list[int]]:
    """The registers in groups of neighbours in row-major order."""
    type = op.inputs[0].type
    layout, shape = layout_of(type), ir.shape_of(type)
    count = layout.in_size(REGISTER)
    if pack == 1:
        return [[register] for register in range(count)]
    flat = offsets(layout, row_major(shape), 1 << layout.total_out_bits)
    columns = flat.columns_of(REGISTER)
    steps = [1 << i for i in range(pack.bit_length() - 1)]
    if pack & (pack - 1) or any(step not in columns for step in steps):
        raise NotImplementedError(
            f"tt.map_elementwise of {pack} neighbours of {type}, which are in several threads"
        )
    bits = [columns.index(step) for step in steps]
    inner = [sum(1 << b for j, b in enumerate(bits) if i >> j & 1) for i in range(pack)]
    return [[r | i for i in inner] for r in range(count) if not r & inner[-1]]
