"""Reductions, scans, elementwise maps: interpreted, compiled, and against NumPy."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, both, eager
from tritium.errors import CompileTimeAssertionFailure
from tritium.language.jit.function import device_function as jit

RNG = np.random.default_rng(0)
DTYPES = [tl.int8, tl.int16, tl.int32, tl.int64, tl.uint8, tl.uint32, tl.float16, tl.float32,
          tl.float64, tl.bfloat16]  # fmt: skip


def numbers(shape, dtype):
    low = 0 if dtype.is_int_unsigned() else -20
    return RNG.integers(low, 20, shape).astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.every(5)
def test_builtin_reductions(dtype, axis):
    values = numbers((4, 8), dtype)
    with eager():
        x = block(values, dtype)
        wide = values.astype(np.float64)
        for function, reference in ((tl.sum, np.sum), (tl.max, np.max), (tl.min, np.min)):
            expected = reference(wide, axis=axis)
            found = function(x, axis)
            assert found.type.shape == expected.shape
            np.testing.assert_array_equal(found.value.astype(np.float64), expected)
            kept = function(x, axis, keep_dims=True)
            assert kept.type.shape == reference(wide, axis=axis, keepdims=True).shape
        if dtype.is_int():
            for function, ufunc in ((tl.xor_sum, np.bitwise_xor), (tl.reduce_or, np.bitwise_or)):
                np.testing.assert_array_equal(
                    function(x, axis).value, ufunc.reduce(values, axis=axis)
                )
        if axis is not None:
            np.testing.assert_array_equal(tl.argmax(x, axis).value, np.argmax(wide, axis))
            np.testing.assert_array_equal(x.argmin(axis).value, np.argmin(wide, axis))


def test_result_dtypes():
    with eager():
        for dtype, sums, ordered in (
            (tl.int8, tl.int32, tl.int32), (tl.uint16, tl.uint32, tl.int32),
            (tl.int64, tl.int64, tl.int64), (tl.float16, tl.float16, tl.float32),
            (tl.bfloat16, tl.bfloat16, tl.float32), (tl.float64, tl.float64, tl.float64),
        ):  # fmt: skip
            x = block(numbers(4, dtype), dtype)
            assert (tl.sum(x).dtype, tl.max(x).dtype) == (sums, ordered)
            assert tl.sum(x, dtype=tl.float32).dtype == tl.float32
            assert tl.cumsum(x).dtype == tl.cumprod(x).dtype == sums
            for function in (tl.max, tl.min):
                value, index = function(x, 0, return_indices=True)
                assert (value.dtype, index.dtype) == (dtype, tl.int32)
        with pytest.raises(CompileTimeAssertionFailure, match="only supported for integers"):
            tl.xor_sum(block([1.0], tl.float32), 0)
        with pytest.raises(ValueError, match=r"invalid axis 2. Expected -1 <= axis < 1"):
            tl.sum(block([1, 2]), 2)


def test_ties_and_indices():
    with eager():
        x = block([3, 9, 9, 1], tl.int32)
        value, index = tl.max(x, 0, return_indices=True)
        assert (int(value), int(index)) == (9, 1)
        assert int(tl.argmax(x, 0)) == 1 and int(tl.argmin(x, 0)) == 3
        assert int(tl.argmax(x, 0, tie_break_left=False)) in (1, 2)
        y = block([[5, 5], [7, 5]])
        assert y.argmax(1, keep_dims=True).value.tolist() == [[0], [0]]
        value, index = tl.min(y, None, return_indices=True, keep_dims=True)
        assert value.value.tolist() == [[5]] and index.value.tolist() == [[0]]


def test_welford_as_custom_reduction():
    @jit
    def combine(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
        delta = mean_b - mean_a
        count = count_a + count_b
        ratio = tl.where(count == 0.0, 0.0, count_b / count)
        return (
            mean_a + delta * ratio,
            m2_a + m2_b + delta * delta * count_a * ratio,
            count,
        )

    @jit
    def kernel(x, out):
        v = tl.load(x + tl.arange(0, 4)[:, None] * 32 + tl.arange(0, 32)[None, :])
        _, m2, count = tl.reduce((v, tl.zeros_like(v), v * 0 + 1), 1, combine)
        tl.store(out + tl.arange(0, 4), m2 / count)

    x = RNG.normal(size=(4, 32)).astype(np.float32)
    out = np.zeros(4, np.float32)
    both(kernel, x=x, out=out)
    np.testing.assert_allclose(out, x.var(1), rtol=1e-5)


def test_combine_function_that_branches():
    @jit
    def larger(a, b):
        result = a
        if b > a:
            result = b
        return result

    @jit
    def kernel(x, out):
        v = tl.load(x + tl.arange(0, 8))
        tl.store(out, tl.reduce(v, 0, larger))
        tl.store(out + 1 + tl.arange(0, 8), tl.associative_scan(v, 0, larger))

    x, out = numbers(8, tl.int32), np.zeros(9, np.int32)
    both(kernel, x=x, out=out)
    assert out.tolist() == [x.max(), *np.maximum.accumulate(x)]


def test_scans():
    with eager():
        for dtype in (tl.int8, tl.int32, tl.float32, tl.bfloat16):
            values = RNG.integers(-2, 3, (4, 8)).astype(NUMPY[dtype])
            x, wide = block(values, dtype), values.astype(np.float64)
            for axis in (0, 1):
                for reverse in (False, True):
                    w = np.flip(wide, axis) if reverse else wide
                    for function, reference in ((tl.cumsum, np.cumsum), (tl.cumprod, np.cumprod)):
                        if dtype == tl.int8 and function is tl.cumprod:
                            continue
                        expected = reference(w, axis)
                        expected = np.flip(expected, axis) if reverse else expected
                        found = function(x, axis, reverse).value.astype(np.float64)
                        np.testing.assert_array_equal(found, expected)
        flags = block([1, 0, 1, 1], tl.int1)
        assert tl.cumsum(flags).value.tolist() == [1, 1, 2, 3]
        assert tl.cumsum(block([1, 2], tl.int32), dtype=tl.float32).dtype == tl.float32
        with pytest.raises(ValueError, match="invalid axis"):
            tl.cumsum(flags, 1)


def test_linear_recurrence_as_custom_scan():
    @jit
    def step(a1, b1, a2, b2):
        return a1 * a2, b1 * a2 + b2

    @jit
    def kernel(a, b, out):
        i = tl.arange(0, 16)
        _, state = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, step)
        tl.store(out + i, state)

    a, b = RNG.random((2, 16)).astype(np.float32)
    out = np.zeros(16, np.float32)
    both(kernel, a=a, b=b, out=out)
    state, expected = 0.0, []
    for x, y in zip(a, b, strict=True):
        state = state * x + y
        expected.append(state)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


@jit
def returns_both(a, b):
    return a, b


@jit
def returns_a_comparison(a, b):
    return a < b


@jit
def returns_two_of_four(a, b, c, d):
    return a, b


def test_wrong_combine_functions():
    with eager():
        x = block([1.0, 2.0], tl.float32)
        with pytest.raises(ValueError, match="returns 2 values; 1 needed"):
            tl.reduce(x, 0, returns_both)
        with pytest.raises(TypeError, match="returns int1 for an element of type fp32"):
            tl.reduce(x, 0, returns_a_comparison)
        with pytest.raises(ValueError, match="one is required"):
            tl.reduce((x, block([1])), 0, returns_two_of_four)
        with pytest.raises(TypeError, match=r"combine_fn is <lambda>; a @triton.jit function"):
            tl.reduce(x, 0, lambda a, b: a)


def test_library_compiles_to_the_same():
    @jit
    def kernel(x, out, places, K: tl.constexpr):
        i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
        v = tl.load(x + i)
        tl.store(out + i, tl.sort(v, descending=True))
        tl.store(out + 32 + i, tl.flip(v, 0))
        tl.store(out + 64 + i, tl.softmax(v, 1))
        tl.store(out + 96 + i, tl.cumsum(v, 1, reverse=True))
        j = tl.arange(0, 4)[:, None] * K + tl.arange(0, K)[None, :]
        tl.store(out + 128 + j, tl.topk(v, K))
        tl.store(out + 144 + tl.arange(0, 4), v.max(1) + tl.sum(v, 1) - tl.min(v))
        tl.store(places + tl.arange(0, 4), tl.argmax(v, 1))
        tl.store(places + 4 + tl.arange(0, 8), tl.argmin(v, 0))
        best, where = tl.max(v, 1, return_indices=True, keep_dims=True)
        tl.store(places + 12 + tl.arange(0, 4)[:, None], where + best.to(tl.int32))

    x = RNG.normal(size=(4, 8)).astype(np.float32)
    both(kernel, x=x, out=np.zeros(160, np.float32), places=np.zeros(16, np.int32), K=4)


def test_values_of_map_elementwise_come_in_packs():
    @jit
    def one(a, b):
        return a + b

    @jit
    def mixed(a, b):
        return a, b.to(tl.float16)

    with eager():
        for function, given in ((one, "int32"), (mixed, "int32, fp16")):
            with pytest.raises(ValueError, match=rf"returns \({given}\); with pack=2 each"):
                tl.map_elementwise(function, block(np.arange(8)), pack=2)


def test_map_elementwise():
    @jit
    def branchy(a, b):
        result = a - b
        if a < b:
            result = b * 10
        return result, result > 20

    @jit
    def pairs(a0, a1):
        return a1, a0

    @jit
    def kernel(x, out, flags):
        i = tl.arange(0, 8)
        v = tl.load(x + i)
        value, flag = tl.map_elementwise(branchy, v, 4)
        tl.store(out + i, value)
        tl.store(flags + i, flag)
        (turned,) = tl.map_elementwise(pairs, v, pack=2)
        tl.store(out + 8 + i, turned)

    x = np.arange(8, dtype=np.int32)
    out, flags = np.zeros(16, np.int32), np.zeros(8, np.bool_)
    both(kernel, x=x, out=out, flags=flags)
    expected = np.where(x < 4, 40, x - 4)
    assert out.tolist() == [*expected, 1, 0, 3, 2, 5, 4, 7, 6]
    assert flags.tolist() == (expected > 20).tolist()


def test_swizzle2d_golden():
    # 5 x 7 blocks in groups of 3 rows: columns of 3, then of the 2 rows that are left.
    golden = [
        [0, 3, 6, 9, 12, 15, 18], [1, 4, 7, 10, 13, 16, 19], [2, 5, 8, 11, 14, 17, 20],
        [21, 23, 25, 27, 29, 31, 33], [22, 24, 26, 28, 30, 32, 34],
    ]  # fmt: skip
    found = np.zeros((5, 7), int)
    with eager():
        for i in range(5):
            for j in range(7):
                r, c = tl.swizzle2d(block(i), block(j), 5, 7, 3)
                found[int(r), int(c)] = i * 7 + j
    assert found.tolist() == golden


def test_small_helpers():
    with eager():
        assert tl.cdiv(block([7, 8, 9, 0]), 4).value.tolist() == [2, 2, 3, 0]
        assert tl.cdiv(7, 2) == 4
        x = block([-1.0, 0.0, 2.0, 9.0], tl.float32)
        np.testing.assert_allclose(x.sigmoid().value, 1 / (1 + np.exp(-x.value)), rtol=1e-6)
        y = block(RNG.normal(size=(4, 8)), tl.float32)
        e = np.exp(y.value - y.value.max(0))
        np.testing.assert_allclose(tl.softmax(y).value, e / e.sum(0), rtol=1e-6)
        e = np.exp(y.value - y.value.max(1, keepdims=True))
        found = tl.softmax(y, 1, ieee_rounding=True).value
        np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-6)
