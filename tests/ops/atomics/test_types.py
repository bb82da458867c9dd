"""Atomics return the element type of the pointer, whatever number they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tests.support.agreement import run_all


def numeric(p, out):
    element: tl.constexpr = p.dtype.element_ty
    added, least = tl.atomic_add(p, 1), tl.atomic_min(p + 1, 1)
    most, swapped = tl.atomic_max(p + 2, 1), tl.atomic_xchg(p + 3, 7)
    compared = tl.atomic_cas(p + 4, 5, 9)
    tl.static_assert(added.dtype == element and least.dtype == element and most.dtype == element)
    tl.static_assert(swapped.dtype == element and compared.dtype == element)
    tl.store(out, added.to(tl.float64))
    tl.store(out + 1, least.to(tl.float64))
    tl.store(out + 2, most.to(tl.float64))
    tl.store(out + 3, swapped.to(tl.float64))
    tl.store(out + 4, compared.to(tl.float64))


def bitwise(p, out):
    element: tl.constexpr = p.dtype.element_ty
    both, either, one = tl.atomic_and(p, 3), tl.atomic_or(p + 1, 8), tl.atomic_xor(p + 2, 1)
    tl.static_assert(both.dtype == element and either.dtype == element and one.dtype == element)
    tl.store(out, both.to(tl.float64))
    tl.store(out + 1, either.to(tl.float64))
    tl.store(out + 2, one.to(tl.float64))


INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.parametrize("kind", [*INTEGERS, np.float32, np.float64])
def test_numeric(kind: Any) -> None:
    top = 2**31 + 5 if kind in (np.uint32, np.int64, np.uint64) else 2**20
    p = np.array([top, 3, 0, top, 5, 0], kind)
    found = run_all(numeric, p=p, out=np.zeros(5))
    assert found["out"].tolist() == [top, 3, 0, top, 5]
    assert found["p"].tolist() == [top + 1, 1, 1, 7, 9, 0]


@pytest.mark.parametrize("kind", INTEGERS)
def test_bitwise(kind: Any) -> None:
    top = np.iinfo(kind).max
    found = run_all(bitwise, p=np.array([top, 1, 5], kind), out=np.zeros(3))
    assert found["p"].tolist() == [3, 9, 4] and found["out"].tolist() == [float(top), 1, 5]


def half(p):
    old = tl.atomic_cas(p, 1, 2)
    tl.static_assert(old.dtype == p.dtype.element_ty)
    tl.store(p + 1, old + 10)


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.float16])
def test_exchange_of_16_bits(kind: Any) -> None:
    assert run_all(half, p=np.array([1, 0], kind))["p"].tolist() == [2, 11]
