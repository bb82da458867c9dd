"""Kernels of loops that are split among warps, each with what it computes (in float64) of `a` and
`b`; blocks are as large as `SHAPE` says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tritium
import tritium.language as tl

SHAPE = {"BM": 64, "BN": 32, "BK": 32}
ITERATIONS, TILES = 6, 3
M, N, K = SHAPE.values()


@tritium.jit
def scaled(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """An operand is computed from what is loaded."""
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, n * BK, BK, warp_specialize=True):
        acc = tl.dot((a.load([0, k]) * 2).to(tl.float16), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def computed_before(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A left operand is a product from before the loop; copies are waited for between its use and
    that of another left operand in registers."""
    h = tl.dot(a.load([0, 0]), b.load([0, 0]).T).to(tl.float16)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, n * BK, BK, warp_specialize=True):
        p = (tl.dot(h, b.load([0, k])) * 0.25).to(tl.float16)
        acc = tl.dot(p, b.load([0, (n - 1) * BK - k]).T, acc)
    c.store([0, 0], (acc / 64).to(tl.float16))


@tritium.jit
def summed(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """No product reads what is loaded."""
    acc = tl.zeros((BM, BK), tl.float32)
    for k in tl.range(0, n * BK, BK, warp_specialize=True):
        acc += a.load([0, k]).to(tl.float32)
    c.store([0, 0], (tl.sum(acc, 1)[:, None] + tl.zeros((BM, BN), tl.float32)).to(tl.float16))


@tritium.jit
def two_loops(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two loops in the loop that is split, each with buffers of its own."""
    for t in tl.range(0, n // 2, warp_specialize=True):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, 3 * BK, BK):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        acc = acc * 0.5
        for k in tl.range(3 * BK, n * BK, BK):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([t * BM, 0], acc.to(tl.float16))


@tritium.jit
def tiles(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile is loaded once for an inner loop, which has more iterations each time."""
    for t in tl.range(0, n // 2, warp_specialize=True):
        q = a.load([0, t * BK])
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, t):
            acc = tl.dot(q, b.load([0, k * BK]).T, acc)
        c.store([t * BM, 0], acc.to(tl.float16))


@tritium.jit
def around(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Inner loops ask; the outer one is split with them."""
    for t in tl.range(0, n // 2):
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, 3, warp_specialize=True):
            acc = tl.dot(a.load([0, k * BK]), b.load([0, k * BK]).T, acc)
        acc = acc * 0.5
        for k in tl.range(3, n, warp_specialize=True):
            acc = tl.dot(a.load([0, k * BK]), b.load([0, k * BK]).T, acc)
        c.store([t * BM, 0], acc.to(tl.float16))


@tritium.jit
def after_a_return(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The loops are in branches, which some programs do not take."""
    if tl.program_id(0) == 1:
        return
    acc = tl.zeros((BM, BN), tl.float32)
    if n > 2:
        for k in tl.range(0, 2, warp_specialize=True):
            acc = tl.dot(a.load([0, k * BK]), b.load([0, k * BK]).T, acc)
    if n > 100:
        for k in tl.range(0, n, warp_specialize=True):
            acc += tl.dot(b.load([0, k * BK]), a.load([0, k * BK]).T).T
    for k in tl.range(2, n, warp_specialize=True):
        acc = tl.dot(a.load([0, k * BK]), b.load([0, k * BK]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def in_a_while(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The loop that is split runs again and again."""
    acc, t = tl.zeros((BM, BN), tl.float32), n * 0
    while t < n // 2:
        for k in tl.range(2 * t, 2 * t + 2, warp_specialize=True):
            acc = tl.dot(a.load([0, k * BK]), b.load([0, k * BK]).T, acc)
        t += 1
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def in_a_branch(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A branch reads the buffers."""
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, n, warp_specialize=True):
        x, y = a.load([0, k * BK]), b.load([0, k * BK])
        if k % 2 == 0:
            acc = tl.dot(x, y.T, acc)
        else:
            acc += 1.0
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def loaded_in_a_branch(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One of the loads stays with the consumer."""
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, n, warp_specialize=True):
        x = a.load([0, k * BK])
        if k > 0:
            acc = tl.dot(x, b.load([0, k * BK]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def carried(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The place of the next load is carried, and so is what was loaded before."""
    acc = tl.zeros((BM, BN), tl.float32)
    at, before = n * 0, tl.zeros((BM, BK), tl.float16)
    for _ in tl.range(0, n, warp_specialize=True):
        x = a.load([0, at * BK])
        acc = tl.dot(before, b.load([0, at * BK]).T, acc)
        before = x
        at += 1
    c.store([0, 0], acc.to(tl.float16))


@tritium.jit
def by_pointers(b, c, a_ptr, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The consumer loads the transpose of the left operand by pointers."""
    acc = tl.zeros((BM, BN), tl.float32)
    rows = tl.arange(0, BM)[:, None]
    for k in tl.range(0, n, warp_specialize=True):
        places = a_ptr + rows + (k * BK + tl.arange(0, BK))[None, :] * BM
        acc = tl.dot(tl.load(tl.multiple_of(places, [16, 1])), b.load([0, k * BK]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


def _parts(a: np.ndarray, b: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(a[:, k : k + K], b[:, k : k + K].T) for k in range(0, ITERATIONS * K, K)]


def _tiles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts, none = _parts(a, b), np.zeros((M, N))
    found = [sum((parts[t][0] @ parts[k][1] for k in range(t)), none) for t in range(TILES)]
    return np.concatenate(found)


def _two_loops(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    products = [x @ y for x, y in _parts(a, b)]
    return np.concatenate([0.5 * sum(products[:3]) + sum(products[3:])] * TILES)


Result = Callable[[np.ndarray, np.ndarray], np.ndarray]
def _computed_before(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts = [y.T for _, y in _parts(a, b)]
    h = a[:, :K] @ b[:, :K].T
    return sum((h @ y) @ z.T for y, z in zip(parts, parts[::-1], strict=True)) / 256


RESULTS: dict[str, Result] = {
    "scaled": lambda a, b: 2 * a @ b.T,
    "computed_before": _computed_before,
    "summed": lambda a, b: np.repeat(a.sum(1)[:, None], N, 1),
    "two_loops": _two_loops,
    "tiles": _tiles,
    "around": _two_loops,
    "after_a_return": lambda a, b: a @ b.T,
    "in_a_while": lambda a, b: a @ b.T,
    "in_a_branch": lambda a, b: sum(x @ y for x, y in _parts(a, b)[::2]) + ITERATIONS / 2,
    "loaded_in_a_branch": lambda a, b: sum(x @ y for x, y in _parts(a, b)[1:]),
    "carried": lambda a, b: sum(
        x @ y for (x, _), (_, y) in zip(_parts(a, b), _parts(a, b)[1:], strict=False)
    ),
}  # fmt: skip
"""The values that the kernel of each name stores in `c`."""
