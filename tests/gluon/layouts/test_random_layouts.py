"""Operations on blocks in random layouts, as compiled for warps, against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import launcher
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl


def split(rng: random.Random, total: int, rank: int) -> list[int]:
    """`total`, a power of two, as the product of one factor for each axis."""
    factors = [1] * rank
    for _ in range(total.bit_length() - 1):
        factors[rng.randrange(rank)] *= 2
    return factors


def blocked(rng: random.Random, rank: int, warps: int = 4) -> gl.BlockedLayout:
    order = list(range(rank))
    rng.shuffle(order)
    return gl.BlockedLayout(
        split(rng, rng.choice([1, 2, 4, 8]), rank), split(rng, 32, rank), split(rng, warps, rank),
        order,
    )  # fmt: skip


def linear(rng: random.Random, shape: list[int], warps: int = 4) -> gl.DistributedLinearLayout:
    """All bits of all coordinates, in any order; lanes and warps for which there are none hold
    copies."""
    rank = len(shape)
    bases = [[1 << bit if i == axis else 0 for i in range(rank)]
             for axis, size in enumerate(shape)
             for bit in range(size.bit_length() - 1)]  # fmt: skip
    rng.shuffle(bases)
    spare = max(5 + warps.bit_length() - 1 - len(bases), rng.choice([0, 0, 1]))
    threads = [*bases[: 7 - spare], *[[0] * rank] * spare]
    rng.shuffle(threads)
    return gl.DistributedLinearLayout(bases[7 - spare :], threads[:5], threads[5:], [], shape)


def any_layout(rng: random.Random, shape: list[int]) -> Any:
    return linear(rng, shape) if rng.random() < 0.4 else blocked(rng, len(shape))


@gluon.jit
def operations_kernel(
    src, out, M: gl.constexpr, N: gl.constexpr, a: gl.constexpr, b: gl.constexpr,
    shared: gl.constexpr, line: gl.constexpr,
):  # fmt: skip
    i = gl.arange(0, M, gl.SliceLayout(1, a))
    j = gl.arange(0, N, gl.SliceLayout(0, a))
    at = i[:, None] * N + j[None, :]
    x = gl.load(src + at)
    gl.store(out + i, gl.sum(x, 1))
    gl.store(out + M + j, gl.max(x, 0))
    out += M + N
    gl.store(out + at, gl.cumsum(x, 0))
    out += M * N
    gl.store(out + at, gl.associative_scan(x, 1, add, reverse=True))
    out += M * N
    k = gl.arange(0, M, gl.SliceLayout(1, b))[:, None]
    m = gl.arange(0, N, gl.SliceLayout(0, b))[None, :]
    y = gl.convert_layout(x, b)
    gl.store(out + k * N + m, y)
    out += M * N
    gl.store(out + at, gl.gather(x, (at * 7) % M, 0))
    out += M * N
    memory = gl.allocate_shared_memory(gl.int32, [M, N], shared, y)
    z = memory.permute((1, 0)).load(gl.to_linear_layout(gl.AutoLayout() if M < 0 else b, [N, M]))
    z = gl.permute(z, (1, 0))
    gl.store(out + k * N + m, gl.convert_layout(z, b))
    out += M * N
    joined = gl.reshape(gl.join(x, x + 1), (M, 2 * N))
    flat = gl.convert_layout(gl.reshape(joined, (2 * M * N,)), line)
    gl.store(out + gl.arange(0, 2 * M * N, line), flat)


@gluon.jit
def add(p, q):
    return p + q


@pytest.mark.every(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("seed", range(12))
def test_operations(seed: int) -> None:
    rng = random.Random(seed)
    m, n = rng.choice([8, 16, 32, 64]), rng.choice([8, 16, 32])
    source = np.random.default_rng(seed).integers(-99, 99, (m, n)).astype(np.int32)
    order = rng.choice([[0, 1], [1, 0]])
    shared = rng.choice([
        gl.SwizzledSharedLayout(rng.choice([1, 4]), 1, rng.choice([1, 8]), order),
        gl.NVMMASharedLayout(rng.choice([0, 32]), 32, transposed=rng.random() < 0.5),
    ])  # fmt: skip
    a, b = any_layout(rng, [m, n]), blocked(rng, 2)
    out = np.zeros(m + n + 5 * m * n + 2 * m * n, np.int32)
    launcher("simt")(operations_kernel, (1,), source, out, M=m, N=n, a=a, b=b, shared=shared,
                     line=blocked(rng, 1))  # fmt: skip
    rows = (np.arange(m * n).reshape(m, n) * 7) % m
    wanted = [
        source.sum(1), source.max(0), source.cumsum(0), source[:, ::-1].cumsum(1)[:, ::-1], source,
        source[rows, np.arange(n)], source, np.stack([source, source + 1], -1),
    ]  # fmt: skip
    start = 0
    for number, part in enumerate(wanted):
        found = out[start : start + part.size].reshape(part.shape)
        np.testing.assert_array_equal(found, part, f"part {number}: {a}, {b}, {shared}")
        start += part.size
