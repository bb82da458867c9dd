"""Whole kernels: native code, the interpreter and the reference semantics agree, and are right."""

import math

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all
from tritium import cdiv, jit

rng = np.random.default_rng(0)


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@pytest.mark.covering(1)
@pytest.mark.parametrize("n", [1, 15, 16, 17, 1000, 1024])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64])
def test_vector_add(n, dtype):
    x, y = (rng.integers(-50, 50, n).astype(dtype) for _ in range(2))
    out = np.full(n + 3, 99, dtype)
    result = run_all(add, (cdiv(n, 64),), x=x, y=y, out=out, n=n, BLOCK=64)["out"]
    np.testing.assert_array_equal(result[:n], x + y)
    np.testing.assert_array_equal(result[n:], out[n:])


def softmax(x, out, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * x_stride + offsets, mask=mask, other=-float("inf"))
        exponents = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * out_stride + offsets, exponents / tl.sum(exponents, axis=0), mask)


@pytest.mark.parametrize("shape", [(5, 7), (3, 64), (17, 781)])
def test_softmax(shape):
    x = floats(*shape)
    out = np.zeros_like(x)
    block = 1 << (shape[1] - 1).bit_length()
    result = run_all(
        softmax, (2,), x=x, out=out, x_stride=shape[1], out_stride=shape[1], rows=shape[0],
        columns=shape[1], BLOCK=block,
    )["out"]  # fmt: skip
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def layer_norm(x, w, b, out, mean, rstd, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + offsets, mask=offsets < columns, other=0.0)
    average = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + offsets, mask=offsets < columns, other=0.0)
        centred = tl.where(offsets < columns, values - average, 0.0)
        squares += centred * centred
    inverse = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, inverse)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        values = tl.load(x + row * stride + offsets, mask=mask, other=0.0)
        scale, shift = tl.load(w + offsets, mask=mask), tl.load(b + offsets, mask=mask)
        tl.store(out + row * stride + offsets, (values - average) * inverse * scale + shift, mask)


def test_layer_norm():
    x, w, b = floats(4, 100), floats(100), floats(100)
    result = run_all(
        layer_norm, (4,), x=x, w=w, b=b, out=np.zeros_like(x), mean=np.zeros(4, np.float32),
        rstd=np.zeros(4, np.float32), stride=100, columns=100, eps=1e-5, BLOCK=32,
    )["out"]  # fmt: skip
    centred = x - x.mean(1, keepdims=True)
    expected = centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@jit
def activation(x):
    return tl.where(x >= 0, x, 0.01 * x)


