"""Stores are done one whole after the other, after the loads that come before them and before those
that come later: also where they share loops with something earlier, where a tile has the same
address several times, and where chunks are not taken row by row."""

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def loaded_before(x, y, z, total, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    w = tl.load(y + at)
    tl.store(total, tl.sum(w, 0))
    sums = tl.cumsum(v, 0)  # v is read here, after the loops that sum w
    tl.store(x + at, w)
    tl.store(z + at, sums)


@tritium.jit
def summed_before(x, y, z, total, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    w = tl.load(y + at)
    t = tl.sum(w, 0)
    sums = tl.cumsum(v, 0)
    tl.store(x + at, w)  # would go into the loops of the sum
    tl.store(z + at, sums)
    tl.store(total, t)


@pytest.mark.parametrize("kernel", [loaded_before, summed_before], ids=lambda k: k.__name__)
@pytest.mark.parametrize("size", [4, 64, 1024])
def test_a_store_stays_behind_earlier_reads_of_its_place(kernel: Any, size: int) -> None:
    x, y = np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32) * 7 + 1
    z, total, before = np.zeros_like(x), np.zeros(1, np.int32), x.copy()
    kernel[(1,)](x, y, z, total, size)
    np.testing.assert_array_equal(z, np.cumsum(before))
    np.testing.assert_array_equal(x, y)
    assert total[0] == y.sum()


@tritium.jit
def product_before(x, y, w, z, sums, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + at)
    b = tl.load(w + at)
    v = tl.load(y + at)
    row = tl.sum(v, 1)
    product = tl.dot(a, b)  # reads a where it is
    tl.store(x + at, v)
    tl.store(z + at, product)
    tl.store(sums + tl.arange(0, N), row)


@pytest.mark.parametrize("size", [16, 64])
def test_a_store_stays_behind_a_product_of_what_it_overwrites(size: int) -> None:
    source = np.random.default_rng(0)
    x, y, w = (source.integers(-4, 4, (size, size)).astype(np.float32) for _ in range(3))
    z, sums, expected = np.zeros_like(x), np.zeros(size, np.float32), x @ w
    product_before[(1,)](x, y, w, z, sums, size)
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_array_equal(x, y)


@tritium.jit
def sorted_after(x, z, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(x + N - 1 - at, at)
    tl.store(z + at, tl.sort(v))


@pytest.mark.parametrize("size", [8, 64, 512])
def test_what_is_sorted_was_read_before_its_place_was_written(size: int) -> None:
    x = np.random.default_rng(0).integers(0, 1000, size).astype(np.int32)
    z, expected = np.zeros_like(x), np.sort(x)
    sorted_after[(1,)](x, z, size)
    np.testing.assert_array_equal(z, expected)
    np.testing.assert_array_equal(x, np.arange(size)[::-1])


@tritium.jit
def flipped_and_sorted(x, z, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(x + at, tl.flip(v, 0))
    tl.store(z + at, tl.sort(v))


@pytest.mark.parametrize("size", [8, 64, 512])
def test_what_is_sorted_is_also_written_back_in_another_order(size: int) -> None:
    x = np.random.default_rng(0).integers(0, 1000, size).astype(np.int32)
    z, before = np.zeros_like(x), x.copy()
    flipped_and_sorted[(1,)](x, z, size)
    np.testing.assert_array_equal(z, np.sort(before))
    np.testing.assert_array_equal(x, before[::-1])


@tritium.jit
def multiplied_after(x, y, z, N: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.load(x + row * N + column), tl.load(y + row * N + column)
    tl.store(x + column * N + row, b)
    tl.store(z + row * N + column, tl.dot(a, b))


@tritium.jit
def turned_and_multiplied(x, y, z, N: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.load(x + row * N + column), tl.load(y + row * N + column)
    turned = tl.trans(a)
    tl.store(x + row * N + column, turned)
    tl.store(z + row * N + column, tl.dot(turned, b))


@pytest.mark.parametrize("size", [16, 64])
def test_what_is_multiplied_was_read_before_its_place_was_written(size: int) -> None:
    source = np.random.default_rng(0)
    a, y = (source.integers(-4, 4, (size, size)).astype(np.float32) for _ in range(2))
    x, z = a.copy(), np.zeros_like(a)
    multiplied_after[(1,)](x, y, z, size)
    np.testing.assert_array_equal(z, a @ y)
    np.testing.assert_array_equal(x, y.T)
    x = a.copy()
    turned_and_multiplied[(1,)](x, y, z, size)
    np.testing.assert_array_equal(z, a.T @ y)
    np.testing.assert_array_equal(x, a.T)


@tritium.jit
def squared(x, z, columns, N: tl.constexpr):
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    mask = tl.broadcast_to(column < columns, [N, N])
    a = tl.load(x + row * N + column, mask, other=0.0)
    tl.store(z + row * N + column, tl.dot(a, a))


@pytest.mark.parametrize("columns", [5, 16, 32])
def test_both_operands_are_one_tile_with_a_mask(columns: int) -> None:
    x = np.random.default_rng(0).integers(-4, 4, (32, 32)).astype(np.float32)
    z, masked = np.zeros_like(x), x.copy()
    masked[:, columns:] = 0
    squared[(1,)](x, z, columns, 32)
    np.testing.assert_array_equal(z, masked @ masked)


@tritium.jit
def turned(v, N: tl.constexpr):
    return tl.trans(v)


@tritium.jit
def upside_down(v, N: tl.constexpr):
    return tl.flip(v, 0)


@tritium.jit
def rolled(v, N: tl.constexpr):
    row = (tl.arange(0, N)[:, None] + 1) % N
    return tl.gather(v, tl.broadcast_to(row, [N, N]), 0)


@tritium.jit
def accumulate(x, start, out, turns, f: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + at)
    total = tl.load(start + at)
    for _ in range(turns):
        total = f(total, N)
        total = tl.dot(a, a, total)
    tl.store(out + at, total)


REARRANGED: dict[Any, Any] = {
    turned: lambda m: m.T, upside_down: lambda m: m[::-1], rolled: lambda m: np.roll(m, -1, 0)
}  # fmt: skip


@pytest.mark.parametrize("function", REARRANGED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", [16, 64])
def test_an_accumulator_is_rearranged_between_products(function: Any, size: int) -> None:
    source = np.random.default_rng(0)
    x, start = (source.integers(-1, 2, (size, size)).astype(np.float32) for _ in range(2))
    out, expected = np.zeros_like(x), start
    accumulate[(1,)](x, start, out, 3, function, size)
    for _ in range(3):
        expected = REARRANGED[function](expected) + x @ x
    np.testing.assert_array_equal(out, expected)


# Tiles that have an element of memory several times


@tritium.jit
def increment(x, S, M: tl.constexpr, N: tl.constexpr):
    at = x + tl.arange(0, M)[:, None] * S + tl.arange(0, N)[None, :]
    tl.store(at, tl.load(at) + 1)


@tritium.jit
def increment_to(x, y, S, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * S + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.load(x + at) + 1)


@pytest.mark.covering(1)
@pytest.mark.parametrize("size", [4, 64, 256])
@pytest.mark.parametrize("stride", [0, 1, 2, -1, 300])
@pytest.mark.parametrize("twice", [False, True])
def test_all_is_read_before_rows_that_overlap_are_written(
    size: int, stride: int, twice: bool
) -> None:
    x = np.zeros(300 * 8, np.int32)
    start = 7 if stride < 0 else 0
    if twice:
        increment_to[(1,)](x[start:], x[start:], stride, 8, size)
    else:
        increment[(1,)](x[start:], stride, 8, size)
    expected = np.zeros_like(x)
    expected[(start + np.arange(8)[:, None] * stride + np.arange(size)).ravel()] = 1
    np.testing.assert_array_equal(x, expected)


@tritium.jit
def increment_anywhere(x, places, turns, N: tl.constexpr):
    at = x + tl.load(places + tl.arange(0, N))
    for i in range(turns):
        tl.store(at, tl.load(at) + 1)
        at += i + tl.arange(0, N) * 0


@pytest.mark.parametrize("size", [4, 64, 256])
def test_all_is_read_before_equal_addresses_are_written(size: int) -> None:
    places = np.random.default_rng(0).integers(0, size // 2, size).astype(np.int32)
    x = np.zeros(size, np.int32)
    increment_anywhere[(1,)](x, places, 3, size)
    expected, at = np.zeros_like(x), places
    for i in range(3):
        expected[at] = expected[at] + 1
        at = at + i
    np.testing.assert_array_equal(x, expected)


@tritium.jit
def one_and_two(x, S, M: tl.constexpr, N: tl.constexpr):
    row = tl.arange(0, M)[:, None]
    at = x + row * S + tl.arange(0, N)[None, :]
    tl.store(at, tl.full([M, N], 1, tl.int32))
    tl.store(at, tl.full([M, N], 2, tl.int32), tl.broadcast_to(row == 0, [M, N]))


@pytest.mark.parametrize("size", [4, 64, 256])
@pytest.mark.parametrize("stride", [0, 1, 2])
def test_the_second_store_wins_where_rows_overlap(size: int, stride: int) -> None:
    x = np.zeros(size + 16, np.int32)
    one_and_two[(1,)](x, stride, 8, size)
    np.testing.assert_array_equal(x[:size], 2)
    np.testing.assert_array_equal(x[size : size + stride * 7], 1)


@tritium.jit
def number_all(x, S, T, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(x + row * S + column * T, row * N + column)


@tritium.jit
def number_all_fixed(x, S: tl.constexpr, T: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(x + row * S + column * T, row * N + column)


@tritium.jit
def number_all_listed(x, places, T, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(x + row + tl.load(places + column) * T, row * N + column)


@pytest.mark.covering(1)
@pytest.mark.parametrize("kernel", [number_all, number_all_fixed], ids=lambda k: k.__name__)
@pytest.mark.parametrize("shape", [(8, 8), (32, 32), (64, 4), (4, 64)])
@pytest.mark.parametrize("strides", [(1, 2), (1, 7), (2, 1), (1, 0), (0, 0), (1, 100)])
def test_the_last_element_in_row_major_order_wins(
    kernel: Any, shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    x = np.zeros(8192, np.int32)
    kernel[(1,)](x, *strides, *shape)
    expected = np.zeros_like(x)
    for number, (row, column) in enumerate(np.ndindex(shape)):
        expected[row * strides[0] + column * strides[1]] = number
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("shape", [(8, 8), (32, 32), (64, 4)])
def test_the_last_element_wins_at_addresses_of_no_order(shape: tuple[int, int]) -> None:
    places = np.random.default_rng(0).permutation(shape[1]).astype(np.int32)
    x = np.zeros(8192, np.int32)
    number_all_listed[(1,)](x, places, 3, *shape)
    expected = np.zeros_like(x)
    for number, (row, column) in enumerate(np.ndindex(shape)):
        expected[row + places[column] * 3] = number
    np.testing.assert_array_equal(x, expected)
