"""Functions of the library with their newer arguments: `squeeze`, `unsqueeze`, `cat` along an axis,
`topk` in both orders, `cumprod` in a dtype, `fdiv`'s kinds of division, `expect_zero`."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tritium.compiler import ASTSource
from tritium.errors import CompileTimeAssertionFailure
from tritium.target import GPUTarget

RNG = np.random.default_rng(5)


def ones(x, out):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    tile = tl.load(x + i * 8 + j)
    deep = tl.unsqueeze(tl.unsqueeze(tile, 1), -1)
    tl.static_assert(len(deep.shape) == 4 and deep.shape[1] == 1 and deep.shape[3] == 1)
    flat = tl.squeeze(tl.squeeze(deep, 3), -2)
    tl.static_assert(flat.shape[0] == 4 and flat.shape[1] == 8)
    tl.store(out + i * 8 + j, flat + tl.squeeze(tl.max(tile, 1, keep_dims=True), 1)[:, None])


def test_axes_of_size_1():
    x = RNG.integers(-50, 50, (4, 8)).astype(np.int32)
    found = run_all(ones, x=x, out=np.zeros_like(x))["out"]
    np.testing.assert_array_equal(found, x + x.max(1, keepdims=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: tl.squeeze(x, 1), r"axis 1 of shape \[1, 4\] has size 4; squeeze requires 1"),
        (lambda x: tl.squeeze(x, 2), "invalid axis 2. Expected -2 <= axis < 2"),
        (lambda x: tl.squeeze(x, -3), "invalid axis -3"),
        (lambda x: tl.unsqueeze(x, 3), "invalid axis 3. Expected -3 <= axis < 3"),
        (lambda x: tl.cat(x, x, dim=2), "invalid axis 2. Expected -2 <= axis < 2"),
        (lambda x: tl.cat(x, x, can_reorder=True), "one axis is required"),
        (lambda x: tl.topk(x, 3), "topk: k must be a power of two"),
        (lambda x: tl.topk(x, 0), "topk: k must be a power of two"),
        (lambda x: tl.topk(x, 8), "topk: k must not be larger than the axis"),
        (lambda x: tl.fdiv(x, x), "fdiv of int32: one operand at least must be floating-point"),
        (lambda x: tl.fdiv(x.to(tl.float64), 2.0, approx=True), "`approx` requires fp32"),
        (lambda x: tl.fdiv(1.0, 2.0, True, True), "cannot both be true"),
    ],
)
def test_bad_arguments(call, message):
    errors = (TypeError, ValueError, CompileTimeAssertionFailure)
    with eager(), pytest.raises(errors, match=message):
        call(block(np.arange(4).reshape(1, 4)))


def concatenated(x, y, out, DIM: tl.constexpr):
    i = tl.arange(0, 4)[:, None, None] * 16 + tl.arange(0, 2)[None, :, None] * 8
    at = i + tl.arange(0, 8)[None, None, :]
    both = tl.cat(tl.load(x + at), tl.load(y + at), dim=DIM)
    a: tl.constexpr = both.shape[0]
    b: tl.constexpr = both.shape[1]
    c: tl.constexpr = both.shape[2]
    i, j, k = tl.arange(0, a)[:, None, None], tl.arange(0, b)[None, :, None], tl.arange(0, c)
    tl.store(out + (i * b + j) * c + k[None, None, :], both)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_cat_along_an_axis(dim):
    x, y = (RNG.standard_normal((4, 2, 8)).astype(np.float32) for _ in range(2))
    want = np.concatenate([x, y], dim)
    found = run_all(concatenated, x=x, y=y, out=np.zeros_like(want), DIM=dim)["out"]
    np.testing.assert_array_equal(found, want)


def first(x, out, K: tl.constexpr, DESCENDING: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 16)[None, :]
    top = tl.topk(tl.load(x + i * 16 + j), K, descending=DESCENDING)
    tl.store(out + i * K + tl.arange(0, K)[None, :], top)


@pytest.mark.parametrize("k", [1, 2, 8, 16])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float32])
def test_topk_in_both_orders(k, descending, dtype):
    x = (RNG.standard_normal((4, 16)) * 40).astype(np.int32).astype(dtype)
    want = np.sort(x, 1)
    want = (want[:, ::-1] if descending else want)[:, :k]
    out = np.zeros((4, k), np.int32 if dtype == np.int8 else dtype)
    found = run_all(first, x=x, out=out, K=k, DESCENDING=descending)["out"]
    np.testing.assert_array_equal(found, want)
    with eager(sorts=False):  # as a network of exchanges
        kind = {np.int8: tl.int8, np.uint32: tl.uint32, np.float32: tl.float32}[dtype]
        network = tl.topk(block(x, kind), k, descending=descending)
        np.testing.assert_array_equal(network.value.astype(want.dtype), want)


def products(x, out, WIDE: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, 16)
    found = tl.cumprod(tl.load(x + at), reverse=REVERSE, dtype=WIDE)
    tl.static_assert(found.dtype == WIDE)
    tl.store(out + at, found)


@pytest.mark.parametrize("reverse", [False, True])
def test_products_in_another_dtype(reverse):
    x = RNG.integers(-3, 9, 16).astype(np.int8)
    for dtype, kind in ((np.int64, tl.int64), (np.float64, tl.float64)):
        want = np.cumprod(x[::-1].astype(dtype))[::-1] if reverse else np.cumprod(x.astype(dtype))
        found = run_all(products, x=x, out=np.zeros(16, dtype), WIDE=kind, REVERSE=reverse)["out"]
        np.testing.assert_array_equal(found, want)


def test_products_of_narrow_integers_have_32_bits():
    with eager():
        for given, result in ((tl.int8, tl.int32), (tl.uint16, tl.uint32), (tl.int64, tl.int64)):
            assert tl.cumprod(block([3, 100], given)).dtype == result


def quotients(x, y, out):
    at = tl.arange(0, 64)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, tl.fdiv(a, b))
    tl.store(out + 64 + at, tl.fdiv(a, b, ieee_rounding=True))
    tl.store(out + 128 + at, tl.fdiv(a, b, approx=True))
    tl.store(out + 192 + at, tl.fdiv(3, b, approx=True))


def test_divisions():
    x, y = (RNG.standard_normal(64).astype(np.float32) for _ in range(2))
    found = run_all(quotients, x=x, y=y, out=np.zeros(256, np.float32))["out"].reshape(4, 64)
    exact = x.astype(np.float64) / y.astype(np.float64)
    np.testing.assert_array_equal(found[1], exact.astype(np.float32))
    for row, want in ((0, exact), (2, exact), (3, 3 / y.astype(np.float64))):
        ulp = np.spacing(np.abs(want).astype(np.float32))
        assert np.abs(found[row] - want).max(initial=0, where=True) <= (2.5 * ulp).max()
        assert (np.abs(found[row] - want) <= 2.5 * ulp).all()


def test_divisions_on_a_gpu():
    kinds = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
    source = ASTSource(tritium.jit(quotients), kinds, {})
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "div.full.f32" in text and "div.rn.f32" in text and "div.approx.f32" in text


def test_fdiv_of_halves_is_single():
    with eager():
        a, b = block([1.0, 3.0], tl.float16), block([3.0, 7.0], tl.float16)
        assert tl.fdiv(a, b).dtype == tl.float32
        assert tl.fdiv(a, b, approx=True).value.tolist() == (a.value / np.float32(b.value)).tolist()


def underflows(x, out):
    at = tl.arange(0, 8)
    value = tl.load(x + at)
    tl.store(out + at, tl.expect_zero(value, at < 4) + tl.expect_zero(0.0, True))


def test_expected_zeros():
    x = np.array([0, 0, 0, 0, 1, 2, 3, 4], np.float32)
    assert run_all(underflows, x=x, out=np.zeros_like(x))["out"].tolist() == x.tolist()
    with eager(debug=True):
        tl.expect_zero(block(x, tl.float32), block(x == 0, tl.int1))
        with pytest.raises(Exception, match="x is not 0 where the mask holds"):
            tl.expect_zero(block(x, tl.float32), block(x < 2, tl.int1))
