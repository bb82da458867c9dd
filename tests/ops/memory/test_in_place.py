"""A tile is read whole before what is made of it is stored over it, whatever the order of its
elements has become; through the same pointers, and through two arguments that are one array."""

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl

N = 32


@tritium.jit
def turned(v, K: tl.constexpr):
    return tl.trans(v)


@tritium.jit
def added_to_itself_turned(v, K: tl.constexpr):
    return v + tl.trans(v) * 2


@tritium.jit
def turned_flat(v, K: tl.constexpr):
    return tl.reshape(tl.permute(tl.reshape(v, [4, K // 4, K]), [2, 0, 1]), [K, K])


@tritium.jit
def backwards(v, K: tl.constexpr):
    return tl.flip(v, 1)


@tritium.jit
def pairs_swapped(v, K: tl.constexpr):
    first, second = tl.split(tl.reshape(v, [K, K // 2, 2]))
    return tl.reshape(tl.join(second, first), [K, K])


@tritium.jit
def gathered(v, K: tl.constexpr):
    index = (tl.arange(0, K)[:, None] * 7 + tl.arange(0, K)[None, :] * 5) % K
    return tl.gather(v, index, 0)


@tritium.jit
def sums_of_columns(v, K: tl.constexpr):
    return tl.sum(tl.trans(v), 1)[:, None] + v


@tritium.jit
def turned_in_a_loop(v, K: tl.constexpr):
    for _ in tl.range(3):
        v = tl.trans(v) + 1
    return v


@tritium.jit
def first_row(v, K: tl.constexpr):
    top = tl.sum(tl.where(tl.arange(0, K)[:, None] == 0, v, 0), 0)
    return tl.broadcast_to(top[None, :], [K, K]) - v


def _gathered(x: np.ndarray) -> np.ndarray:
    i = np.arange(N)
    return np.take_along_axis(x, (i[:, None] * 7 + i[None, :] * 5) % N, 0)


FUNCTIONS: dict[Any, Any] = {
    turned: lambda x: x.T,
    added_to_itself_turned: lambda x: x + 2 * x.T,
    turned_flat: lambda x: x.reshape(4, N // 4, N).transpose(2, 0, 1).reshape(N, N),
    backwards: lambda x: x[:, ::-1],
    pairs_swapped: lambda x: x.reshape(N, N // 2, 2)[:, :, ::-1].reshape(N, N),
    gathered: _gathered,
    sums_of_columns: lambda x: x.sum(0)[:, None] + x,
    turned_in_a_loop: lambda x: x.T + 3,
    first_row: lambda x: x[:1] - x,
}


@tritium.jit
def same_pointers(x, f: tl.constexpr, K: tl.constexpr):
    at = x + tl.arange(0, K)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(at, f(tl.load(at), K))


@tritium.jit
def two_arguments(x, y, f: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, K)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(y + at, f(tl.load(x + at), K))


@tritium.jit
def flat(x, y, f: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, K * K)
    v = tl.reshape(tl.load(x + at), [K, K])
    tl.store(y + at, tl.reshape(f(v, K), [K * K]))


@pytest.mark.covering(1)
@pytest.mark.parametrize("way", ["same pointers", "one array twice", "flat", "two arrays"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_over_its_own_input(function: Any, way: str, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-3, 3, (N, N)).astype(dtype)
    expected = FUNCTIONS[function](x).astype(dtype)
    if way == "same pointers":
        same_pointers[(1,)](x, function, N)
    elif way == "two arrays":
        source, x = x, np.zeros_like(x)
        two_arguments[(1,)](source, x, function, N)
    else:
        (flat if way == "flat" else two_arguments)[(1,)](x, x, function, N)
    np.testing.assert_array_equal(x, expected)
