"""How fast the CPU's dot is: whole matrix products from `emit_dot_loop` or `emit_dot`, next to
torch's in the same process.

    PYTHONPATH=src python benchmarks/cpu_dot.py [--elements float bfloat] [--sizes 512 1024]
        [--tiles 64x64x64 32x32x32] [--threads 1 2] [--mode loop|single]
        [--order rows|transposed|wrapped]

Ours and torch's runs alternate; the medians and their ratio (torch's time over ours: more is
better) are printed. A program computes one tile of C; programs are shared out in equal ranges to
Python threads that call the native function through ctypes, which releases the GIL.
"""

from __future__ import annotations

import argparse
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import llvmlite.binding as llvm
import torch

from tritium.backends.cpu.dot import (
    Chunks,
    Host,
    Plan,
    ScratchAlloc,
    View,
    emit_dot,
    emit_dot_loop,
    make_plan,
)
from tritium.backends.cpu.dot.operand import ELEMENT_BYTES
from tritium.codegen.llvm.writer import Function, Module, Value, const

Operand = View | Chunks
Step = Value | int
TORCH = {"float": torch.float32, "bfloat": torch.bfloat16, "half": torch.float16,
         "double": torch.float64, "i8": torch.int8}  # fmt: skip


def i64(number: int) -> Value:
    """A constant."""
    return const("i64", number)


