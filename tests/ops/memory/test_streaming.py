"""Stores past the caches: at every alignment, in place, several at once, nothing beyond a tile."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.native.host import host

BLOCK = 256
GUARD = 64


@tritium.jit
def copy_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@tritium.jit
def row_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr, AXIS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.expand_dims(tl.arange(0, BLOCK), AXIS)
    mask = at < count
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@tritium.jit
def two_kernel(x_ptr, out_ptr, second_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x + 1)
    tl.store(second_ptr + at, x * 2)


@tritium.jit
def divide_kernel(x_ptr, out_ptr, divisor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) / divisor)


def large(dtype: type) -> int:
    """Elements that are too many for the caches, in whole blocks and a part of one."""
    programs = max(host().l3, host().l2) // (2 * BLOCK * np.dtype(dtype).itemsize)
    return (programs + 3) * BLOCK + 17


def place(count: int, dtype: type, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Room for `count` elements `offset` bytes past a multiple of 64, and all that is around."""
    size = np.dtype(dtype).itemsize
    memory = np.full(count * size + 2 * GUARD + 128, 0x5A, np.uint8)
    start = (-memory.ctypes.data) % 64 + GUARD + offset
    return memory[start : start + count * size].view(dtype), memory


def untouched(memory: np.ndarray, view: np.ndarray) -> bool:
    """Whether what is around the view is as it was."""
    start = view.ctypes.data - memory.ctypes.data
    return bool((memory[:start] == 0x5A).all() and (memory[start + view.nbytes :] == 0x5A).all())


def numbers(count: int, dtype: type) -> np.ndarray:
    return (np.arange(count) % 97).astype(dtype)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("offset", [0, 8, 16, 24, 32, 48])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_alignments(dtype: type, offset: int) -> None:
    count = large(dtype)
    out, memory = place(count, dtype, offset)
    x = numbers(count, dtype)
    copy_kernel[(-(-count // BLOCK),)](x, out, count, BLOCK=BLOCK)
    assert np.array_equal(out, x) and untouched(memory, out)


@pytest.mark.covering(1)
@pytest.mark.parametrize("offset", [0, 16, 24])
@pytest.mark.parametrize("axis", [0, 1])
def test_tiles_of_one_row_or_column(axis: int, offset: int) -> None:
    count = large(np.float32)
    out, memory = place(count, np.float32, offset)
    x = numbers(count, np.float32)
    kernel = row_kernel[(-(-count // BLOCK),)](x, out, count, BLOCK=BLOCK, AXIS=axis)
    assert np.array_equal(out, x) and untouched(memory, out)
    assert "versions [linear, apart, unmasked, streaming]" in kernel.asm["tile"]


@pytest.mark.parametrize("offset", [0, 16, 48])
def test_in_place(offset: int) -> None:
    count = large(np.float32) // BLOCK * BLOCK
    x, memory = place(count, np.float32, offset)
    x[...] = numbers(count, np.float32)
    expected = x / np.float32(3)
    divide_kernel[(count // BLOCK,)](x, x, 3.0, BLOCK=BLOCK)
    assert np.array_equal(x, expected) and untouched(memory, x)


@pytest.mark.parametrize("divisor", [3.0, 1e-39, 3e38, np.inf, 0.0, np.nan])
def test_extreme_divisors(divisor: float) -> None:
    count = large(np.float32) // BLOCK * BLOCK
    x, out = numbers(count, np.float32) - 40, np.zeros(count, np.float32)
    divide_kernel[(count // BLOCK,)](x, out, divisor, BLOCK=BLOCK)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x / np.float32(divisor))


@pytest.mark.parametrize("offsets", [(0, 0), (16, 16), (16, 48)])
def test_two_stores(offsets: tuple[int, int]) -> None:
    count = large(np.float32) // BLOCK * BLOCK
    x = numbers(count, np.float32)
    (first, around), (second, behind) = (place(count, np.float32, o) for o in offsets)
    two_kernel[(count // BLOCK,)](x, first, second, BLOCK=BLOCK)
    assert np.array_equal(first, x + 1) and np.array_equal(second, x * 2)
    assert untouched(around, first) and untouched(behind, second)


def test_the_text() -> None:
    x = np.zeros(BLOCK, np.float32)
    kernel = copy_kernel.warmup(x, x, BLOCK, BLOCK=BLOCK, grid=(1,))
    llir = kernel.asm["llir"]
    whole = llir.split("\nwhole")[1].split("\ngeneral")[0]
    assert "!nontemporal" in whole and "llvm.masked" not in whole
    assert "llvm.masked.store" in llir.split("\ngeneral")[1]
