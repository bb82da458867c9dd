"""Elements further from the start of an argument than 32 bits of bytes, beside NumPy."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import tritium
import tritium.language as tl

_BYTES = 1 << 35
"""Bytes of address space; only the pages that are accessed take memory."""
_COUNT = 64
_STRIDES = (3, 65536, 2**26, 2**27 - 1, 2**30, -(2**28))
_ARCHS = (None, "haswell", "x86-64")


@tritium.jit
def gather_kernel(far, places, out, count: tl.constexpr):
    lanes = tl.arange(0, count)
    place = tl.load(places + lanes)
    mask = tl.load(places + count + lanes) > 0
    tl.store(out + lanes, tl.load(far + place))
    tl.store(out + count + lanes, tl.load(far + place, mask=mask, other=7))
    tl.store(far + place, lanes.to(tl.int8), mask=mask)


@tritium.jit
def rows_kernel(far, out, start, stride, rows: tl.constexpr, columns: tl.constexpr):
    row = start + tl.arange(0, rows)
    column = tl.arange(0, columns)
    to = tl.arange(0, rows)[:, None] * columns + column[None, :]
    tl.store(out + to, tl.load(far + row[:, None] * stride + column[None, :]))


@pytest.fixture(scope="module")
def far() -> Iterator[memoryview]:
    # MAP_NORESERVE has no name before Python 3.13; this is Linux's number.
    memory = mmap.mmap(-1, _BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
    yield memoryview(memory)


def _launch_options(arch: str | None) -> dict[str, str]:
    return {} if arch is None else {"arch": arch}


def _run_gather(
    far: memoryview, dtype: type[np.generic], places: NDArray[np.generic], arch: str | None
) -> None:
    """Load and then store elements at `places`, of which every third is masked."""
    whole, start = np.frombuffer(far, dtype), _BYTES // 2 // np.dtype(dtype).itemsize
    at = places.astype(np.int64) + start
    mask = np.arange(_COUNT) % 3 != 1
    whole[at] = np.arange(_COUNT) + 50
    want = np.concatenate([whole[at], np.where(mask, whole[at], 7)])
    out = np.zeros(2 * _COUNT, dtype)
    told = np.concatenate([places, mask.astype(places.dtype)])
    gather_kernel[(1,)](whole[start:], told, out, _COUNT, **_launch_options(arch))
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(
        whole[at], np.where(mask, np.arange(_COUNT), np.arange(_COUNT) + 50)
    )


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("dtype", (np.int8, np.int32, np.int64))
@pytest.mark.parametrize("index", (np.int32, np.uint32, np.int64))
@pytest.mark.every(5)
def test_indices_in_memory(
    far: memoryview, index: type[np.integer], dtype: type[np.generic], arch: str | None
) -> None:
    room = _BYTES // 2 // np.dtype(dtype).itemsize
    limits = np.iinfo(index)
    low, high = max(int(limits.min), -room), min(int(limits.max), room - 1)
    numbers = np.random.default_rng(_COUNT)
    places = numbers.choice(np.linspace(low, high, 4 * _COUNT).astype(index), _COUNT, False)
    _run_gather(far, dtype, places, arch)


@pytest.mark.parametrize("arch", _ARCHS)
@pytest.mark.parametrize("stride", _STRIDES)
@pytest.mark.parametrize("start", (0, 5, 2**20, -(2**28)))
@pytest.mark.every(7)
def test_rows_wrap_around(far: memoryview, start: int, stride: int, arch: str | None) -> None:
    """The product of two int32 numbers wraps around before it becomes an offset."""
    rows, columns = 8, 32
    row = np.arange(rows, dtype=np.int32) + np.int32(start)
    with np.errstate(over="ignore"):
        place = (row[:, None] * np.int32(stride) + np.arange(columns, dtype=np.int32)).ravel()
    whole, half = np.frombuffer(far, np.int32), _BYTES // 8
    at = place.astype(np.int64) + half
    whole[at] = np.random.default_rng(rows).integers(-99, 99, rows * columns)
    out = np.zeros(rows * columns, np.int32)
    rows_kernel[(1,)](whole[half:], out, start, stride, rows, columns, **_launch_options(arch))
    np.testing.assert_array_equal(out, whole[at])
