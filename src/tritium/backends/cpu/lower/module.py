"""LLVM IR of a tile program, with the kernel's native interface.

    void NAME(ptr args, ptr ctx, i64 begin, i64 end)

runs the programs begin <= p < end of the grid, p = x + nx * (y + ny * z). `args` holds an 8-byte
slot for each argument; `ctx` the grid, scratch memory and where to report a failed assertion
(`pool.CONTEXT`, `pool.FAULT`). The body is an internal function that runs one program.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tritium.analysis.axis_info import AxisAnalysis

# The modules of rules register them by being imported.
from tritium.backends.cpu.lower import (
    atomic,
    debug,
    elementwise,
    linear,
    numeric,
    pointers,
    rearrange,
    scalars,
    shape,
)
from tritium.backends.cpu.dot.plan import Host as DotHost
from tritium.backends.cpu.host import Host
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.control import lower_function
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.lowering.llvm import Function, Module, Value, const

RULE_MODULES = (
    atomic, debug, elementwise, linear, numeric, pointers, rearrange, scalars, shape,
)  # fmt: skip
_DEEP = 20_000
_GRID = ("x", "y", "z", "nx", "ny", "nz")


def lower_to_llvm(program: TileProgram, host: Host) -> tuple[str, dict[str, Any]]:
    """LLVM IR text for a host, and what running it takes.

    Returns: the text, and {"name": symbol, "scratch_bytes": bytes one program needs, "llvm_opt":
    the IR passes to run (`loader.compile_ir`)}.

    Raises NotImplementedError, naming op and line, for what the backend does not support.
    """
    module = Module()
    kernel = program.kernel
    fuse = getattr(program.options, "enable_fp_fusion", True)
    with _deep_recursion():
        body, scratch = _function(module, kernel, host, fuse)
    _wrapper(module, kernel, body)
    facts = {"name": kernel.name, "scratch_bytes": scratch, "llvm_opt": None}
    return module.text(), facts


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Values are emitted by recursion over their operands; unrolled kernels have long chains."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _attributes(host: Host) -> str:
    bits = 512 if host.has("avx512f") else 256 if host.has("avx") else 128
    return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


def _function(module: Module, function: TileFunction, host: Host, fuse: bool) -> tuple[Function, int]:
    """The function that runs one program, and the scratch that it takes."""
    entry = function.blocks[0].block
    arguments = [(value_type(a.type), f"a{i}", "") for i, a in enumerate(entry.args)]
    grid = [("i32", name, "") for name in _GRID]
    rest = [("ptr", "scratch", "noalias align 64"), ("ptr", "fault", "")]
    f = Function(
        module, f"{function.name}.program", [*arguments, *grid, *rest],
        linkage="internal", attributes=_attributes(host),
    )  # fmt: skip
    values = dict(zip([*_GRID, "scratch", "fault"], f.arguments[len(arguments) :]))
    features = frozenset(host.features)
    c = Context(
        f, function, DotHost.of(platform.machine(), features), features, values["scratch"],
        values, "contract" if fuse else "", AxisAnalysis(function.op).of, f.section(),
    )  # fmt: skip
    c.scalars.update(zip(entry.args, f.arguments))
    lower_function(c)
    return f, function.scratch_bytes + c.temporary_bytes


def _wrapper(module: Module, kernel: TileFunction, body: Function) -> None:
    f = Function(
        module, kernel.name,
        [("ptr", "args", ""), ("ptr", "ctx", ""), ("i64", "begin", ""), ("i64", "end", "")],
        attributes="nounwind",
    )  # fmt: skip
    args, ctx, begin, end = f.arguments
    nx, ny, nz = (f.load("i32", f.offset(ctx, 4 * i), 4) for i in range(3))
    scratch = f.load("ptr", f.offset(ctx, 16), 8)
    fault = f.load("ptr", f.offset(ctx, 24), 8)
    values = [
        _argument(f, f.offset(args, 8 * i), value.type)
        for i, value in enumerate(body.arguments[: len(kernel.blocks[0].block.args)])
    ]
    run, loop, done = f.new_label("start"), f.new_label("program"), f.new_label("done")
    f.branch_if(f.icmp("slt", begin, end), run, done)
    f.label(run)
    wide_x, wide_y = f.cast("zext", nx, "i64"), f.cast("zext", ny, "i64")
    row, first_x = f.op("udiv", begin, wide_x), f.op("urem", begin, wide_x)
    first = [first_x, f.op("urem", row, wide_y), f.op("udiv", row, wide_y)]
    first = [f.cast("trunc", v, "i32") for v in first]
    f.branch(loop)
    f.label(loop)
    program = f.phi("i64", [(begin, run)])
    x, y, z = (f.phi("i32", [(v, run)]) for v in first)
    f.call("void", body.name, *values, x.value, y.value, z.value, nx, ny, nz, scratch, fault)
    one = const("i32", 1)
    following = f.op("add", program.value, const("i64", 1))
    next_x = f.op("add", x.value, one)
    wrap_x = f.icmp("eq", next_x, nx)
    next_y = f.select(wrap_x, f.op("add", y.value, one), y.value)
    wrap_y = f.icmp("eq", next_y, ny)
    zero = const("i32", 0)
    program.add(following, loop)
    x.add(f.select(wrap_x, zero, next_x), loop)
    y.add(f.select(wrap_y, zero, next_y), loop)
    z.add(f.select(wrap_y, f.op("add", z.value, one), z.value), loop)
    f.branch_if(f.icmp("slt", following, end), loop, done)
    f.label(done)
    f.ret()


def _argument(f: Function, slot: Value, type: str) -> Value:
    """An argument from its 8-byte slot."""
    if type == "i1":
        return f.cast("trunc", f.load("i8", slot, 8), "i1")
    return f.load(type, slot, 8)