@dataclass(frozen=True)
class Case:
    """One measurement: C (size, size) from tiles of M x N x K."""

    element: str
    size: int
    tile: tuple[int, int, int]
    mode: str
    order: str

    @property
    def result(self) -> str:
        """Type of the accumulator and of C."""
        wide = {"double": "double", "i8": "i32"}
        return wide.get(self.element, "float")

    def text(self, host: Host) -> str:
        """LLVM IR of `tiles(a, b, c, scratch, first, last)`, which computes tiles first..last-1."""
        module = Module()
        names = [("ptr", n, "noalias") for n in ("a", "b", "c", "scratch")]
        names += [("i64", n, "") for n in ("first", "last", "extent")]
        f = Function(module, "tiles", names, attributes='nounwind "prefer-vector-width"="512"')
        with f.loop(f.arguments[4], f.arguments[5], i64(1)) as program:
            self._program(f, host, program.index)
        f.ret()
        return module.text()

    def _program(self, f: Function, host: Host, program: Value) -> None:
        m, n, k = self.tile
        # Groups of 8 rows of tiles, columns outermost within a group: tutorial 03's order.
        group = i64(min(8, self.size // m))
        in_group = i64(int(group.ref) * (self.size // n))
        within = f.op("srem", program, in_group)
        first = f.op("mul", f.op("sdiv", program, in_group), group)
        m0 = f.op("mul", f.op("add", first, f.op("srem", within, group)), i64(m))
        n0 = f.op("mul", f.op("sdiv", within, group), i64(n))
        (a, a_advance), (b, b_advance) = self._operands(f, m0, n0)
        acc, free = f.arguments[3], [m * n * ELEMENT_BYTES[self.result]]

        def alloc(count: int) -> Value:
            pointer = f.offset(f.arguments[3], free[0])
            free[0] += -(-count // 64) * 64
            return pointer

        plan = make_plan(host, a, b, self.result, self.tile)
        if self.mode == "loop":
            emit_dot_loop(
                f, plan, a, b, acc, self.tile, trips=i64(self.size // k), a_advance=a_advance,
                b_advance=b_advance, scratch_alloc=alloc, zero_init=True,
            )  # fmt: skip
        else:
            self._single(f, plan, (a, a_advance), (b, b_advance), acc, alloc)
        self._store(f, acc, m0, n0, host)

    def _operands(self, f: Function, m0: Value, n0: Value) -> Sequence[tuple[Operand, Step]]:
        """A and B at k = 0, each with the bytes from one step of the k-loop to the next."""
        element, size, k = self.element, ELEMENT_BYTES[self.element], self.tile[2]
        a, b = f.arguments[:2]
        if self.order == "wrapped":
            return self._wrapped(f, m0, n0)
        a = f.gep(element, a, f.op("mul", m0, i64(self.size)))
        view_a = View(element, a, self.size, 1), k * size
        if self.order == "transposed":
            b = f.gep(element, b, f.op("mul", n0, i64(self.size)))
            return view_a, (View(element, b, 1, self.size), k * size)
        b = f.gep(element, b, n0)
        return view_a, (View(element, b, self.size, 1), k * size * self.size)

    def _wrapped(self, f: Function, m0: Value, n0: Value) -> Sequence[tuple[Operand, Step]]:
        """As tutorial 03 has it: rows and columns modulo a size, which is only known at run time,
        as all strides are."""
        element, size, k = self.element, ELEMENT_BYTES[self.element], self.tile[2]
        extent = f.arguments[6]

        def place_a(f: Function, row: Value, col: Value) -> Value:
            row = f.op("urem", f.op("add", m0, row), extent)
            index = f.op("add", f.op("mul", row, extent), col)
            return f.gep(element, f.arguments[0], index)

        def place_b(f: Function, row: Value, col: Value) -> Value:
            col = f.op("urem", f.op("add", n0, col), extent)
            index = f.op("add", f.op("mul", row, extent), col)
            return f.gep(element, f.arguments[1], index)

        advance = f.op("mul", extent, i64(k * size))
        return (Chunks(element, place_a, 16, 1), k * size), (
            Chunks(element, place_b, 16, extent), advance
        )  # fmt: skip

    def _single(
        self, f: Function, plan: Plan, a: tuple[Operand, Step], b: tuple[Operand, Step],
        acc: Value, alloc: ScratchAlloc,
    ) -> None:  # fmt: skip
        """A plain `emit_dot` in a loop."""
        m, n, k = self.tile
        zero = f.loop(i64(0), i64(m * n * ELEMENT_BYTES[self.result]), i64(64), at_least_once=True)
        with zero as i:
            f.store(const("<16 x i32>", 0), f.gep("i8", acc, i.index), 64)
        with f.loop(i64(0), i64(self.size // k), i64(1), at_least_once=True) as trip:
            now_a, now_b = (self._moved(f, *operand, trip.index) for operand in (a, b))
            emit_dot(f, plan, now_a, now_b, acc, self.tile, scratch_alloc=alloc)

    def _moved(self, f: Function, source: Operand, advance: Step, trip: Value) -> Operand:
        step = i64(advance) if isinstance(advance, int) else advance
        skip = f.op("mul", trip, step)
        if isinstance(source, View):
            return replace(source, base=f.gep("i8", source.base, skip))

        def address(f: Function, row: Value, col: Value) -> Value:
            return f.gep("i8", source.address(f, row, col), skip)

        return replace(source, address=address)

    def _store(self, f: Function, acc: Value, m0: Value, n0: Value, host: Host) -> None:
        m, n, _ = self.tile
        lanes = min(n, host.bits // 8 // ELEMENT_BYTES[self.result])
        type = f"<{lanes} x {self.result}>"
        with f.loop(i64(0), i64(m), i64(1), at_least_once=True) as row:
            source = f.gep(self.result, acc, f.op("mul", row.index, i64(n)))
            at = f.op("mul", f.op("add", m0, row.index), i64(self.size))
            target = f.gep(self.result, f.arguments[2], f.op("add", at, n0))
            with f.loop(i64(0), i64(n), i64(lanes), at_least_once=True) as col:
                value = f.load(type, f.gep(self.result, source, col.index), 4)
                f.store(value, f.gep(self.result, target, col.index), 4)


class Compiled:
    """The native code of a case; `compile_ms` from text to runnable, `assembly` on request."""

    def __init__(self, case: Case):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features: dict[str, bool] = llvm.get_host_cpu_features()
        flags = llvm.get_host_cpu_features().flatten()
        host = Host.of("x86_64", [name for name, on in features.items() if on])
        start = time.perf_counter()
        self.ir = case.text(host)
        middle = time.perf_counter()
        module = llvm.parse_assembly(self.ir)
        self.machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=flags, opt=3, reloc="pic",
            codemodel="jitdefault", jit=True,
        )  # fmt: skip
        self.engine = llvm.create_mcjit_compiler(module, self.machine)
        self.engine.finalize_object()
        self.compile_ms = (time.perf_counter() - middle) * 1e3
        self.write_ms = (middle - start) * 1e3
        kinds = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 3
        address = self.engine.get_function_address("tiles")
        self.call = ctypes.CFUNCTYPE(None, *kinds)(address)

    def assembly(self) -> str:
        """The machine code as text."""
        module = llvm.parse_assembly(self.ir)
        features = llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic"
        )
        return machine.emit_assembly(module)


def runner(
    case: Case, compiled: Compiled, tensors: Sequence[torch.Tensor], threads: int
) -> Callable[[], None]:
    """A function that computes the whole product on a number of threads."""
    m, n, _ = case.tile
    programs = (case.size // m) * (case.size // n)
    scratch = [torch.zeros(1 << 20, dtype=torch.int64) for _ in range(threads)]
    pointers = [t.data_ptr() for t in tensors]
    starts = [programs * i // threads for i in range(threads + 1)]
    places = [(s.data_ptr() + 63) // 64 * 64 for s in scratch]

    def part(i: int) -> None:
        compiled.call(*pointers, places[i], starts[i], starts[i + 1], case.size)

    def run() -> None:
        others = [threading.Thread(target=part, args=(i,)) for i in range(1, threads)]
        for other in others:
            other.start()
        part(0)
        for other in others:
            other.join()

    run.keep = scratch  # type: ignore[attr-defined]
    return run


def interleaved(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Median time in seconds of each function, run in turn."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times[0]) < 7:
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return [sorted(taken)[len(taken) // 2] for taken in times]


def measure(case: Case, threads: int, seconds: float) -> str:
    """One line of the table."""
    generator = torch.Generator().manual_seed(0)
    shape = (case.size, case.size)
    if case.element == "i8":
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)
                for _ in range(2))  # fmt: skip
    else:
        a, b = (torch.randn(shape, generator=generator).to(TORCH[case.element]) for _ in range(2))
    if case.order == "transposed":
        b = b.T.contiguous().T
    c = torch.zeros(shape, dtype=TORCH.get(case.result, torch.int32))
    compiled = Compiled(case)
    run = runner(case, compiled, (a, b, c), threads)
    run()
    error = (c.double() - a.double() @ b.double()).abs().max().item()
    torch.set_num_threads(threads)
    # torch._int_mm is the int8 product; mm itself refuses int8 on some versions.
    theirs = torch._int_mm if case.element == "i8" else torch.mm
    mine, other = interleaved([run, lambda: theirs(a, b)], seconds)
    work = 2 * case.size**3 / 1e9
    tile = "x".join(map(str, case.tile))
    return (
        f"{case.element:7}{case.size:5} {tile:12}{case.mode:7}{case.order:11}{threads:2}"
        f"{work / mine:9.1f}{work / other:9.1f}{other / mine:7.2f}"
        f"{compiled.write_ms:7.1f}{compiled.compile_ms:8.1f}  {error:.1e}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Time the CPU's dot against torch.")
    parser.add_argument("--elements", nargs="+", default=["float"], choices=list(TORCH))
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024, 2048])
    parser.add_argument("--tiles", nargs="+", default=["64x64x64", "32x32x32"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--mode", default="loop", choices=["loop", "single"])
    parser.add_argument("--order", default="rows", choices=["rows", "transposed", "wrapped"])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each line")
    options = parser.parse_args()
    print(  # the header of what `measure` returns
        "element size tile        mode   B       threads  GFLOP/s torch  ratio IR ms code ms error"
    )
    for element in options.elements:
        for size in options.sizes:
            for tile in options.tiles:
                m, n, k = map(int, tile.split("x"))
                case = Case(element, size, (m, n, k), options.mode, options.order)
                for threads in options.threads:
                    print(measure(case, threads, options.seconds), flush=True)


if __name__ == "__main__":
    main()
