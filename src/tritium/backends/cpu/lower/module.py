"""LLVM IR of a tile program, with the kernel's native interface.

    void NAME(ptr args, ptr ctx, i64 begin, i64 end)

runs the programs begin <= p < end of the grid, p = x + nx * (y + ny * z). `args` holds an 8-byte
slot for each argument; `ctx` the grid, scratch memory, where to report a failed assertion and
whether the launch is exclusive (`pool.CONTEXT`, `pool.FAULT`). The body is an internal function
that runs one program.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

# The modules of rules register them by being imported.
from tritium.analysis.regions import calls_in
from tritium.backends.cpu.lower import assembly, calls, debug, races, scalars, whole_tile
from tritium.backends.cpu.lower.access import load_buffer
from tritium.backends.cpu.lower.atomics import accesses, operations, sums
from tritium.backends.cpu.lower.atomics.polling import polls
from tritium.backends.cpu.lower.context import EXCLUSIVE, GRID, STREAM, Context
from tritium.backends.cpu.lower.control import lower_function, lower_steps
from tritium.backends.cpu.lower.elementwise import arithmetic, numeric, progressions
from tritium.backends.cpu.lower.moves import join_split, shape, sort
from tritium.backends.cpu.lower.nests.streaming import stored_bytes, written_and_read
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.ir import TileFunction, functions_of, kernel_of
from tritium.backends.cpu.tiles.version import may_wait
from tritium.codegen.llvm.debug_info import DebugInfo
from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.codegen.registry import rules
from tritium.ir import types as ir
from tritium.native.host import CPU
from tritium.ops.tile.nests import nests_in

RULE_MODULES = (
    accesses, arithmetic, assembly, calls, debug, join_split, numeric, operations, progressions,
    races, scalars, shape, sort, sums, whole_tile,
)  # fmt: skip

WHOLE_TILE, SCALARIZED = rules("cpu.whole_tile"), rules("cpu.scalarized")
"""The ops that are done on whole tiles in memory, and those that are done element by element."""


def lower_to_llvm(
    tiles: ModuleOp, host: CPU, fuse: bool = True, *, lines: bool = False
) -> tuple[str, dict[str, Any]]:
    """LLVM IR text for a host, and what running it takes. `fuse`: a product and a sum may become
    one operation. `lines`: with the source lines of instructions.

    Returns: the text, and {"name": symbol, "scratch_bytes": bytes one program needs, "exclusive":
    whether its exclusive launches are faster, "waits": whether it may wait for another kernel,
    "polls": whether its programs may wait for each other,
    "llvm_opt": the IR passes to run (`loader.compile_ir`)}.

    Raises NotImplementedError, naming op and line, for what the backend does not support.
    """
    module = Module()
    kernel = kernel_of(tiles)
    exclusive = any("exclusive" in nest.versions for nest in nests_in(tiles))
    functions = _Functions(module, tiles, host, fuse, lines)
    body, scratch = functions.lower(kernel.sym_name)
    _wrapper(module, functions.functions[kernel.sym_name], body, host, exclusive, functions.kept)
    facts = {
        "name": kernel.sym_name, "scratch_bytes": scratch, "exclusive": exclusive,
        "waits": may_wait(tiles), "polls": any(polls(op) for op in tiles.walk()),
        "llvm_opt": None,
    }  # fmt: skip
    return module.text(), facts


def _attributes(host: CPU) -> str:
    bits = host.vector_bits
    return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'


class _Functions:
    """Lowers a function after those that it calls."""

    def __init__(self, module: Module, tiles: ModuleOp, host: CPU, fuse: bool, lines: bool):
        self.module, self.host, self.kernel = module, host, kernel_of(tiles)
        self.functions = {function.op.sym_name: function for function in functions_of(tiles)}
        self.fuse, self.lines = fuse, lines
        self.done: dict[str, tuple[Function, int]] = {}
        self.active: list[str] = []
        self.kept: list[int] = []
        """The offsets in scratch of the parts that programs of the kernel leave for the next."""

    def lower(self, name: str) -> tuple[Function, int]:
        """The LLVM function that runs one program, and the scratch that it takes (bytes)."""
        if name in self.active:
            raise NotImplementedError(f"recursive calls of '{name}'")
        if name not in self.functions:
            raise ValueError(f"tt.call: the module does not define '{name}'")
        self.active.append(name)
        function = self.functions[name]
        callees = [self._callee(name) for name in _called(function)]
        names = {name: f.name for name, (f, _) in callees}
        f, c = self._start(function, names)
        lower_function(c)
        used = c.finish(max((size for _, (_, size) in callees), default=0))
        self.kept = c.kept
        self.active.pop()
        return f, used

    def _callee(self, name: str) -> tuple[str, tuple[Function, int]]:
        if name not in self.done:
            self.done[name] = self.lower(name)
        return name, self.done[name]

    def _start(self, function: TileFunction, callees: dict[str, str]) -> tuple[Function, Context]:
        entry, public = function.op.body, function.op is self.kernel
        tiles = [isinstance(a.type, ir.TensorType) for a in entry.args]
        arguments = [
            ("ptr" if tile else value_type(a.type), f"a{i}", "")
            for i, (a, tile) in enumerate(zip(entry.args, tiles, strict=False))
        ]
        results = [] if public else [
            ("ptr", f"result{i}", "") for i in range(len(function.results))
        ]  # fmt: skip
        grid = [("i32", name, "") for name in GRID]
        rest = [
            ("ptr", "scratch", "align 64"), ("ptr", "fault", ""), ("i1", STREAM, ""),
            ("i1", EXCLUSIVE, ""), *results,
        ]  # fmt: skip
        name = f"{function.op.sym_name}.program" if public else f"callee.{len(self.done)}"
        f = Function(
            self.module, name, [*arguments, *grid, *rest], linkage="internal",
            attributes=_attributes(self.host),
        )  # fmt: skip
        names = [n for _, n, _ in (*grid, *rest)]
        values = dict(zip(names, f.arguments[len(arguments) :], strict=False))
        c = Context(
            f, function, self.host, values["scratch"], values, "contract" if self.fuse else "",
            function.axes.of, function.address_axes.of, f.section(), callees, lower_steps,
            load_buffer,
        )  # fmt: skip
        if self.lines:
            info = DebugInfo(self.module, name, function.op.location)
            f.debug, c.line_of = info.of_function, info.of_op
        for argument, tile, value in zip(entry.args, tiles, f.arguments, strict=False):
            if tile:
                c.external[id(function.buffers[argument])] = value
                c.fill(argument)
            else:
                c.scalars[argument] = value
        for number, buffer in enumerate(function.results):
            if buffer is not None:
                c.external[id(buffer)] = values[f"result{number}"]
        return f, c


def _called(function: TileFunction) -> list[str]:
    """The functions that one calls, each once."""
    return list(dict.fromkeys(call.callee for call in calls_in(function.op)))


def _wrapper(
    module: Module, function: TileFunction, body: Function, host: CPU,
    may_be_exclusive: bool, kept: list[int],
) -> None:  # fmt: skip
    kernel = function.op
    f = Function(
        module, kernel.sym_name,
        [("ptr", "args", ""), ("ptr", "ctx", ""), ("i64", "begin", ""), ("i64", "end", "")],
        attributes="nounwind",
    )  # fmt: skip
    args, ctx, begin, end = f.arguments
    nx, ny, nz = (f.load("i32", f.offset(ctx, 4 * i), 4) for i in range(3))
    scratch = f.load("ptr", f.offset(ctx, 16), 8)
    fault = f.load("ptr", f.offset(ctx, 24), 8)
    for offset in kept:
        f.store(const("i64", -1), f.offset(scratch, offset), 8)
    exclusive = const("i1", False)
    if may_be_exclusive:
        exclusive = f.icmp("ne", f.load("i32", f.offset(ctx, 32), 8), const("i32", 0))
    values = [
        _argument(f, f.offset(args, 8 * i), value.type)
        for i, value in enumerate(body.arguments[: len(kernel.body.args)])
    ]
    run, loop, done = f.new_label("start"), f.new_label("program"), f.new_label("done")
    f.branch_if(f.icmp("slt", begin, end), run, done)
    f.label(run)
    wide_x, wide_y = f.cast("zext", nx, "i64"), f.cast("zext", ny, "i64")
    row = f.op("udiv", begin, wide_x)
    plane = f.op("udiv", row, wide_y)
    first_x = f.op("sub", begin, f.op("mul", row, wide_x))  # LLVM takes longer for `urem`
    first_y = f.op("sub", row, f.op("mul", plane, wide_y))
    first = [f.cast("trunc", v, "i32") for v in (first_x, first_y, plane)]
    given: dict[SSAValue, Value] = dict(zip(kernel.body.args, values, strict=True))
    stream = _streams(f, function, host, (nx, ny, nz), given)
    f.branch(loop)
    f.label(loop)
    program = f.phi("i64", [(begin, run)])
    x, y, z = (f.phi("i32", [(v, run)]) for v in first)
    rest = [nx, ny, nz, scratch, fault, stream, exclusive]
    f.call("void", body.name, *values, x.value, y.value, z.value, *rest)
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
    if stream.ref != "false":
        # What went past the caches must be seen by whoever is told that this is finished.
        f.line("fence seq_cst")
    f.ret()


def _streams(
    f: Function, kernel: TileFunction, host: CPU, grid: tuple[Value, ...],
    arguments: dict[SSAValue, Value],
) -> Value:  # fmt: skip
    """True if the whole launch writes so much that, with as much read, it fills the last cache, and
    overwrites nothing that it has just read."""
    size = stored_bytes(kernel.op)
    if not size:
        return const("i1", False)
    x, y, z = (f.cast("zext", v, "i64") for v in grid)
    programs = f.op("mul", f.op("mul", x, y), z)
    holds = f.icmp("uge", programs, const("i64", -(-max(host.l3, host.l2) // (2 * size))))
    for written, read in written_and_read(kernel):
        holds = f.op("and", holds, f.icmp("ne", arguments[written], arguments[read]))
    return holds


def _argument(f: Function, slot: Value, type: str) -> Value:
    """An argument from its 8-byte slot."""
    if type == "i1":
        return f.cast("trunc", f.load("i8", slot, 8), "i1")
    return f.load(type, slot, 8)
