"""Masks and addresses whose integer arithmetic wraps around, which it does as NumPy's does."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def hashed(o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, 1, mask=i * 1000000007 < n)


@tritium.jit
def shifted(o, start, n, N: tl.constexpr):
    tl.store(o + tl.arange(0, N), 1, mask=start + tl.arange(0, N) < n)


@tritium.jit
def scaled(o, factor, n, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.int64)
    tl.store(o + i, 1, mask=i * factor < n)


@pytest.mark.parametrize("size", [16, 64, 256])
def test_a_mask_that_wraps_around(size: int) -> None:
    i = np.arange(size, dtype=np.int32)
    for n in (10, 1, 0, 1000000000, 2147483647, -5):
        out = np.zeros(size, np.int32)
        hashed[(1,)](out, n, N=size)
        np.testing.assert_array_equal(out, i * np.int32(1000000007) < n)
    for start, n in ((2147483640, 2147483645), (2147483640, -2147483645), (-5, 3), (7, 40)):
        out = np.zeros(size, np.int32)
        shifted[(1,)](out, start, n, N=size)
        np.testing.assert_array_equal(out, np.int32(start) + i < n)
    for factor, n in ((3 << 61, 5), (1 << 60, 1 << 62), (1 << 40, 1 << 43), (-3, -7)):
        out = np.zeros(size, np.int32)
        scaled[(1,)](out, factor, n, N=size)
        np.testing.assert_array_equal(out, i.astype(np.int64) * np.int64(factor) < n)


@contextmanager
def reserved(size: int) -> Iterator[int]:
    """The address of the middle of `size` bytes of memory that is there once it is written."""
    noreserve = 0x4000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | noreserve
    memory = mmap.mmap(-1, size, flags)
    view = ctypes.c_char.from_buffer(memory)
    try:
        yield ctypes.addressof(view) + size // 2
    finally:
        del view
        memory.close()


@tritium.jit
def strided(p, o, shift: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(p + (i << shift)))


@tritium.jit
def by_stride(p, o, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(p + i * stride))


@tritium.jit
def rows(p, o, start, stride, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(p + ((start + i) * stride + j))
    tl.store(o + i * N + j, x)


@tritium.jit
def columns(p, o, sums, start, stride, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(p + ((start + i) * stride + j))
    tl.store(o + i + j * M, x)
    tl.store(sums + tl.arange(0, N), tl.sum(x, axis=0))
    tl.store(sums + N + tl.arange(0, M), tl.sum(x, axis=1))


@tritium.jit
def products(p, b, o, start, stride, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M)[:, None], tl.arange(0, K)[None, :]
    x = tl.load(p + ((start + i) * stride + k))
    y = tl.load(b + tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(o + i * M + tl.arange(0, M)[None, :], tl.dot(x.to(tl.float32), y))


@tritium.jit
def product_of_parts(p, b, o, start, stride, parts, M: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, M)[:, None], tl.arange(0, K)[None, :]
    total = tl.zeros((M, M), tl.float32)
    for part in range(parts):
        x = tl.load(p + (i * 256 + (start + part * stride) + k))
        y = tl.load(b + tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :])
        total = tl.dot(x, y, total)
    tl.store(o + i * M + tl.arange(0, M)[None, :], total)


@tritium.jit
def product_of_turned_parts(
    p, b, o, start, stride, limit, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    i, k = tl.arange(0, M)[:, None], tl.arange(0, K)
    total = tl.zeros((N, M), tl.float32)
    for part in range(tl.cdiv(limit, K)):
        kept = part * K + k < limit
        x = tl.load(p + (i * 256 + (start + part * stride) + k), mask=kept[None, :], other=0)
        y = tl.load(b + k[:, None] * N + tl.arange(0, N)[None, :], mask=kept[:, None], other=0)
        total = tl.dot(tl.trans(y), tl.trans(x), total)
    tl.store(o + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], total)


def wrapped(offsets: Any) -> Any:
    return np.asarray(offsets, np.int64).astype(np.int32).astype(np.int64)


def test_an_address_whose_offset_wraps_around() -> None:
    i, j = np.arange(64), np.arange(16)
    with reserved(9 << 30) as middle:
        p = np.frombuffer((ctypes.c_uint8 * 16).from_address(middle), np.uint8)

        def put(offsets: Any) -> Any:
            values = np.arange(1, offsets.size + 1, dtype=np.uint8).reshape(offsets.shape)
            for offset, value in zip(offsets.flat, values.flat, strict=True):
                ctypes.c_uint8.from_address(middle + int(offset)).value = value
            found = [ctypes.c_uint8.from_address(middle + int(o)).value for o in offsets.flat]
            return np.array(found, np.uint8).reshape(offsets.shape)

        out = np.zeros(64, np.uint8)
        wanted = put(wrapped(i << 30))
        strided[(1,)](p, out, 30, N=64)
        np.testing.assert_array_equal(out, wanted)
        for stride in (1 << 28, (1 << 30) + 1, -7, 1):
            wanted = put(wrapped(i * stride))
            by_stride[(1,)](p, out, stride, N=64)
            np.testing.assert_array_equal(out, wanted)
        for start, stride in ((0, 16), (60000, 65536), (65530, 32768), (2147483640, 1), (-3, 100)):
            wanted = put(wrapped((start + i[:16, None]) * stride + j))
            out = np.zeros((16, 16), np.uint8)
            rows[(1,)](p, out, start, stride, M=16, N=16)
            np.testing.assert_array_equal(out, wanted)
            sums = np.zeros(32, np.int32)
            columns[(1,)](p, out, sums, start, stride, M=16, N=16)
            np.testing.assert_array_equal(out.T, wanted)
            whole = wanted.astype(np.int32)
            np.testing.assert_array_equal(sums, [*whole.sum(0), *whole.sum(1)])
            b = np.arange(256, dtype=np.float32).reshape(16, 16)
            product = np.zeros((16, 16), np.float32)
            products[(1,)](p, b, product, start, stride, M=16, K=16)
            np.testing.assert_array_equal(product, wanted.astype(np.float32) @ b)


def test_a_loop_of_products_whose_offsets_wrap_around() -> None:
    i, j = np.arange(16)[:, None], np.arange(16)
    b = np.arange(256, dtype=np.float32).reshape(16, 16)
    with reserved(34 << 30) as middle:
        p = np.frombuffer((ctypes.c_float * 16).from_address(middle), np.float32)
        for start, stride in ((0, 16), (2147480000, 1 << 20), (0, 1 << 30), (2147483640, 4)):
            wanted = np.zeros((16, 16), np.float32)
            tiles = [wrapped(i * 256 + start + part * stride + j) for part in range(5)]
            for offset in np.unique(tiles):
                ctypes.c_float.from_address(middle + 4 * int(offset)).value = int(offset) % 11
            for tile in tiles:
                wanted += (tile % 11).astype(np.float32) @ b
            out = np.zeros((16, 16), np.float32)
            product_of_parts[(1,)](p, b, out, start, stride, 5, M=16, K=16)
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("limit", [5, 16, 40])
def test_a_loop_of_turned_and_masked_products_whose_offsets_wrap_around(limit: int) -> None:
    i, j = np.arange(16)[:, None], np.arange(16)
    b = np.arange(512, dtype=np.float32).reshape(16, 32)
    with reserved(34 << 30) as middle:
        p = np.frombuffer((ctypes.c_float * 16).from_address(middle), np.float32)
        for start, stride in ((0, 16), (2147480000, 1 << 20), (0, 1 << 30), (2147483640, 4)):
            wanted = np.zeros((16, 32), np.float32)
            parts = -(-limit // 16)
            tiles = [wrapped(i * 256 + start + part * stride + j) for part in range(parts)]
            for offset in np.unique(tiles):
                ctypes.c_float.from_address(middle + 4 * int(offset)).value = int(offset) % 11
            for part, tile in enumerate(tiles):
                kept = (part * 16 + j < limit).astype(np.float32)
                wanted += (tile % 11).astype(np.float32) * kept @ b
            out = np.zeros((32, 16), np.float32)
            product_of_turned_parts[(1,)](p, b, out, start, stride, limit, M=16, N=32, K=16)
            np.testing.assert_array_equal(out, wanted.T)


@tritium.jit
def remainders(p, o, start, m, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(p + (start + i) % m))


@tritium.jit
def quotients(p, o, start, m, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(p + (start + i) // m))


@pytest.mark.parametrize("start", [0, 16, -64, -48, 2147483600, -2147483648])
def test_what_is_divided_is_negative(start: int) -> None:
    i = np.arange(64, dtype=np.int32) + np.int32(start)
    for m in (16, 32, -16, 1 << 20, 1 << 27):
        held = np.arange(1 << 22, dtype=np.int32)
        middle = 1 << 21
        out = np.zeros(64, np.int32)
        left = np.fmod(i.astype(np.int64), m)
        if abs(left).max() < middle:
            remainders[(1,)](held[middle:], out, start, m, N=64)
            np.testing.assert_array_equal(out, left + middle)
        whole = np.trunc(i.astype(np.float64) / m).astype(np.int64)
        if abs(whole).max() < middle:
            quotients[(1,)](held[middle:], out, start, m, N=64)
            np.testing.assert_array_equal(out, whole + middle)
