"""Divisions with a chosen rounding."""

from __future__ import annotations

import numpy as np

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

RNG = np.random.default_rng(5)


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
