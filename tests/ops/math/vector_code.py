"""Compile one vector function natively and run it over NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tritium.codegen.llvm.vmath import call
from tritium.codegen.llvm.writer import Function, Module, Value, const, vector

SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8}

# Feature sets to compile for: what the host has, and what older hosts have.
NO_AVX512 = (
    "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd", "avx512bf16", "avx512ifma",
    "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "avx512fp16",
    "avx512vp2intersect",
)  # fmt: skip
NO_AVX2 = (*NO_AVX512, "avx2", "fma", "fma4", "f16c", "avx", "xop", "vaes", "vpclmulqdq", "avxvnni")
REMOVED = {"host": (), "avx2": NO_AVX512, "sse": NO_AVX2}

Body = Callable[[Function, list[Value], frozenset[str]], Value]


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def host_features(level: str) -> dict[str, bool]:
    """LLVM's feature names of this host, with those that `level` lacks turned off."""
    _initialize()
    features = dict(llvm.get_host_cpu_features())
    return {name: on and name not in REMOVED[level] for name, on in features.items()}


def target_machine(level: str) -> Any:
    """A JIT target machine for this host at the level `host`, `avx2` or `sse`."""
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in host_features(level).items())
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = llvm.get_host_cpu_name() if level == "host" else "x86-64"
    return target.create_target_machine(
        cpu=cpu, features=text, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


class Kernel:
    """`void k(ptr in0, ..., ptr out, i64 n)`: `body` applied to n elements, `width` at a time."""

    def __init__(self, body: Body, inputs: list[str], output: str, width: int, level: str = "host"):
        self.inputs, self.output, self.width = inputs, output, width
        machine = target_machine(level)
        features = frozenset(name for name, on in host_features(level).items() if on)
        module = Module(triple=llvm.get_process_triple())
        arguments = [("ptr", f"in{i}", "noalias") for i in range(len(inputs))]
        f = Function(module, "k", [*arguments, ("ptr", "out", "noalias"), ("i64", "n", "")])
        *sources, out, n = f.arguments
        with f.loop(Value("i64", "0"), n, const("i64", width)) as loop:
            values = [
                f.load(vector(t, width), f.gep(t, p, loop.index), SIZES[t])
                for t, p in zip(inputs, sources, strict=True)
            ]
            result = body(f, values, features)
            f.store(result, f.gep(output, out, loop.index), SIZES[output])
        f.ret()
        self.text = module.text()
        parsed = llvm.parse_assembly(self.text)
        parsed.verify()
        self._engine: Any = llvm.create_mcjit_compiler(parsed, machine)
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address("k")
        kinds = [ctypes.c_void_p] * (len(inputs) + 1) + [ctypes.c_int64]
        self._call = ctypes.CFUNCTYPE(None, *kinds)(self.address)

    def __call__(self, *arrays: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Run over whole arrays; the last partial vector is padded with the first element."""
        count = arrays[0].size
        padding = -count % self.width
        padded = [np.concatenate([a, np.repeat(a[:1], padding)]) for a in arrays]
        result = np.empty(count + padding, out.dtype)
        pointers = [a.ctypes.data for a in (*padded, result)]
        self._call(*pointers, count + padding)
        out[...] = result[:count]
        return out


@cache
def function_kernel(
    name: str, type: str, width: int, level: str = "host", arity: int = 1
) -> Kernel:
    """The vector function `name` compiled for arrays of `type`."""

    def body(f: Function, values: list[Value], features: frozenset[str]) -> Value:
        return call(f, name, *values, features=features)

    return Kernel(body, [type] * arity, type, width, level)


def ulp_errors(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of `expected` (a wider type), as rounded to actual's type.

    Where the expected value rounds to infinity, zero or NaN the result must be that; the error is 0
    or infinite.
    """
    info = np.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype)
        _, exponent = np.frexp(expected.astype(np.float64))
        smallest = np.log2(float(info.smallest_subnormal))
        unit = np.exp2(np.maximum(exponent - 1 - info.nmant, smallest))
        wide = np.longdouble if actual.dtype == np.float64 else np.float64
        error = np.abs(actual.astype(wide) - expected.astype(wide)) / unit
        # The overflow threshold is half an ulp above the largest number.
        top = np.float64(info.max)
        near_top = np.isinf(actual) & (
            np.abs(expected) > top * (1 - 2.0**-20 / 2 ** (info.nmant - 23))
        )
        same = (rounded == actual) & (np.signbit(rounded) == np.signbit(actual))
        error = np.where(np.isfinite(expected) & np.isfinite(actual), error, np.inf)
        error = np.where(near_top & (np.sign(actual) == np.sign(expected)), 0.0, error)
        error = np.where(
            same | (np.isnan(actual) & np.isnan(expected)), np.minimum(error, 0.5), error
        )
        return error.astype(np.float64)
