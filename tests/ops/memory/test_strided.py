"""Loads and stores at steps: nothing before the first or after the last element is read."""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.cpu.processors import processor
from tritium.native.host import host

pytestmark = pytest.mark.cpu
PAGE = mmap.PAGESIZE


@tritium.jit
def spread(x, out, STEP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i * STEP))


@tritium.jit
def column(x, out, STEP: tl.constexpr, N: tl.constexpr):
    """Columns of a matrix of few columns, and back to the same memory."""
    i, j = tl.arange(0, N)[None, :], tl.arange(0, STEP)[:, None]
    value = tl.load(x + i * STEP + j)
    tl.store(out + j * N + i, value)


@pytest.fixture
def memory() -> Iterator[np.ndarray[Any, Any]]:
    """Pages between two that cannot be accessed."""
    libc, pages = ctypes.CDLL(None), 18
    room = mmap.mmap(-1, pages * PAGE)
    data = np.frombuffer(room, np.uint8)
    for number in (0, pages - 1):
        place = ctypes.c_void_p(data.ctypes.data + number * PAGE)
        assert libc.mprotect(place, ctypes.c_size_t(PAGE), 0) == 0
    yield data[PAGE:-PAGE]
    del data


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v3", "native"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64, np.bool_])
def test_ends_of_pages(memory: np.ndarray[Any, Any], dtype: Any, arch: str) -> None:
    if arch != "native" and not host().runs_code_of(processor(arch)):
        pytest.skip(f"this machine does not run code for {arch}")
    most = 2 if dtype is np.bool_ else 120
    memory[:] = np.random.default_rng(0).integers(0, most, memory.size)
    values, size = memory.view(dtype), 64
    for step in (2, 3, 4) if dtype is np.float32 else (3, 8):
        count = (size - 1) * step + 1
        for x in (values[:count], values[values.size - count :]):
            out = np.zeros(size, dtype)
            spread[(1,)](x, out, step, size, arch=arch)
            np.testing.assert_array_equal(out, x[::step])


@pytest.mark.parametrize("step", [2, 4, 8])
def test_columns(step: int) -> None:
    x = np.random.default_rng(1).standard_normal(64 * step).astype(np.float32)
    out = np.zeros((step, 64), np.float32)
    column[(1,)](x, out, step, 64)
    np.testing.assert_array_equal(out, x.reshape(64, step).T)
    column[(1,)](x, x, step, 64)  # in its own place
    np.testing.assert_array_equal(x.reshape(step, 64), out)


@pytest.mark.parametrize(
    ("arch", "dtype", "step"),
    [("skylake-avx512", np.int8, 8), ("skylake-avx512", np.float32, 3), ("haswell", np.float64, 2),
     ("haswell", np.int8, 4), ("cortex-a76", np.float16, 2)],
)  # fmt: skip
def test_elements_are_not_gathered(arch: str, dtype: Any, step: int) -> None:
    x, out = np.zeros(64 * step, dtype), np.zeros(64, dtype)
    text = spread.warmup(x, out, step, 64, grid=(1,), arch=arch).asm["llir"]
    assert "masked.load" not in text
    assert re.search(r"shufflevector <\d+ x \S+ %\w+, <\d+ x \S+ %", text), "of two vectors"


@tritium.jit
def apart(x, out, step, N: tl.constexpr):
    i = tl.arange(0, N) * step
    tl.store(out + i, tl.load(x + i) + 1)


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["x86-64", "haswell", "cortex-a76", "skylake-avx512"])
@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_addresses_of_lanes_are_scalars(arch: str, dtype: Any) -> None:
    """Steps are known when the kernel runs. AVX-512 has gathers instead."""
    x, out = np.arange(640).astype(dtype), np.zeros(640, dtype)
    text = apart.warmup(x, out, 9, 64, grid=(1,), arch=arch).asm["llir"]
    by_lanes = re.search(r"insertelement <\d+ x (i8|double)> %\w+, \1 %\w+, i64 1", text)
    assert (by_lanes is None) == (arch == "skylake-avx512")
    if host().runs_code_of(processor(arch)):
        for step in (9, -9, 0):
            first = 9 * 63 if step < 0 else 0
            out[:] = 0
            apart[(1,)](x[first:], out[first:], step, 64, arch=arch)
            expected = np.zeros_like(x)
            expected[first + step * np.arange(64)] = x[first + step * np.arange(64)] + 1
            np.testing.assert_array_equal(out, expected)


@tritium.jit
def chosen(x, index, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index + i)
    tl.store(out + i, tl.load(x + at, mask=at >= 0, other=7))


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.int64])
@pytest.mark.parametrize("arch", ["x86-64", "x86-64-v3"])
def test_masked_gathers_take_no_branches(arch: str, dtype: Any) -> None:
    """Lanes that are off read zeros where the processor cannot leave them out."""
    index = np.random.default_rng(2).integers(-64, 64, 64).astype(np.int32)
    x, out = np.arange(1, 65).astype(dtype), np.zeros(64, dtype)
    text = chosen.warmup(x, index, out, 64, grid=(1,), arch=arch).asm["asm"]
    assert len(re.findall(r"^\tj[a-z]+\t", text, re.M)) < 48, text  # not one a lane
    if host().runs_code_of(processor(arch)):
        chosen[(1,)](x, index, out, 64, arch=arch)
        np.testing.assert_array_equal(out, np.where(index >= 0, x[index], 7))
