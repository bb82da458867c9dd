"""`tt.map_elementwise`: a region of the program's own, applied to elements."""

from __future__ import annotations

from typing import Any

from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.control import inline
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER
from tritium.ops import ttir


@lowers(GPU, ttir.MapElementwiseOp)
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
