"""Products whose operands have masks along rows and columns, at the end of memory."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl

TYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "int8": np.int8}


@tritium.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_bk, stride_bn, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, MASKS: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """MASKS names those of the loads: rows, columns, K, and `whole` for a scalar."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=KIND)
    for k in range(0, K, BK):
        depth = k + tl.arange(0, BK)
        of_a = tl.full((BM, BK), 1, tl.int1)
        of_b = tl.full((BK, BN), 1, tl.int1)
        if "k" in MASKS:
            of_a &= depth[None, :] < K
            of_b &= depth[:, None] < K
        if "r" in MASKS:
            of_a = of_a & (rows[:, None] < M)
        if "c" in MASKS:
            of_b = (columns < N)[None, :] & of_b
        if "w" in MASKS:
            of_a &= tl.program_id(0) * BM < M
        if "m" in MASKS:  # the rows that there are change with k
            of_a &= rows[:, None] < M - k
        a = tl.load(a_ptr + rows[:, None] * K + depth[None, :], mask=of_a, other=0)
        b = tl.load(
            b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn, mask=of_b, other=0
        )
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=KIND)
    places = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(places, acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def guarded(array: np.ndarray) -> tuple[np.ndarray, mmap.mmap]:
    """A copy that ends where memory cannot be read, and the memory that it is in."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    end = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(page), 0) == 0
    held = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes)
    held = held.reshape(array.shape)
    held[:] = array
    return held, memory


def random(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    if kind == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.integers(-8, 8, shape).astype(TYPES[kind])


@pytest.mark.covering(1)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("kind", "sizes", "tile", "masks"),
    [
        ("fp32", (37, 75, 200), (16, 32, 64), "krc"), ("bf16", (64, 96, 256), (16, 32, 64), "krc"),
        ("int8", (37, 75, 200), (16, 32, 64), "krc"), ("fp32", (64, 75, 128), (16, 32, 64), "c"),
        ("fp32", (37, 64, 128), (32, 64, 32), "r"), ("bf16", (32, 64, 100), (32, 64, 32), "k"),
        ("fp32", (1, 70, 130), (1, 64, 32), "krc"), ("bf16", (3, 130, 200), (16, 128, 64), "krc"),
        ("fp32", (64, 64, 96), (16, 32, 32), "kwc"), ("fp32", (40, 64, 96), (16, 32, 32), "mc"),
        ("fp32", (5, 1, 64), (4, 1, 16), "krc"), ("fp32", (8, 3, 64), (4, 1, 16), "k"),
    ],
)  # fmt: skip
def test_masks_of_rows_and_columns(
    kind: str, transposed: bool, sizes: tuple[int, int, int], tile: tuple[int, int, int], masks: str
) -> None:
    """Elements beyond a mask are not read: memory ends behind A and B."""
    (m, n, k), rng = sizes, np.random.default_rng(0)
    a, b = random(rng, (m, k), kind), random(rng, (n, k) if transposed else (k, n), kind)
    (a, _one), (b, _two) = guarded(a), guarded(b)
    of_b = b.T if transposed else b
    result = np.int32 if kind == "int8" else np.float32
    out = np.full((m, n), 77, result)
    grid = -(-m // tile[0]), -(-n // tile[1])
    strides = (1, k) if transposed else (n, 1)
    kernel = product[grid](
        a, b, out, m, n, k, *strides, *tile, MASKS=masks,
        KIND=tl.int32 if kind == "int8" else tl.float32,
    )  # fmt: skip
    assert "tile.view_a" in kernel.asm["tile"] and "tile.view_b" in kernel.asm["tile"]
    wanted = np.zeros((m, n), np.float64)
    for first in range(0, k, tile[2]):
        part = a[:, first : first + tile[2]].astype(np.float64)
        if "m" in masks:
            part[max(m - first, 0) :] = 0
        wanted += part @ of_b[first : first + tile[2]].astype(np.float64)
    np.testing.assert_array_equal(out, wanted)


def test_a_masked_row_multiplies_by_zero() -> None:
    """A row beyond the mask of A is stored as 0 times the elements of B."""

    @tritium.jit
    def kernel(a_ptr, b_ptr, c_ptr, M, K):
        rows, columns = tl.arange(0, 16), tl.arange(0, 32)
        acc = tl.zeros((16, 32), tl.float32)
        for k in range(0, K, 32):
            depth = k + tl.arange(0, 32)
            of_a = (rows[:, None] < M) & (depth[None, :] < K)
            a = tl.load(a_ptr + rows[:, None] * K + depth[None, :], mask=of_a, other=0)
            of_b = depth[:, None] < K
            b = tl.load(b_ptr + depth[:, None] * 32 + columns[None, :], mask=of_b, other=0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        tl.store(c_ptr + rows[:, None] * 32 + columns[None, :], acc)

    a = np.ones((16, 64), np.float32)
    b = np.ones((64, 32), np.float32)
    b[40, 3], b[7, 8] = np.inf, np.nan
    for rows in (16, 5, 0):
        out = np.empty((16, 32), np.float32)
        kernel[1,](a, b, out, rows, 64)
        with np.errstate(invalid="ignore"):
            wanted = (a * (np.arange(16) < rows)[:, None]) @ b
        np.testing.assert_array_equal(out, wanted)


@tritium.jit
def few_rows(
    a_ptr, b_ptr, c_ptr, sums_ptr, M, STORED, K, HOW: tl.constexpr, BM: tl.constexpr
):  # fmt: skip
    """The first M rows of A times B, and more after it: HOW says what is done with the result."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, 32)
    acc = tl.full((BM, 32), 2, tl.float32)
    for k in range(0, K, 32):
        depth = k + tl.arange(0, 32)
        of_a = (rows[:, None] < M) & (depth[None, :] < K)
        a = tl.load(a_ptr + rows[:, None] * K + depth[None, :], mask=of_a, other=0)
        of_b = depth[:, None] < K
        b = tl.load(b_ptr + depth[:, None] * 32 + columns[None, :], mask=of_b, other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    places = c_ptr + rows[:, None] * 32 + columns[None, :]
    if HOW == "sum":
        tl.store(sums_ptr + tl.program_id(0) * 32 + columns, tl.sum(acc, 0))
    if HOW == "other":
        tl.store(places, acc, mask=rows[:, None] < STORED)
    elif HOW == "columns":
        tl.store(places, acc, mask=columns[None, :] < M)
    elif HOW == "turned":
        tl.store(places, acc * 0.5, mask=(rows[:, None] < M) & (columns[None, :] < STORED))
        tl.store(c_ptr + STORED * 32 + columns[:, None] * BM + tl.arange(0, BM)[None, :], acc.T)
    else:
        tl.store(places, tl.maximum(acc * 0.5 + 1, -3), mask=rows[:, None] < M)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["same", "other", "columns", "turned", "sum"])
@pytest.mark.parametrize(("rows", "m"), [(16, 1), (16, 7), (4, 9)])
def test_rows_that_are_used(how: str, rows: int, m: int) -> None:
    """Rows beyond the mask of A are left out only if nothing uses them."""
    rng, stored, k = np.random.default_rng(2), 12, 70
    (a, _one) = guarded(random(rng, (m, k), "fp32"))
    b = random(rng, (k, 32), "fp32")
    programs = 1 if how == "turned" else 2
    out, sums = np.full((64, 32), 77, np.float32), np.zeros((2, 32), np.float32)
    few_rows[(programs,)](a, b, out, sums, m, stored, k, HOW=how, BM=rows)
    whole = np.full((programs * rows, 32), 2, np.float32)
    whole[:m] += (a @ b)[: len(whole)]
    wanted, index = np.full((64, 32), 77, np.float32), np.arange(len(whole))[:, None]
    kept: dict[str, np.ndarray] = {
        "other": index < stored, "columns": np.arange(32) < m,
        "turned": (index < m) & (np.arange(32) < stored),
    }  # fmt: skip
    new = {"other": whole, "columns": whole, "turned": whole / 2}.get(
        how, np.maximum(whole / 2 + 1, -3)
    )
    wanted[: len(whole)] = np.where(kept.get(how, index < m), new, 77)
    if how == "turned":
        wanted.reshape(-1)[stored * 32 : stored * 32 + 32 * rows] = whole.T.reshape(-1)
    np.testing.assert_array_equal(out, wanted)
    if how == "sum":
        np.testing.assert_array_equal(sums, whole.reshape(2, rows, 32).sum(1))
