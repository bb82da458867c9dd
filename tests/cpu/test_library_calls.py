"""Objects for processors with and without instructions for 16-bit floats and fused
multiplication: no operation may become a call of a function that nobody provides."""

from __future__ import annotations

import functools
import platform
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel
from tests.support.frontend import compile_kernel
from tritium.backends.cpu.lower.module import lower_to_llvm
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.native import elf
from tritium.native.host import CPU, host
from tritium.native.loader import compile_ir
from tritium.passes import pipelines
from tritium.passes.base import PassManager

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="compiles for x86 features"
)

BASELINE = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
SSE4 = (*BASELINE, "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf")
AVX2 = (*SSE4, "avx", "avx2", "bmi", "bmi2", "lzcnt", "movbe", "xsave")
HASWELL = (*AVX2, "fma", "f16c")
AVX512 = (*HASWELL, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "evex512")
LEVELS = {
    "SSE2": BASELINE,
    "SSE4.2": SSE4,
    "AVX2 alone": AVX2,
    "AVX2, FMA, F16C": HASWELL,
    "AVX-512": AVX512,
    "AVX-512, BF16": (*AVX512, "avx512bf16", "avx512vnni"),
    "AVX-512, BF16, FP16": (*AVX512, "avx512bf16", "avx512vnni", "avx512fp16"),
}
DTYPES: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32,
    "float64": np.float64, "float8e5": ml_dtypes.float8_e5m2, "int8": np.int8, "int16": np.int16,
    "int32": np.int32, "int64": np.int64, "uint64": np.uint64,
}  # fmt: skip


@tritium.jit
def arithmetic(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i, mask=i < n, other=1), tl.load(y + i)
    total = a + b * a - b
    if FLOAT:
        total += a / b + tl.fma(a, b, a) + tl.abs(a) + tl.floor(b.to(tl.float32)).to(a.dtype)
    else:
        total += a // b + (a ^ b) + (a >> 1) + (a << 2)
    total += a % b + (-a) + tl.where(a < b, a, b) + tl.maximum(a, b) + tl.minimum(a, 1)
    tl.store(out + i, total, mask=i < n)
    s = tl.load(x) * tl.load(y) + tl.load(x + 1) % tl.load(y + 1)
    tl.store(out + N, tl.where(s < 1, s, tl.load(y)))


@tritium.jit
def functions(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32)
    r = tl.exp(a) + tl.log2(a) + tl.sin(a) + tl.sqrt(a) + tl.rsqrt(a) + tl.erf(a)
    r += tl.extra.libdevice.pow(a, a) + tl.extra.libdevice.fmod(a, a + 1) + tl.ceil(a)
    tl.store(out + i, r.to(x.dtype.element_ty))


@tritium.jit
def converted(a, to: tl.constexpr):
    return a.to(to).to(tl.float32) + a.to(to).to(a.dtype).to(tl.float32)


