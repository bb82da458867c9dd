"""`a < b < c`: each operand once, from left to right, and no further than the outcome asks."""

import warnings

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import both
from tritium.errors import CompilationError
from tritium.language.jit.function import device_function as jit


@jit
def between(x, out, low, high):
    at = tl.arange(0, 16)
    value = tl.load(x + at)
    tl.store(out + at, (low <= value < high).to(tl.int32))


def test_of_blocks_on_every_backend():
    x = np.random.default_rng(0).integers(-9, 9, 16).astype(np.int32)
    want = (x >= -3) & (x < 4)
    out = np.zeros(16, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both(between, x=x, out=out, low=-3, high=4)
    assert out.tolist() == want.tolist()
    native = np.zeros(16, np.int32)
    tritium.jit(between.fn)[(1,)](x, native, -3, 4)
    assert native.tolist() == want.tolist()


@jit
def counted(calls, value):
    tl.store(calls, tl.load(calls) + 1)
    return value


@jit
def several(calls, out, i, N: tl.constexpr):
    if 1 < counted(calls, i) <= 5 != 4:
        tl.store(out, 1)
    if i < 3 > 2 < N == 7:
        tl.store(out + 1, 1)
    if 1 < N < 3 < counted(calls, i):  # 3 < 7 < 3 is false: the call is not made
        tl.store(out + 2, 1)
    kinds: tl.constexpr = 1 < N in (7, 9)
    tl.store(out + 3, kinds)
    tl.store(out + 4, (0 < i < 9) + (0 < i < 1))


@pytest.mark.parametrize("i", [0, 2, 5, 6])
def test_operands_are_evaluated_once_and_in_order(i):
    calls, out = np.zeros(1, np.int32), np.zeros(5, np.int32)
    both(several, calls=calls, out=out, i=i, N=7)
    assert calls[0] == 1
    assert out.tolist() == [1 < i <= 5, i < 3, 0, 1, (0 < i < 9) + (0 < i < 1)]


@jit
def of_text(out, i):
    if 0 < i < "a":
        tl.store(out, 1)


def test_a_bad_operand_is_named():
    with pytest.raises(CompilationError, match="< of a tensor and 'a'"):
        tritium.jit(of_text.fn)[(1,)](np.zeros(1, np.int32), 3)
