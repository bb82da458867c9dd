"""Reductions that loops accumulate, evaluated after the passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import to_ptx
from tests.ops.control_flow.test_flattened_loops import launch
from tests.support.frontend import compile_kernel
from tritium.backends.nvidia.processor import processor
from tritium.ir.printing import print_module
from tritium.passes import PassManager, pipelines


@tritium.jit
def rows(x, o, n, M: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, HOW: tl.constexpr):
    """o = x reduced along an axis, beginning with what is in o."""
    x = tl.multiple_of(x, 16)
    m, b = tl.arange(0, M), tl.arange(0, B)
    acc = tl.load(o + m)
    for i in range(0, n, B):
        if AXIS == 1:
            tile = tl.load(x + m[:, None] * 512 + (i + b)[None, :])
        else:
            tile = tl.load(x + (i + b)[:, None] * M + m[None, :])
        if HOW == "sum":
            acc += tl.sum(tile, AXIS)
        elif HOW == "max":
            acc = tl.maximum(tl.max(tile, AXIS), acc)
        elif HOW == "min":
            acc = tl.minimum(acc, tl.min(tile, AXIS))
        else:
            acc ^= tl.xor_sum(tile, AXIS)
    tl.store(o + m, acc)


@tritium.jit
def total(x, o, n, B: tl.constexpr):
    b = tl.arange(0, B)
    acc = 1.5
    for i in range(0, n, B):
        acc += tl.sum(tl.load(x + i + b, mask=i + b < n, other=0.0), 0)
    tl.store(o, acc)


def compiled(kernel: Any, warps: int = 4, **arguments: Any) -> Any:
    module = compile_kernel(kernel, **arguments)
    passes = [*pipelines.ttir(), *pipelines.ttgir(processor(90), warps, 3)]
    PassManager(passes, verify_each=True).run(module)
    return module


REFERENCE = {
    "sum": lambda x, axis, o: x.sum(axis) + o,
    "max": lambda x, axis, o: np.fmax(np.fmax.reduce(x, axis, initial=-np.inf), o),
    "min": lambda x, axis, o: np.fmin(np.fmin.reduce(x, axis, initial=np.inf), o),
    "xor": lambda x, axis, o: np.bitwise_xor.reduce(x, axis) ^ o,
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("how, dtype", [
    ("sum", "float32"), ("sum", "int32"), ("max", "float32"), ("min", "float64"), ("xor", "int64"),
])  # fmt: skip
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("n", [512, 0])
def test_rows(how: str, dtype: str, axis: int, warps: int, n: int):
    rng = np.random.default_rng(0)
    x = rng.integers(-99, 100, (16, 512) if axis else (512, 16)).astype(dtype)
    o = rng.integers(-99, 100, 16).astype(dtype)
    if how == "max" and n:
        x[3], o[5], o[3] = np.nan, np.nan, -np.inf
    part = x[:, :n] if axis else x[:n]
    wide = part.astype(np.float64) if how != "xor" else part
    wanted = REFERENCE[how](wide, axis, o)
    module = compiled(rows, warps, x=x, o=o, n=n, M=16, B=256, AXIS=axis, HOW=how)
    if axis:
        loop = print_module(module, locations=False).split("scf.for")[1].split("scf.yield")[0]
        assert "tt.reshape" in loop, print_module(module, locations=False)
    launch(module, "rows", [x, o], np.int32(n))
    np.testing.assert_array_equal(o, wanted.astype(dtype))


@pytest.mark.parametrize("n", [0, 1, 3000])
def test_a_number(n: int):
    x = np.random.default_rng(0).standard_normal(max(n, 1)).astype(np.float32)
    o = np.zeros(1, np.float32)
    launch(compiled(total, x=x, o=o, n=n, B=1024), "total", [x, o], np.int32(n))
    np.testing.assert_allclose(o, x[:n].astype(np.float64).sum() + 1.5, 1e-6)


def test_threads_exchange_nothing_in_the_loop():
    x, o = np.zeros((16, 512), np.float32), np.zeros(16, np.float32)
    module = compiled(rows, x=x, o=o, n=512, M=16, B=256, AXIS=1, HOW="sum")
    text = to_ptx(print_module(module))
    start = text.index("loop")
    end = text.index("bra", start)
    assert "ld.global" in text[start:end]
    assert "shfl" not in text[start:end]
    assert "bar.sync" not in text[start:end]
    assert "shfl" in text[end:]
