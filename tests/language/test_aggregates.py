"""Aggregates: functions of the class, inherited members, and where each may be called."""

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import both, eager
from tritium.language.jit.function import device_function as jit


class Shape:
    """A plain class whose methods aggregates inherit."""

    corners = 4

    @jit
    def total(self):
        return self.a + self.b

    @jit
    def scaled(self, factor):
        return Pair.make(self.a * factor, self.b * factor)

    @tritium.constexpr_function
    def rank(self):
        return 2


@tl.core._aggregate
class Pair(Shape):
    a: tl.tensor
    b: tl.tensor

    @tritium.constexpr_function
    def __init__(self, a, b):
        self.a = a
        self.b = b

    @jit
    def make(a, b):
        return Pair(a, b)

    @staticmethod
    @jit
    def twice(a):
        return Pair.make(a, a)

    @jit
    def __add__(self, other):
        return Pair(self.a + other.a, self.b + other.b)


@tl.core._aggregate
class Triple(Pair):
    c: tl.tensor
    k: tl.constexpr

    def __init__(self, a, b, c, k=3):
        super().__init__(a, b)
        self.c = c
        self.k = k

    @jit
    def total(self):
        return Pair.total(self) + self.c * self.k


def test_functions_of_a_class():
    """Called through the class, an object, or the class they are inherited from."""

    @jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        p = Pair.make(tl.load(x + i), i * 0 + 10)
        tl.store(out + i, p.total())
        tl.store(out + 4 + i, Pair.total(p.scaled(2)) + Pair.twice(i).total())
        tl.store(out + 8 + i, (p + p).b + p.rank() + p.corners)

    x, out = np.arange(4, dtype=np.int32), np.zeros(12, np.int32)
    both(kernel, x=x, out=out)
    assert out.tolist() == [*(x + 10), *(2 * x + 20 + 2 * x), *[26] * 4]


def test_an_aggregate_of_an_aggregate():
    @jit
    def kernel(x, out, n):
        i = tl.arange(0, 4)
        t = Triple(tl.load(x + i), i, n)
        if n > 3:
            t.c = t.c + 1
        tl.store(out + i, t.total())
        tl.store(out + 4 + i, t.scaled(3).total() + t.rank())

    x = np.arange(4, dtype=np.int32)
    for n in (2, 5):
        out = np.zeros(8, np.int32)
        both(kernel, x=x, out=out, n=n)
        third = n + (n > 3)
        assert out.tolist() == [*(2 * x + 3 * third), *(6 * x + 2)]
    assert list(Triple.__aggregate_fields__) == ["a", "b", "c", "k"]
    assert issubclass(Triple, Pair) and issubclass(Pair, Shape)


def test_a_changed_inherited_method_is_another_kernel():
    """Definitions of a base class are part of the key."""

    def kernel_of(factor):
        class Base:
            if factor == 2:

                @jit
                def grown(self):
                    return self.a * 2
            else:

                @jit
                def grown(self):
                    return self.a * 3

        @tl.core._aggregate
        class One(Base):
            a: tl.tensor

            def __init__(self, a):
                self.a = a

        globals()["One"] = One

        @jit
        def kernel(out, n):
            tl.store(out, One(n).grown())

        return kernel

    try:
        keys = [kernel_of(factor).cache_key for factor in (2, 3)]
    finally:
        del globals()["One"]
    assert keys[0] != keys[1]


def test_an_inherited_field_must_be_set():
    @tl.core._aggregate
    class Half(Pair):
        def __init__(self, a):
            self.a = a

    with eager(), pytest.raises(AttributeError, match="Half did not initialize attribute 'b'"):
        Half(tl.to_tensor(1))
