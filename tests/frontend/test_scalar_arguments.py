"""Numbers that are known at compile time without being declared so behave as the scalars that they
stand for: an argument that is 1 as one that is 2, a number that was assigned to a name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all
from tritium.language.jit.function import device_function


@device_function
def halved(n):
    return n.to(tl.float32) / 2


def attributes(out, n):
    tl.static_assert(n.dtype == tl.int32)
    tl.static_assert(n.type == tl.int32)
    tl.static_assert(len(n.shape) == 0)
    tl.static_assert(hasattr(n, "dtype") and getattr(n, "dtype") == tl.int32)  # noqa: B009
    tl.store(out, n.to(tl.float32) + n.to(n.dtype))
    tl.store(out + 1, n.cdiv(2) + n.abs())
    tl.store(out + 2, halved(n))
    tl.store(out + 3, tl.sum(n.broadcast_to([4])))


@pytest.mark.parametrize("n", [1, 2])
def test_attributes_of_an_argument(n: int) -> None:
    out = run_all(attributes, out=np.zeros(4, np.float32), n=n)["out"]
    assert out.tolist() == [2 * n, (n + 1) // 2 + n, n / 2, 4 * n]


def local(out):
    n, x = 3, 0.5
    m = n * 2
    tl.static_assert(n.dtype == tl.int32 and x.dtype == tl.float32 and m.type == tl.int32)
    tl.store(out, n.to(tl.float32) / 2 + x.exp().log() + m.to(tl.int64))


def test_attributes_of_a_name() -> None:
    out = run_all(local, out=np.zeros(1, np.float32))["out"]
    assert abs(out[0] - 8) < 1e-6


def members(out, pair):
    tl.store(out, pair[0].to(tl.float32) + pair[1].to(tl.float32))


def test_members_of_a_tuple() -> None:
    ways = ("native", "interpreted")
    assert run_all(members, out=np.zeros(1, np.float32), pair=(1, 2), ways=ways)["out"] == [3]


def promoted(x, out, n):
    v = tl.load(x + tl.arange(0, 4))
    tl.static_assert((v * n).dtype == tl.int32)
    tl.static_assert((n + v).dtype == tl.int32)
    tl.store(out + tl.arange(0, 4), v * n * 127)


@pytest.mark.parametrize("n", [1, 2])
def test_promotion_does_not_depend_on_the_value(n: int) -> None:
    x = np.array([1, 2, 100, -100], np.int8)
    out = run_all(promoted, x=x, out=np.zeros(4, np.int32), n=n)["out"]
    assert out.tolist() == [int(v) * n * 127 for v in x]


def compile_time(out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, i * n + N)


def still_known(out, n: Any):
    tl.store(out + tl.arange(0, n * 4), 7)


def test_it_is_still_known_at_compile_time() -> None:
    out = run_all(compile_time, out=np.zeros(4, np.int32), n=1, N=4)["out"]
    assert out.tolist() == [4, 5, 6, 7]
    assert run_all(still_known, out=np.zeros(4), n=1, ways=("native",))["out"].tolist() == [7] * 4


def too_large(out):
    tl.store(out, tl.sum(tl.full([4], 2**40, tl.float16)))
    tl.store(out + 1, tl.load(out + 1) + 1e300)


@pytest.mark.filterwarnings("error")
def test_a_number_too_large_for_its_float_is_infinite() -> None:
    assert run_all(too_large, out=np.zeros(2, np.float16))["out"].tolist() == [np.inf, np.inf]
