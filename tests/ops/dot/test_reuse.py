"""Programs that share packed operands: what is in memory when a program runs counts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl

TYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8": np.int8}


@tritium.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, columns_first, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, WRAP: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    down, across, program = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.program_id(0)
    if columns_first:
        pid_m, pid_n = program % down, program // down
    else:
        pid_m, pid_n = program // across, program % across
    rows, columns = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    places = c_ptr + stride_cm * rows[:, None] + columns[None, :]
    if WRAP:
        rows, columns = rows % M, columns % N
    depth = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=KIND)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=depth[None, :] < K - k * BK, other=0)
        b = tl.load(b_ptrs, mask=depth[:, None] < K - k * BK, other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=KIND)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    tl.store(places, acc, mask=mask)


def random(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    if kind == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(TYPES[kind])


@pytest.mark.covering(1)
@pytest.mark.parametrize("columns_first", [True, False])
@pytest.mark.parametrize(
    ("sizes", "wrap"),
    [((256, 128, 512), False), ((200, 90, 333), True), ((128, 128, 4096), True),
     ((512, 64, 64), False), ((256, 32, 512), False)],
)
@pytest.mark.parametrize("kind", TYPES)
def test_programs_that_share_an_operand(
    kind: str, sizes: tuple[int, int, int], wrap: bool, columns_first: bool
) -> None:
    """Launched again after each operand has changed in place, and on other memory."""
    (m, n, k), rng = sizes, np.random.default_rng(1)
    a, b = random(rng, (m, k), kind), random(rng, (k, n), kind)
    out = np.zeros((m, n), np.int32 if kind == "int8" else np.float32)
    grid = (tritium.cdiv(m, 32) * tritium.cdiv(n, 32),)
    for step in range(4):
        if step == 1:
            a[:] = random(rng, (m, k), kind)
        elif step == 2:
            b[:] = random(rng, (k, n), kind)
        elif step == 3:
            a, b = a.copy(), b.copy()
        kernel = product[grid](
            a, b, out, m, n, k, k, n, n, columns_first, BM=32, BN=32, BK=32, WRAP=wrap,
            KIND=tl.int32 if kind == "int8" else tl.float32,
        )  # fmt: skip
        assert "store i64 -1, " in kernel.asm["llir"], "nothing is shared"
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(out, wanted, atol=0 if kind == "int8" else 2e-4 * k**0.5)


@tritium.jit
def chain(b_ptr, c_ptr, done_ptr, K):
    """Programs that see how many before them have added one to B, and what B then is."""
    program, row, depth = tl.program_id(0), tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    before = tl.atomic_add(done_ptr, 0)
    acc = tl.zeros((32, 32), dtype=tl.float32)
    for k in range(0, K, 32):
        b = tl.load(b_ptr + (k + row) * 32 + depth)
        acc = tl.dot(tl.full((32, 32), 1.0, tl.float32), b, acc, input_precision="ieee")
    tl.store(c_ptr + program * 1024 + row * 32 + depth, acc - before * K)
    for k in range(0, K, 32):
        places = b_ptr + (k + row) * 32 + depth
        tl.store(places, tl.load(places) + 1)
    tl.debug_barrier()
    tl.atomic_add(done_ptr, 1)


def test_programs_in_an_order_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITIUM_NUM_THREADS", "1")
    depth, programs = 512, 6
    b, done = np.zeros((depth, 32), np.float32), np.zeros(1, np.int32)
    out = np.ones((programs, 32, 32), np.float32)
    chain[(programs,)](b, out, done, depth)
    assert not out.any()
