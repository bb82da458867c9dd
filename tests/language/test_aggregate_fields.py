"""Aggregates that are made from their fields, changed copies, and operators on either side."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tritium.language.jit.function import device_function as jit


@tritium.aggregate
class Point:
    x: tl.tensor
    y: tl.tensor
    n: tl.constexpr = 5


@tritium.aggregate
class Deep(Point):
    z: tl.tensor

    @jit
    def total(self):
        return self.x + self.y + self.z + self.n

    @jit
    def __add__(self, other):
        return tl.aggregate_replace(self, x=self.x + other)

    @jit
    def __radd__(self, other):
        return Deep(self.x + other * 10, self.y, self.n, self.z)

    @jit
    def __rsub__(self, other):
        return other - self.x

    @jit
    def __lt__(self, other):
        return self.x < other

    @jit
    def __neg__(self):
        return -self.x


@tritium.aggregate
class Counted:
    count: tl.constexpr
    half: tl.constexpr

    def __init__(self, count, half=None):
        self.count = count
        self.half = count // 2


@tritium.aggregate
class Named(Counted):
    value: tl.tensor


def made(out):
    v = tl.load(out)
    point = Point(v + 1, y=v + 2)
    tl.store(out + 1, point.x + point.y * 10 + point.n * 100)
    deep = Deep(v, v + 1, n=7, z=v + 2)
    tl.store(out + 2, deep.total())
    named = Named(6, 1, v)  # `__init__` of the base does not know of `value`
    tl.store(out + 3, named.count + named.half + named.value)
    tl.store(out + 4, Counted(9).half)


def test_from_fields():
    found = run_all(made, out=np.array([3, 0, 0, 0, 0], np.int32))["out"]
    assert found.tolist() == [3, 4 + 50 + 500, 3 + 4 + 5 + 7, 6 + 1 + 3, 4]


def changed(out):
    v = tl.load(out)
    deep = Deep(v, v, 3, v)
    for i in range(4):
        deep = tl.aggregate_replace(deep, x=deep.x + i)
    other = tl.core.aggregate_replace(deep, n=11, y=v * 0)
    tl.store(out + 1, deep.total())
    tl.store(out + 2, other.total())


def test_changed_copies():
    found = run_all(changed, out=np.array([2, 0, 0], np.int32))["out"]
    assert found.tolist() == [2, (2 + 6) + 2 + 2 + 3, (2 + 6) + 0 + 2 + 11]


def reflected(out):
    v = tl.load(out)
    deep = Deep(v, v, 3, v)
    tl.store(out + 1, (deep + 1).x)
    tl.store(out + 2, (2 + deep).x)
    tl.store(out + 3, (v + deep).x)
    tl.store(out + 4, 7 - deep)
    tl.store(out + 5, -deep)
    tl.store(out + 6, (deep < 5).to(tl.int32) + (v + 1 > deep).to(tl.int32) * 10)
    deep += v
    tl.store(out + 7, deep.x)


def test_operators_on_either_side():
    found = run_all(reflected, out=np.array([4, *[0] * 7], np.int32))["out"]
    assert found.tolist() == [4, 5, 24, 44, 3, -4, 11, 8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: Point(v), "Point needs values for its fields y"),
        (lambda v: Deep(z=v), "Deep needs values for its fields x, y"),
        (lambda v: Point(v, v, 3, 4), r"Point takes 3 values \(x, y, n\); got 4"),
        (lambda v: Point(v, v, m=3), "Point has no field 'm'; its fields are x, y, n"),
        (lambda v: Point(v, v, x=v), "Point got two values for its field 'x'"),
        (lambda v: Point(v, 3), "Expected tensor for attribute 'y' of Point, got constexpr"),
        (lambda v: tl.aggregate_replace(v, x=v), "expects an aggregate instance"),
        (lambda v: tl.aggregate_replace(Point(v, v), q=v), "has no field 'q', but x, y, n"),
    ],
)
def test_messages(call, message):
    with eager(), pytest.raises(TypeError, match=message):
        call(block(1))
