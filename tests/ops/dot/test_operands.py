"""Products whose operands are used besides: transposed, converted, masked, stored to, in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl

Array = Any
N = 16


def _square(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((N, N)).astype(np.float32)


def _run(kernel: Any, *arrays: Array, **constants: int) -> Array:
    out = np.zeros((N, N), np.float32)
    kernel[(1,)](*arrays, out, **constants)
    return out


def _close(ours: Array, wanted: Array) -> None:
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)


@tritium.jit
def _transposed(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    tl.store(out + at, tl.dot(a, b) + b)


@tritium.jit
def _transposed_first(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    tl.store(out + at, tl.dot(b, a) + b + a)


@tritium.jit
def _same_twice(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    tl.store(out + at, tl.dot(a, a) + tl.dot(b, b) + tl.dot(b, tl.trans(b)) + b)


@tritium.jit
def _accumulates_its_operand(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    c = tl.dot(a, b, b)
    d = tl.dot(c, b, c)
    tl.store(out + at, d + c)


@tritium.jit
def _stored_between(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    tl.store(x + at, a * 2)
    c = tl.dot(a, b)
    tl.store(x + at, b)
    tl.store(out + at, c + b)


@tritium.jit
def _masked(x, n, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at, mask=i[None, :] < n, other=0.0)
    b = tl.trans(a)
    tl.store(out + at, tl.dot(a, b) + b)


@tritium.jit
def _derived(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.where(i[:, None] < 5, tl.trans(a), 0.0)
    c = tl.reshape(tl.trans(a.to(tl.float16).to(tl.float32)), (16, 16))
    row = tl.broadcast_to(tl.load(x + i)[None, :], (16, 16))
    total = tl.dot(a, b) + tl.dot(c, row) + tl.dot(tl.trans(row), b)
    tl.store(out + at, total + b + c + row)


@tritium.jit
def _in_a_loop(x, out, TIMES: tl.constexpr, CARRIED: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    total = tl.zeros((16, 16), tl.float32)
    for t in range(TIMES):
        a = tl.load(x + at + t * 256)
        b = tl.trans(a)
        if CARRIED:
            total = tl.dot(tl.trans(total) * 0.1, b, total) + b
        else:
            total = tl.dot(a, b, total)
            total += b
    tl.store(out + at, total)


@tritium.jit
def _swapped_by_a_loop(x, out):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    b = tl.trans(a)
    for _ in range(3):
        c = tl.dot(a, b) * 0.1
        a, b = b, c
    tl.store(out + at, tl.dot(a, tl.trans(b)) + b)


def test_transposed_and_used_again() -> None:
    x = _square(0)
    _close(_run(_transposed, x), x @ x.T + x.T)
    _close(_run(_transposed_first, x), x.T @ x + x.T + x)


def test_the_same_value_twice() -> None:
    x = _square(1)
    _close(_run(_same_twice, x), x @ x + x.T @ x.T + x.T @ x + x.T)


def test_operands_that_are_accumulators() -> None:
    x = _square(2)
    c = x @ x.T + x.T
    _close(_run(_accumulates_its_operand, x), c @ x.T + c + c)


def test_stores_to_the_operands_memory() -> None:
    x = _square(3)
    memory = x.copy()
    _close(_run(_stored_between, memory), x @ x.T + x.T)
    np.testing.assert_array_equal(memory, x.T)


@pytest.mark.parametrize("n", [0, 3, 16])
def test_masked_operands(n: int) -> None:
    x = _square(4)
    a = np.where(np.arange(N) < n, x, 0).astype(np.float32)
    out = np.zeros((N, N), np.float32)
    _masked[(1,)](x, n, out)
    _close(out, a @ a.T + a.T)


def test_operands_derived_from_loads() -> None:
    x = _square(5)
    b = np.where(np.arange(N)[:, None] < 5, x.T, 0)
    c = x.T.astype(np.float16).astype(np.float32)
    row = np.broadcast_to(x[0], (N, N))
    _close(_run(_derived, x), x @ b + c @ row + row.T @ b + b + c + row)


@pytest.mark.parametrize("carried", [0, 1])
def test_in_a_loop(carried: int) -> None:
    x = np.concatenate([_square(s) for s in range(4)])
    total = np.zeros((N, N), np.float64)
    for t in range(4):
        a = x[t * N : (t + 1) * N].astype(np.float64)
        if carried:
            total = total.T * 0.1 @ a.T + total + a.T
        else:
            total = total + a @ a.T + a.T
    _close(_run(_in_a_loop, x, TIMES=4, CARRIED=carried), total)


def test_operands_that_a_loop_exchanges() -> None:
    x = _square(6)
    a, b = x.astype(np.float64), x.T.astype(np.float64)
    for _ in range(3):
        a, b = b, a @ b * 0.1
    _close(_run(_swapped_by_a_loop, x), a @ b.T + b)
