"""Gathers along the lanes from short rows, which permutations of registers do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.cpu.processors import processor
from tritium.native.host import host

CASES = [
    (dtype, index, size)
    for dtype in (np.float32, np.int8, np.float16, np.int64)
    for index, size in ((np.int32, 16), (np.int64, 64), (np.int8, 1024))
] + [(np.float64, np.int16, 32), (np.int16, np.int16, 256), (np.int32, np.int32, 8)]


@tritium.jit
def pick(x, index, out, ROWS: tl.constexpr, N: tl.constexpr, COUNT: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    where = tl.load(index + rows * COUNT + tl.arange(0, COUNT)[None, :])
    found = tl.gather(tl.load(x + rows * N + tl.arange(0, N)[None, :]), where, 1)
    tl.store(out + rows * COUNT + tl.arange(0, COUNT)[None, :], found)


def check(dtype: Any, kind: Any, size: int, count: int, arch: str) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(-100, 100, (4, size)).astype(dtype)
    # Beyond the ends indices are taken modulo the size.
    index = rng.integers(max(-size, np.iinfo(kind).min), min(size, 127), (4, count)).astype(kind)
    out = np.zeros((4, count), dtype)
    pick[(1,)](x, index, out, 4, size, count, arch=arch)
    expected = np.take_along_axis(x, index.astype(np.int64) % size, 1)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.every(2)
@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v3", "native"])
def test_elements(arch: str) -> None:
    if arch != "native" and not host().runs_code_of(processor(arch)):
        pytest.skip(f"this machine does not run code for {arch}")
    for dtype, kind, size in CASES:
        check(dtype, kind, size, 64, arch)
    check(np.float32, np.int32, 32, 4, arch)


@pytest.mark.parametrize(
    ("arch", "dtype", "size", "instruction"),
    [("znver4", np.float32, 256, "vpermi2d|vpermt2d"), ("znver4", np.int64, 8, "vpermq"),
     ("znver4", np.int8, 1024, "vpermi2b|vpermt2b"), ("skylake-avx512", np.float16, 64, "vpermi2w"),
     ("haswell", np.float32, 32, "vpermd|vpermps"), ("haswell", np.int8, 64, "vpshufb"),
     ("neoverse-v1", np.int8, 64, "tbl")],
)  # fmt: skip
def test_instructions(arch: str, dtype: Any, size: int, instruction: str) -> None:
    """Rows of these lengths are not gathered from memory, element by element."""
    x, index = np.zeros((4, size), dtype), np.zeros((4, 64), np.int32)
    kernel = pick.warmup(x, index, x.copy(), 4, size, 64, grid=(1,), arch=arch)
    assert re.search(instruction, kernel.asm["asm"])
    assert "masked.gather" not in kernel.asm["llir"]
