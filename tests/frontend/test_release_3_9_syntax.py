"""Syntax that later releases take: assignments in expressions, keyword-only parameters, filters of
comprehensions, declarations without a value, branches that return constants of one type."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.agreement import run_all
from tritium.errors import CompilationError
from tritium.language.jit.function import device_function as jit


def named(x, out):
    at = tl.arange(0, 8)
    tl.store(out + (j := at), tl.load(x + j) * 2)
    if (first := tl.load(x + 3)) > 2:
        tl.store(out, first)
    total = (n := 3) + (m := n * 2)
    tl.store(out + 1, total + m)


def test_assignments_in_expressions():
    x = np.arange(8, dtype=np.int32) + 1
    found = run_all(named, x=x, out=np.zeros(8, np.int32))["out"]
    want = x * 2
    want[0], want[1] = 4, 15
    assert found.tolist() == want.tolist()


def in_a_test(out, n):
    total, q = 0, 0
    while (q := q + 1) < n:
        total += q
    tl.store(out, q)
    k = 0
    while (new := k * 2) < n and (double := new + new) >= 0:
        total += new + double
        k += 1
    tl.store(out + 1, total)
    tl.store(out + 2, new)
    while (new := new - 1) > 0:
        k += new
    tl.store(out + 3, k)


def by_python(n):
    total, q, k = 0, 0, 0
    while (q := q + 1) < n:
        total += q
    while (new := k * 2) < n and (double := new + new) >= 0:
        total += new + double
        k += 1
    found = [q, total, new]
    while (new := new - 1) > 0:
        k += new
    return [*found, k]


@pytest.mark.parametrize("n", [0, 7])
def test_assignments_in_the_test_of_a_loop(n):
    assert run_all(in_a_test, out=np.zeros(4, np.int32), n=n)["out"].tolist() == by_python(n)


def in_an_iterable(out, n):
    chosen = [q * 2 for q in (n if n > 3 else 7, n > 1 and n < 9, 1 < n < 3)]
    tl.store(out, chosen[0] + chosen[1] * 100 + chosen[2])


def test_conditions_in_the_iterable_of_a_comprehension():
    assert run_all(in_an_iterable, out=np.zeros(1, np.int32), n=5)["out"].tolist() == [210]


def in_a_branch(out, n):
    tl.store(out, (q := n + 1) if n > 3 else 7)
    tl.store(out, q)


def test_an_assignment_in_a_branch_of_an_expression():
    with pytest.raises(CompilationError, match=r"`:=` in `\.\.\. if .* at run time"):
        tritium.jit(in_a_branch)[(1,)](np.zeros(1, np.int32), 5)


def chosen_tuples(out, n):
    pair = (n, 2) if n > 2 else (5, 6)
    tl.store(out, pair[0] * 10 + pair[1])


@pytest.mark.parametrize("n", [2, 3])
def test_tuples_chosen_by_an_expression(n):
    wanted = 10 * n + 2 if n > 2 else 56
    assert run_all(chosen_tuples, out=np.zeros(1, np.int32), n=n)["out"].tolist() == [wanted]


@jit
def scaled(a, *, by, times: tl.constexpr = 3):
    return a + by * times


def keywords(out, *, n, BLOCK: tl.constexpr = 16):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, scaled(at, by=n) + scaled(at, times=2, by=1))


def test_parameters_that_have_names_only():
    found = run_all(keywords, out=np.zeros(16, np.int32), n=5)["out"]
    assert found.tolist() == [2 * i + 17 for i in range(16)]


@jit
def without_name(out):
    tl.store(out, scaled(1, 2))


def test_a_parameter_that_lacks_its_name():
    with pytest.raises(CompilationError, match="scaled"):
        tritium.jit(without_name.fn)[(1,)](np.zeros(1, np.int32))


def filtered(out, N: tl.constexpr):
    even = [i * 10 for i in tl.static_range(N) if i % 2 == 0 if i > 0]
    pairs = [i * j for i, j in ((1, 2), (3, 4), (5, 6)) if i > 1]
    for k in tl.static_range(len(even)):
        tl.store(out + k, even[k])
    tl.store(out + 6, len(even))
    tl.store(out + 7, pairs[0] + pairs[1])


def test_filters_of_comprehensions():
    found = run_all(filtered, out=np.zeros(8, np.int32), N=8)["out"]
    assert found.tolist() == [20, 40, 60, 0, 0, 0, 3, 12 + 30]


def declared(out):
    size: tl.constexpr
    size = 16
    tl.store(out + tl.arange(0, size), size)


def test_declarations_without_a_value():
    assert run_all(declared, out=np.zeros(16, np.int32))["out"].tolist() == [16] * 16


@jit
def limited(x):
    if x > 3:
        return x
    else:
        return 7


@jit
def two(x):
    if x > 3:
        return x, 1
    return 7, 2


@jit
def constants(x):
    if x > 3:
        return 1
    return 2


def returning(x, out):
    for i in range(8):
        v = tl.load(x + i)
        a, b = two(v)
        tl.store(out + i, limited(v) + 100 * a + 10000 * b + 100000 * constants(v))


def test_branches_that_return_constants():
    x = np.arange(8, dtype=np.int32)
    found = run_all(returning, x=x, out=np.zeros(8, np.int32))["out"]
    want = [(v if v > 3 else 7) * 101 + (1 if v > 3 else 2) * 110000 for v in range(8)]
    assert found.tolist() == want


def declared_before(out):
    n: tl.constexpr
    scale: tl.constexpr
    a, (n, b) = 3, (8, 5)
    scale = 0.1
    flag = True
    tl.static_assert(isinstance(a, tl.tensor) and not isinstance(n, tl.tensor))
    tl.static_assert(n.type == tl.constexpr_type(8))
    tl.static_assert(a.type == tl.int32 and flag.dtype == tl.int1)
    if (chosen := b) > 4:
        tl.static_assert(isinstance(chosen, tl.tensor))
    at = tl.arange(0, n)
    tl.store(out + at, at * a + b + flag.to(tl.int32) + scale * 10)


def numbers_named_in_expressions(out):
    size: tl.constexpr
    if (largest := 2147483647) > 1:
        tl.store(out, largest + 1)
    if (size := 8) > 2:
        tl.static_assert(not isinstance(size, tl.tensor))
        tl.store(out + 1, tl.sum(tl.arange(0, size)))
    tl.store(out + 2, (some := 200) * 100000000 + some)


def test_numbers_named_in_expressions_are_scalars_unless_declared():
    found = run_all(numbers_named_in_expressions, out=np.zeros(3, np.int64))["out"]
    want = np.array([2**31, 28, 200 * 100000000 + 200]).astype(np.int32)
    assert found.tolist() == want.tolist()


def test_names_that_are_declared_before_they_are_assigned():
    found = run_all(declared_before, out=np.zeros(8, np.float32))["out"]
    np.testing.assert_allclose(found, np.arange(8) * 3.0 + 7, rtol=1e-6)


@tritium.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @staticmethod
    def counted(first):
        return Pair(first, first)

    @classmethod
    def swapped(cls, pair):
        return cls(pair.second, pair.first)


def made_of_tensors(out):
    one = 11
    at = tl.arange(0, 4)
    both = Pair.swapped(Pair(at, one))
    tl.store(out + at, both.first + both.second + Pair.counted(at).second)
    tl.static_assert(both.first.dtype == tl.int32)


def test_numbers_as_fields_and_functions_of_the_class():
    found = run_all(made_of_tensors, out=np.zeros(4, np.int32))["out"]
    assert found.tolist() == [11, 13, 15, 17]


def changed(out):
    pair = Pair(tl.arange(0, 4), tl.arange(0, 4))
    pair.first = pair.second


def test_fields_are_not_assigned_after_the_making():
    out = np.zeros(4, np.int32)
    with pytest.raises(CompilationError, match="'first' on immutable aggregate Pair"):
        tritium.jit(changed).warmup(out, grid=(1,))

    @tritium.aggregate
    class Size:
        n: tl.constexpr

    size = Size(3)
    with pytest.raises(AttributeError, match="cannot assign to field 'n' on immutable aggregate"):
        size.n = tl.constexpr(4)
    assert size.n.value == 3 and tl.aggregate_replace(size, n=4).n.value == 4


def types_of_tuples(out):
    pair = (1, 2)
    known: tl.constexpr = ((1, 2), 3)
    tl.static_assert(str(pair.type) == "[int32,int32]")
    tl.static_assert(str((pair[0], 4).type) == "[int32,constexpr_type[4]]")
    tl.static_assert(pair.type[1] == tl.int32 and pair.type == tl.tuple_type([tl.int32, tl.int32]))
    tl.static_assert(known.type == (((1, 2), 3)).type and len(known.type) == 2)
    tl.static_assert(known.type[0] == ((1, 2)).type)
    tl.store(out, pair[0] + known[1])


def test_types_of_tuples_are_those_of_their_members():
    assert run_all(types_of_tuples, out=np.zeros(1, np.int32))["out"] == 4
    assert tl.tuple_type([tl.int32]).fields is None
