"""Sums in tensor memory: kernels for sm_100 are run by the reference semantics, which refuses to
use that memory before a product has ended. `test_async_dots` has attention and its gradients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ir.test_reference_runs import floats
from tests.ttgir.test_async_dots import kernel
from tritium.ops.memory import EvaluationError
from tritium.target import GPUTarget

SIZE, LENGTH = 64, 192


@tritium.jit
def product(a_ptr, b_ptr, out_ptr, length):
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, length, 32):
        at = k + tl.arange(0, 32)
        a = tl.load(a_ptr + i[:, None] * length + at[None, :])
        acc = tl.dot(a, tl.load(b_ptr + at[:, None] * 64 + i[None, :]), acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc)


@tritium.jit
def forked(a_ptr, b_ptr, out_ptr, length):
    """Two products go on from the same sums, one of them in some iterations alone."""
    i = tl.arange(0, 64)
    acc, other = tl.zeros((64, 64), tl.float32), tl.zeros((64, 64), tl.float32)
    for k in range(0, length, 32):
        at = k + tl.arange(0, 32)
        a = tl.load(a_ptr + i[:, None] * length + at[None, :])
        b = tl.load(b_ptr + at[:, None] * 64 + i[None, :])
        if k % 64 == 0:
            other = tl.dot(a, b, acc)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc + other)


@tritium.jit
def nested(a_ptr, b_ptr, out_ptr, length):
    """Sums of an inner loop, which the outer one halves."""
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for start in range(0, length, 64):
        acc = acc * 0.5
        for k in range(start, start + 64, 32):
            at = k + tl.arange(0, 32)
            a = tl.load(a_ptr + i[:, None] * length + at[None, :])
            acc = tl.dot(a, tl.load(b_ptr + at[:, None] * 64 + i[None, :]), acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc)


def run(function: Any, stages: int, edit: Any = None) -> None:
    a, b = floats(SIZE, LENGTH, dtype=np.float16), floats(LENGTH, SIZE, seed=1, dtype=np.float16)
    out = np.zeros((SIZE, SIZE), np.float32)
    made = kernel(function, stages, edit, arch=100)
    assert any(op.name == "ttng.tc_gen5_mma" for op in made.module.walk())
    made(a, b, out, LENGTH)
    wide = a.astype(np.float64), b.astype(np.float64)
    parts = [wide[0][:, k : k + 32] @ wide[1][k : k + 32] for k in range(0, LENGTH, 32)]
    acc, other = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE))
    for number, part in enumerate(parts):
        if number % 2 == 0:
            other = acc + part
            acc = acc * (0.5 if function is nested else 1)
        acc = acc + part
    want = acc + other if function is forked else acc
    np.testing.assert_allclose(out, want, 1e-2, 1e-2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("function", [product, forked, nested])
def test_sums(function: Any, stages: int, fresh_cache: Path) -> None:
    run(function, stages)


FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 32), "e2m1": (np.uint8, 32), "nvfp4": (np.uint8, 16)}


@tritium.jit
def scaled(
    a_ptr, b_ptr, x_ptr, y_ptr, out_ptr, length, FORMAT: tl.constexpr, PACK: tl.constexpr,
    RUN: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Both operands have K, in bytes, along their rows."""
    i, j = tl.arange(0, 128), tl.arange(0, 64)
    at, runs = tl.arange(0, K // PACK), tl.arange(0, K // RUN)
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, length, K):
        a = tl.load(a_ptr + i[:, None] * (length // PACK) + k // PACK + at[None, :])
        b = tl.load(b_ptr + j[:, None] * (length // PACK) + k // PACK + at[None, :])
        x = tl.load(x_ptr + i[:, None] * (length // RUN) + k // RUN + runs[None, :])
        y = tl.load(y_ptr + j[:, None] * (length // RUN) + k // RUN + runs[None, :])
        acc = tl.dot_scaled(a, x, FORMAT, b.T, y, FORMAT, acc)
    tl.store(out_ptr + i[:, None] * 64 + j[None, :], acc)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def decoded(codes: Any) -> Any:
    """The numbers of bytes with two of E2M1 in each, the lower half first (OCP MX 1.0)."""
    halves = np.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)
    return FP4[halves & 7] * np.where(halves & 8, -1, 1)


@pytest.mark.covering(1)
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("k", [128, 64, 32])
@pytest.mark.parametrize("name", FORMATS)
def test_scaled_products(name: str, k: int, stages: int, fresh_cache: Path) -> None:
    """Products have 32 elements along K, or 64 of 4 bits; fewer are multiplied as wider floats."""
    dtype, run_length = FORMATS[name]
    rng, size, pack = np.random.default_rng(3), 384, 1 if name == "e4m3" else 2
    if pack == 1:
        stored = [rng.standard_normal((n, size)).astype(dtype) for n in (128, 64)]
        values = [x.astype(np.float64) for x in stored]
    else:
        stored = [rng.integers(0, 256, (n, size // 2)).astype(np.uint8) for n in (128, 64)]
        values = [decoded(x) for x in stored]
    codes = [rng.integers(124, 131, (n, size // run_length)).astype(np.uint8) for n in (128, 64)]
    scales, factors = codes, [np.exp2(c.astype(np.float64) - 127) for c in codes]
    if run_length == 16:
        scales = [rng.integers(1, 5, c.shape).astype(ml_dtypes.float8_e4m3fn) for c in codes]
        factors = [x.astype(np.float64) for x in scales]
    kind, scale = ("*fp8e4nv" if pack == 1 else "*u8"), "*u8" if run_length == 32 else "*fp8e4nv"
    made = kernel(scaled, stages, arch=100, a_ptr=kind, b_ptr=kind, x_ptr=scale, y_ptr=scale,
                  FORMAT="e4m3" if pack == 1 else "e2m1", PACK=pack, RUN=run_length,
                  K=k)  # fmt: skip
    names = {op.name for op in made.module.walk()}
    assert ("ttng.tc_gen5_mma_scaled" in names) == (pack == 1 or k > 32)
    out = np.zeros((128, 64), np.float32)
    made(*stored, *scales, out, size)
    left, right = (
        v * np.repeat(f, run_length, 1) for v, f in zip(values, factors, strict=True)
    )
    np.testing.assert_allclose(out, left @ right.T, 1e-5, 1e-4)


@pytest.mark.ptxas
@pytest.mark.parametrize("arch", [100, 103])
@pytest.mark.parametrize("k", [32, 64, 128])
@pytest.mark.every(5)
def test_bytes_are_multiplied_as_the_floats_that_they_hold(
    arch: int, k: int, fresh_cache: Path
) -> None:
    """Bytes take the float type that the product names, in IR text as well."""
    types = {"a_ptr": "*u8", "b_ptr": "*u8", "x_ptr": "*u8", "y_ptr": "*u8", "out_ptr": "*fp32",
             "length": "i32"}  # fmt: skip
    constants = {"FORMAT": "e4m3", "PACK": 1, "RUN": 32, "K": k}
    target = GPUTarget("cuda", arch, 32)
    made = tritium.compile(tritium.compiler.ASTSource(scaled, types, constants), target=target)
    assert set(re.findall(r"kind::\w+", made.asm["ptx"])) == {"kind::mxf8f6f4"}
    lines = made.asm["ttir"].splitlines()
    casts = dict(re.findall(r"(%\w+) = arith.bitcast (%\w+) : tensor<\w+xi8>", made.asm["ttir"]))
    assert len(casts) == 2
    text = "\n".join(line for line in lines if "arith.bitcast" not in line)
    for name, source in casts.items():
        text = text.replace(f"{name} ", f"{source} ").replace(f"{name},", f"{source},")
    file = fresh_cache / "scaled.ttir"
    file.write_text(text.replace("f8E4M3FN", "i8"))
    again = tritium.compile(file, target=target)
    assert set(re.findall(r"kind::\w+", again.asm["ptx"])) == {"kind::mxf8f6f4"}


def test_a_missing_wait_is_refused(fresh_cache: Path) -> None:
    def without(text: str) -> str:
        head, loop = text.split("ttng.tc_gen5_mma", 1)
        lines = [line for line in loop.splitlines() if "ttng.wait_barrier" not in line]
        return head + "ttng.tc_gen5_mma" + "\n".join(lines)

    with pytest.raises(EvaluationError):
        run(product, 3, without)