@tritium.jit
def conversions(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, s = tl.load(x + i, mask=i < n), tl.load(x)
    r = converted(a, tl.float16) + converted(a, tl.bfloat16) + converted(a, tl.float32)
    t = converted(s, tl.float16) + converted(s, tl.bfloat16) + converted(s, tl.float64)
    if a.dtype != tl.float8e5:
        r += converted(a, tl.int8) + converted(a, tl.int32) + converted(a, tl.int64)
        r += converted(a, tl.uint32) + converted(a, tl.uint64) + converted(a, tl.float64)
        t += converted(s, tl.int64) + converted(s, tl.uint64) + converted(s, tl.int16)
    if FLOAT:
        r += converted(a, tl.float8e5) + converted(a, tl.float8e4nv)
        t += converted(s, tl.float8e5)
    tl.store(out + i, r.to(x.dtype.element_ty))
    tl.store(out + N, t.to(x.dtype.element_ty))


@tritium.jit
def movement(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i * 3 % N, mask=(i % 3) != n, other=0)
    b = tl.load(y + (N - 1 - i))
    c = tl.reshape(tl.join(a, b), (2 * N,))
    left, right = tl.split(tl.reshape(c, (N, 2)))
    t = tl.reshape(tl.trans(tl.reshape(left, (N // 8, 8))), (N,))
    g = tl.gather(right, (i * 5) % N, 0)
    f = tl.flip(tl.cat(t, g, can_reorder=True), 0)
    tl.store(out + tl.arange(0, 2 * N), f)
    for k in range(n):
        a, b = tl.where(i < k, b, a), a
    tl.store(out + (i * 7) % N, a, mask=b == a)


@tritium.jit
def reductions(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + N, tl.sum(a, 0).to(a.dtype))
    tl.store(out + N + 1, tl.max(a, 0))
    tl.store(out + N + 2, tl.argmax(a, 0).to(a.dtype))
    tl.store(out + i, tl.cumsum(a, 0).to(a.dtype))
    two = tl.reshape(a, (8, N // 8))
    tl.store(out + tl.arange(0, N // 8), tl.min(two, 0))
    tl.store(out + tl.arange(0, 8), tl.sum(two, 1).to(a.dtype))


@tritium.jit
def sorted_and_atomic(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, tl.sort(a))
    tl.atomic_add(out + i % n, a, mask=i < n)
    tl.atomic_add(out, tl.sum(a, 0).to(a.dtype))


@tritium.jit
def products(x, y, out, n, FLOAT: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, 32), tl.arange(0, N // 32)
    a = tl.load(x + i[:, None] * (N // 32) + j[None, :], mask=j[None, :] < n, other=0)
    b = tl.load(y + i[:, None] * (N // 32) + j[None, :])
    c = tl.dot(a, tl.trans(b))
    for k in range(n):
        c = tl.dot(tl.load(x + k + i[:, None] * (N // 32) + j[None, :]), tl.trans(b), c)
    tl.store(out + i[:, None] * 32 + i[None, :], c.to(out.dtype.element_ty))


PROGRAMS = {
    f.__name__: f
    for f in (arithmetic, functions, conversions, movement, reductions, sorted_and_atomic, products)
}
FEW = {"sorted_and_atomic": {"float8e5", "int8", "int16"}, "arithmetic": {"float8e5"},
       "products": {"int16", "int32", "int64", "uint64"}, "reductions": {"float8e5"},
       "functions": {"float8e5"}}  # fmt: skip
"""Types that the language has no such operations for, or that cost time and show nothing new."""
PROVIDED = {
    "memcpy", "memset", "memmove", "fma", "fmaf", "fmod",
    *(name + end for name in ("floor", "ceil", "trunc") for end in ("", "f")),
}  # fmt: skip
"""Functions of libc and libm, which every process has and which are exact."""


@functools.cache
def _all_features() -> tuple[str, ...]:
    return tuple(llvm.get_host_cpu_features())


def machine(features: tuple[str, ...]) -> CPU:
    """A processor with these features and no others."""
    off = [name for name in _all_features() if name not in features]
    text = ",".join([*(f"+{f}" for f in features), *(f"-{f}" for f in off)])
    return replace(host(), cpu="x86-64", features=tuple(sorted(features)), feature_string=text)


def lowered(name: str, dtype: str, to: CPU) -> tuple[str, Any]:
    """LLVM IR of a program of the corpus."""
    array = np.zeros(4, DTYPES[dtype])
    module = compile_kernel(
        PROGRAMS[name], x=array, y=array, out=array, n=7, FLOAT="float" in dtype, N=64
    )
    PassManager(pipelines.ttir()).run(module)
    return lower_to_llvm(lower_to_tiles(module, to), to, fuse=False)


def undefined(name: str, dtype: str, features: tuple[str, ...]) -> set[str]:
    """Undefined symbols of the object for a processor."""
    to = machine(features)
    text, _ = lowered(name, dtype, to)
    parts = elf.ObjectFile(compiled(text, to))
    return {name for name, section, _ in parts.symbols if section == 0 and name} - PROVIDED


def compiled(text: str, to: CPU) -> bytes:
    """The object for a processor."""
    return compile_ir(text, processor=to)


SMALL = ("float16", "bfloat16")
MOST = [
    (name, dtype) for name in PROGRAMS for dtype in DTYPES if dtype not in FEW.get(name, ())
]  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("level", ["SSE2", "AVX2, FMA, F16C", "AVX-512"])
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize(
    "name", ["movement", "conversions", "reductions", "sorted_and_atomic", "products"]
)
def test_16_bit_floats(name: str, dtype: str, level: str) -> None:
    assert not undefined(name, dtype, LEVELS[level])


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "dtype"), MOST)
def test_all_types(name: str, dtype: str, level: str) -> None:
    assert not undefined(name, dtype, LEVELS[level])


@tritium.jit
def _masked_sum(x, y, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i, mask=i < n, other=1)
    tl.store(out + i, tl.where(i % 3 == 0, a, a + tl.load(y + N - 1 - i)), mask=i < n)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("level", ["SSE2", "AVX2 alone", "AVX2, FMA, F16C"])
def test_runs_with_fewer_features(level: str, dtype: str) -> None:
    """Masked loads and stores, selections and sums of all sorts of numbers, for less than this
    processor has."""
    if not set(LEVELS[level]) <= set(host().features):
        pytest.skip("this processor has not all of these features")
    kind = np.dtype(DTYPES[dtype])
    for size in (8, 64, 256):
        rng = np.random.default_rng(size)
        x, y = (rng.integers(0, 1 << 16, size).astype(np.uint16).view(kind) for _ in range(2))
        out = np.zeros(size, kind)
        module = compile_kernel(_masked_sum, x=x, y=y, out=out, n=7, N=size)
        PassManager(pipelines.ttir()).run(module)
        kernel = Kernel(module, machine=machine(LEVELS[level]), compiled=compiled)
        kernel.run([x, y, out, size - 1])
        with np.errstate(all="ignore"):
            total = (x.astype(np.float32) + y[::-1].astype(np.float32)).astype(kind)
        wanted = np.where(np.arange(size) % 3 == 0, x, total)
        wanted[-1] = 0
        numbers = ~np.isnan(wanted.astype(np.float32))
        assert (np.isnan(out.astype(np.float32)) == ~numbers).all()
        assert (out.view(np.uint16) == wanted.view(np.uint16))[numbers].all()
