"""Descriptors made on the host in code for AMD GPUs: wide loads of rows, and attention by them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tritium
import tritium.language as tl
from benchmarks.gpu_sources import compiled as benchmark
from tests.amd.execution.run import execute
from tests.amd.kernels import compiled


@tritium.jit
def product(a, b, out, rows, n, K: tl.constexpr):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    total = tl.zeros([32, 32], tl.float32)
    for k in range(0, n, K):
        total += tl.dot(a.load([0, k]), b.load([k, 0]))
    tl.store(out + i * 32 + j, total, mask=i < rows)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_rows_of_any_extent(arch: str) -> None:
    """The elements between the extent of a row and the next row count as zero."""
    signature = "tensordesc<fp16[32,32]> tensordesc<fp16[32,32]> *fp32 i32 i32"
    kernel = compiled(product, signature, arch, constants={"K": 32}, aligned=False, num_warps=2)
    wide = r"load <4 x i32>, ptr addrspace\(1\)"
    assert re.search(wide, kernel.asm["llir"])
    rng, rows, n, columns = np.random.default_rng(0), 27, 77, 29
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((rows, 80), (n, 40)))
    a[:, n:] = b[:, columns:] = np.nan
    out = np.full((32, 32), -1, np.float32)
    strides = [(80, 1), (40, 1)]
    execute(kernel, (1,), (a, rows, n, *strides[0], b, n, columns, *strides[1], out, rows, n))
    wanted = np.full((32, 32), -1, np.float32)
    wanted[:rows] = 0
    wanted[:rows, :columns] = a[:, :n].astype(np.float32) @ b[:, :columns].astype(np.float32)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("arch", "name"), [
    ("gfx942", "attention 128"),
    *(pytest.param(arch, f"attention {depth}", marks=pytest.mark.slow)
      for arch in ("gfx90a", "gfx942", "gfx950") for depth in ("64", "64 causal", "128 causal")),
    pytest.param("gfx1100", "attention 128", marks=pytest.mark.slow),
])  # fmt: skip
def test_attention_uses_no_scratch_memory(arch: str, name: str) -> None:
    facts = benchmark(name, arch=arch).metadata
    assert (facts.scratch_bytes, facts.n_spills) == (0, 0)
