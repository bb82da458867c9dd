"""Floats that an integer type cannot hold: what they become is defined, and the same everywhere."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all

pytestmark = pytest.mark.cpu

VALUES = np.array(
    [0, -0.5, -1, -1.5, 1.5, 127, 128, 255, 256, 300, -129, -300, 65536, 2**31 - 128, 2**31,
     2**31 + 256, -(2**31), -(2**31) - 512, 2**32 - 256, 2**32, 2**32 + 512, 2**62, 2**63,
     -(2**63), 2**64 - 2**40, 2**64, 1e30, -1e30, np.inf, -np.inf, np.nan, 3],
    np.float64,
)  # fmt: skip
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def whole(value: float, bits: int) -> int:
    """As a signed integer: the smallest for what does not fit."""
    fits = -(2.0 ** (bits - 1)) <= value < 2.0 ** (bits - 1)
    return int(value) if fits else -(2 ** (bits - 1))


def expected(value: float, kind: Any) -> int:
    bits, signed = np.iinfo(kind).bits, np.iinfo(kind).min < 0
    if bits < 32 or signed:
        number = whole(value, max(bits, 32))
    elif value >= 2.0 ** (bits - 1):
        number = whole(value - 2.0 ** (bits - 1), bits) + 2 ** (bits - 1)
    else:
        number = whole(value, bits)
    number %= 2**bits
    return number - 2**bits if signed and number >= 2 ** (bits - 1) else number


def blocks(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


def scalars(x, out, N: tl.constexpr):
    for i in range(N):
        tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@pytest.mark.covering(1)
@pytest.mark.parametrize("kernel", [blocks, scalars])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_from_memory(kernel: Any, source: Any) -> None:
    with np.errstate(all="ignore"):
        x = VALUES.astype(source)
    for kind in INTEGERS:
        out = run_all(kernel, x=x, out=np.zeros(len(x), kind), N=len(x))["out"]
        assert out.tolist() == [expected(float(v), kind) for v in x], kind


def chosen(x, out, V: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.where(v > 100, v, V).to(out.dtype.element_ty))


def constant(x, out, V: tl.constexpr, N: tl.constexpr):
    v = tl.full([N], V, tl.float32) * (tl.num_programs(1) * 1.0)
    tl.store(out + tl.arange(0, N), v.to(out.dtype.element_ty))


def computed(x, out, V: tl.constexpr, N: tl.constexpr):
    v = tl.sqrt(tl.full([N], -1.0, tl.float32)) + V
    tl.store(out + tl.arange(0, N), v.to(out.dtype.element_ty))


@pytest.mark.covering(1)
@pytest.mark.parametrize("kernel", [chosen, constant, computed])
@pytest.mark.parametrize("value", [-1.0, 2.0**33, float("nan"), float("-inf")])
def test_what_the_compiler_knows(kernel: Any, value: float) -> None:
    x = np.array([1.0, 101.0] * 8, np.float32)
    known = float("nan") if kernel is computed else value
    for kind in INTEGERS:
        out = run_all(kernel, x=x, out=np.zeros(16, kind), V=value, N=16)["out"]
        second = 101 if kernel is chosen else expected(known, kind)
        assert out.tolist() == [expected(known, kind), second] * 8, kind