def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATE: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BN)
    per_group = GROUP * columns
    first = pid // per_group * GROUP
    size = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + (pid % per_group) % size
    pid_n = (pid % per_group) // size
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    cols = (pid_n * BN + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    a_ptrs = a + rows[:, None] * sam + ks[None, :] * sak
    b_ptrs = b + ks[:, None] * sbk + cols[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(a_ptrs, mask=ks[None, :] < K - k * BK, other=0.0)
        right = tl.load(b_ptrs, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    if ACTIVATE:
        acc = activation(acc)
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + scm * rows[:, None] + scn * cols[None, :], acc.to(c.dtype.element_ty), mask)


@pytest.mark.covering(1)
@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (70, 33, 50), (16, 128, 17)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul(M, N, K, transposed, dtype):
    a = floats(M, K, dtype=dtype)
    b = floats(N, K, dtype=dtype).T if transposed else floats(K, N, dtype=dtype)
    c = np.zeros((M, N), dtype)
    strides = [s // a.itemsize for s in (*a.strides, *b.strides, *c.strides)]
    names = ("sam", "sak", "sbk", "sbn", "scm", "scn")
    stored = np.ascontiguousarray(b.T) if transposed else b
    result = run_all(
        matmul, (cdiv(M, 32) * cdiv(N, 32),), a=a, b=stored, c=c, M=M, N=N, K=K,
        **dict(zip(names, strides, strict=True)), BM=32, BN=32, BK=16, GROUP=2,
        ACTIVATE=not transposed,
        rtol=1e-2 if dtype == np.float16 else 1e-4, atol=1e-2 if dtype == np.float16 else 1e-4,
    )["c"]  # fmt: skip
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if not transposed:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    tolerance = 2e-2 if dtype == np.float16 else 1e-4
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def attention(q, k, v, out, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              D: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + dims[None, :])
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    stop = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, length) if CAUSAL else length
    for start in range(0, stop, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        key = tl.load(k + cols[None, :] * D + dims[:, None])
        scores = tl.dot(query, key) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= cols[None, :], scores, -float("inf"))
        peak = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp(scores - peak[:, None])
        alpha = tl.exp(m - peak)
        total = total * alpha + tl.sum(p, 1)
        value = tl.load(v + cols[:, None] * D + dims[None, :])
        acc = tl.dot(p, value, acc * alpha[:, None])
        m = peak
    tl.store(out + rows[:, None] * D + dims[None, :], acc / total[:, None])


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    n, d = 64, 16
    q, k, v = (floats(n, d) for _ in range(3))
    result = run_all(
        attention, (2,), q=q, k=k, v=v, out=np.zeros_like(q), length=n, scale=1 / math.sqrt(d),
        BLOCK_M=32, BLOCK_N=16, D=d, CAUSAL=causal, rtol=1e-4, atol=1e-5,
    )["out"]  # fmt: skip
    scores = q @ k.T / math.sqrt(d)
    if causal:
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(result, p / p.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    values = tl.load(x + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out + offsets, tl.where(keep, values / (1 - p), 0.0), mask=mask)


def test_dropout():
    x = floats(1000)
    result = run_all(
        dropout, (cdiv(1000, 128),), x=x, out=np.zeros_like(x), n=1000, p=0.3, seed=123, BLOCK=128
    )["out"]
    kept = result != 0
    np.testing.assert_allclose(result[kept], (x / 0.7)[kept], rtol=1e-5)
    assert 0.62 < kept.mean() < 0.78


def locked_sum(lock, total, x):
    value = tl.load(x + tl.program_id(0))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + value)
    tl.atomic_xchg(lock, 0)


def test_programs_share_a_lock():
    x = floats(100)
    result = run_all(
        locked_sum, (100,), lock=np.zeros(1, np.int32), total=np.zeros(1, np.float32), x=x,
        rtol=1e-4, atol=1e-4,
    )["total"]  # fmt: skip
    np.testing.assert_allclose(result[0], x.sum(), rtol=1e-4, atol=1e-4)


def atomic_sum(x, total, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total + offsets % 7, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def test_atomic_add():
    x = rng.integers(0, 100, 5000).astype(np.int32)
    result = run_all(
        atomic_sum, (cdiv(5000, 64),), x=x, total=np.zeros(7, np.int32), n=5000, BLOCK=64
    )["total"]
    np.testing.assert_array_equal(result, [x[i::7].sum() for i in range(7)])


def reductions(x, out, indices, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    block = tl.load(x + rows[:, None] * N + cols[None, :])
    tl.store(out + rows, tl.sum(block, 1))
    tl.store(out + M + rows, tl.max(block, 1))
    tl.store(out + 2 * M + rows, tl.min(block, 1))
    tl.store(out + 3 * M + cols, tl.sum(block, 0))
    tl.store(indices + rows, tl.argmax(block, 1))
    tl.store(indices + M + cols, tl.argmin(block, 0))


@pytest.mark.every(2)
@pytest.mark.parametrize("M, N", [(8, 32), (32, 8), (1, 64), (64, 1), (16, 16)])
def test_reductions(M, N):
    x = floats(M, N)
    result = run_all(
        reductions, x=x, out=np.zeros(3 * M + N, np.float32), indices=np.zeros(M + N, np.int32),
        M=M, N=N,
    )  # fmt: skip
    np.testing.assert_allclose(result["out"][:M], x.sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(result["out"][M : 2 * M], x.max(1))
    np.testing.assert_array_equal(result["indices"][:M], x.argmax(1))
    np.testing.assert_array_equal(result["indices"][M:], x.argmin(0))


def shapes(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N)
    block = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + i[:, None] * N + j[None, :], tl.trans(block) + tl.reshape(block, (N, N)))
    even, odd = tl.split(tl.reshape(block, (N, N // 2, 2)))
    tl.store(out + N * N + i[:, None] * N + j[None, :], tl.interleave(odd, even))
    tl.store(out + 2 * N * N + i, tl.cumsum(tl.sum(block, 0), 0))


def test_shapes():
    x = floats(8, 8)
    result = run_all(shapes, x=x, out=np.zeros(3 * 64, np.float32), N=8)["out"]
    np.testing.assert_allclose(result[:64].reshape(8, 8), x.T + x, rtol=1e-6)
    swapped = x.reshape(8, 4, 2)[:, :, ::-1].reshape(8, 8)
    np.testing.assert_array_equal(result[64:128].reshape(8, 8), swapped)
    np.testing.assert_allclose(result[128:136], x.sum(0).cumsum(), rtol=1e-4, atol=1e-5)


def early(out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(out + pid, pid * 2)


@pytest.mark.parametrize("grid", [0, 1, 5, 9])
def test_early_return_and_zero_grid(grid):
    result = run_all(early, (grid,), out=np.full(9, -1, np.int32), n=4)["out"]
    expected = np.full(9, -1)
    count = min(grid, 4)
    expected[:count] = 2 * np.arange(count)
    np.testing.assert_array_equal(result, expected)


def ids(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + x + nx * (y + ny * z), x + 10 * y + 100 * z)


def test_program_ids():
    result = run_all(ids, (2, 3, 4), out=np.zeros(24, np.int32))["out"]
    expected = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    np.testing.assert_array_equal(result, expected)
