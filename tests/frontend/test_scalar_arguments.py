"""Numbers that are known at compile time without being declared so behave as the scalars that they
stand for: an argument that is 1 as one that is 2, a number that was assigned to a name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all
from tests.support.frontend import evaluate
from tritium.errors import CompilationError
from tritium.language.jit.function import device_function
from tritium.runtime.jit import JITFunction


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


def computed(out, x):
    most, one, wide, third, zero = 2147483647, 1, 3000000000, 0.1, 0.0
    tl.store(out, (most + one).to(tl.float64))
    tl.store(out + 1, (most * most).to(tl.float64))
    tl.store(out + 2, (one << 31).to(tl.float64))
    tl.store(out + 3, (-(wide - 2999999999)).to(tl.float64))
    tl.store(out + 4, ((-7 * one) >> 1) + ((-7 * one) % 4) / 8)
    tl.store(out + 5, third * 3)
    tl.store(out + 6, (one * 7) / 3)
    tl.store(out + 7, (third * 1e38) * 1e38)
    tl.store(out + 8, one / zero)
    tl.static_assert((wide - 2999999999).dtype == tl.uint32)
    if x > 0:  # as the scalars that a branch makes of them
        most, third = most + 1, third * 3
    tl.store(out + 9, most.to(tl.float64))
    tl.store(out + 10, third)


def test_operators_compute_in_the_dtype_of_the_number():
    with np.errstate(all="ignore"):
        most, one, third = np.int32(2147483647), np.int32(1), np.float32(0.1)
        wanted = [
            most + one, most * most, one << np.int32(31), -np.uint32(1), -4 - 3 / 8,
            third * np.float32(3), np.float32(7) / np.float32(3), np.inf, np.inf, most + one,
            third * np.float32(3),
        ]  # fmt: skip
    out = run_all(computed, out=np.zeros(len(wanted)), x=1)["out"]
    assert out.tolist() == [float(number) for number in wanted]


def beyond(out):
    one = 1
    tl.store(out, one + 2147483648)


def huge(out):
    tl.store(out, 2**64)


def divided(out):
    one = 1
    tl.store(out, one // 0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (beyond, "Scalar 2147483648 is out of range for type int32"),
        (huge, "Nonrepresentable integer 18446744073709551616"),
        (divided, "integer division or modulo by zero"),
    ],
)
def test_numbers_without_a_result(kernel, message):
    with pytest.raises(CompilationError, match=message):
        evaluate(JITFunction(kernel), out=np.zeros(1, np.int64))
