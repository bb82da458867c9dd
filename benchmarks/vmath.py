"""Vector functions against torch, one thread, arrays in cache: ns per element and the ratio.

    python benchmarks/vmath.py [--count 4096] [--width 64] [--type float] [name ...]

Both are timed by turns as they are called from Python (torch with `out=`), best of several rounds;
`--assembly NAME` prints the generated code and the number of vector registers it spills instead.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from tritium.codegen.llvm import vmath
from tritium.codegen.llvm.writer import Function, Module, const, vector

NAMES = [
    "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt", "expm1", "log1p", "atan",
]  # fmt: skip


def compile_loop(name: str, type: str, width: int) -> tuple[Callable[..., None], str, object]:
    """`void k(ptr in, ptr out, i64 n)` for this host: the function, its assembly, its owner."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    host = llvm.get_host_cpu_features()
    features = frozenset(feature for feature, on in host.items() if on)
    module = Module(triple=llvm.get_process_triple())
    f = Function(
        module,
        "k",
        [("ptr", "x", "noalias readonly"), ("ptr", "y", "noalias"), ("i64", "n", "")],
        attributes='nounwind "prefer-vector-width"="512"',
    )
    x, y, n = f.arguments
    size = 4 if type == "float" else 8
    zero, step = const("i64", 0), const("i64", width)
    with f.loop(zero, n, step, at_least_once=True) as loop:
        value = f.load(vector(type, width), f.gep(type, x, loop.index), size)
        # Functions of two arguments get the same one twice, which no code here notices.
        result = vmath.call(f, name, *[value] * vmath.TABLE[name].arity, features=features)
        f.store(result, f.gep(type, y, loop.index), size)
    f.ret()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=host.flatten(), opt=3, reloc="pic",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip
    parsed = llvm.parse_assembly(module.text())
    assembly = machine.emit_assembly(parsed)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return prototype(engine.get_function_address("k")), assembly, engine


def inputs(name: str, type: str, count: int) -> np.ndarray:
    """Values of ordinary size in the function's domain."""
    rng = np.random.default_rng(0)
    positive = name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow")
    low, high = (0.01, 100.0) if positive else (-10.0, 10.0)
    if name in ("asin", "acos"):
        low, high = -1.0, 1.0
    return rng.uniform(low, high, count).astype(np.float32 if type == "float" else np.float64)


def per_call(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def measure(name: str, type: str, count: int, width: int, rounds: int) -> tuple[float, float]:
    """Seconds per call: ours, torch's."""
    import torch  # optional: only this comparison needs it

    torch.set_num_threads(1)
    kernel, _, owner = compile_loop(name, type, width)
    x = inputs(name, type, count)
    y = np.empty_like(x)
    px, py, n = (
        ctypes.c_void_p(x.ctypes.data),
        ctypes.c_void_p(y.ctypes.data),
        ctypes.c_int64(count),
    )
    sources = [torch.from_numpy(x)] * vmath.TABLE[name].arity
    target = torch.empty(count, dtype=sources[0].dtype)
    other = getattr(torch, name, None) or getattr(torch.special, name)
    repeats = max(20, 2_000_000 // count)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(per_call(lambda: kernel(px, py, n), repeats))
        theirs.append(per_call(lambda: other(*sources, out=target), repeats))
    np.testing.assert_allclose(y, target.numpy(), rtol=1e-5, atol=1e-6)
    assert owner is not None  # the code lives as long as the engine
    return min(ours), min(theirs)


def spills(assembly: str) -> int:
    """Stores of vector registers to the stack."""
    return len(re.findall(r"vmov[au]p[sd]\s+%[xyz]mm\d+, -?\d*\(%r[sb]p", assembly))


def main() -> None:
    parser = argparse.ArgumentParser(description="vector functions against torch")
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--width", type=int, default=64, help="lanes of a vector")
    parser.add_argument("--type", choices=["float", "double"], default="float")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--assembly", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.assembly:
        _, text, _ = compile_loop(arguments.assembly, arguments.type, arguments.width)
        print(text)
        print(f"# vector registers spilled: {spills(text)}")
        return
    print(f"{arguments.type}, {arguments.count} elements, <{arguments.width} x {arguments.type}>")
    print(f"{'':8}{'ns/element':>12}{'torch':>10}{'ratio':>8}{'spills':>8}")
    for name in arguments.names:
        ours, theirs = measure(
            name, arguments.type, arguments.count, arguments.width, arguments.rounds
        )
        _, text, _ = compile_loop(name, arguments.type, arguments.width)
        count = arguments.count
        print(
            f"{name:8}{ours / count * 1e9:12.3f}{theirs / count * 1e9:10.3f}"
            f"{theirs / ours:8.2f}{spills(text):8}"
        )


if __name__ == "__main__":
    main()
