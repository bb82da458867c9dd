"""Functions of the library: axes of size 1, `cat` along an axis, bad arguments, `expect_zero`."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tritium.errors import CompileTimeAssertionFailure

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
    kernel = tritium.jit(underflows)
    for mode, selects in (("", False), ("fpsan", True)):
        made = kernel.warmup(x, x, grid=(1,), instrumentation_mode=mode)
        assert ("arith.select" in made.asm["source"]) == selects
