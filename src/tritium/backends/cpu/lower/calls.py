"""Calls of functions that stay functions.

A callee is an internal function with the arguments, the grid, scratch memory (what lies behind the
caller's own), the fault record, and a pointer for each result. Tiles are passed as pointers to
buffers; scalar results come back through memory.
"""

from __future__ import annotations

from tritium.backends.cpu.lower.context import EXCLUSIVE, GRID, STREAM, Context
from tritium.backends.cpu.lower.types import value_type
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.function import CallOp


@lowers("cpu.scalar", CallOp)
def call_scalars(c: Context, op: CallOp, *arguments: Value) -> tuple[Value, ...]:
    return _call(c, op, list(arguments), {})


@lowers("cpu.whole_tile", CallOp)
def call_tiles(c: Context, op: CallOp) -> None:
    arguments = [
        c.address(c.filled[v]) if isinstance(v.type, ir.TensorType) else c.scalars[v]
        for v in op.operands
    ]
    tiles = {
        i: c.address(buffer) for i, buffer in enumerate(c.function.held(op)) if buffer is not None
    }
    results = _call(c, op, arguments, tiles)
    for number, result in enumerate(op.results):
        if number in tiles:
            c.fill(result)
        else:
            c.scalars[result] = results[number]


def _call(
    c: Context, op: CallOp, arguments: list[Value], tiles: dict[int, Value]
) -> tuple[Value, ...]:
    f, name = c.f, c.callees.get(op.callee)
    if name is None:
        raise ValueError(f"tt.call: the module does not define '{op.callee}'")
    with c.temporary() as allocate:
        places = [tiles[i] if i in tiles else allocate(8) for i in range(len(op.results))]
        grid = [c.program[n] for n in GRID]
        rest = [c.scratch_end, c.program["fault"], c.program[STREAM], c.program[EXCLUSIVE]]
        f.call("void", name, *arguments, *grid, *rest, *places)
        return tuple(
            places[i] if i in tiles else f.load(value_type(result.type), places[i], 1)
            for i, result in enumerate(op.results)
        )
