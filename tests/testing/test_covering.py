"""Cases chosen by the markers `covering` and `every`, from those that a test has."""

from __future__ import annotations

from itertools import product

from tests.support.covering import chosen, covering

CASES = [dict(zip("abc", values, strict=True)) for values in product(range(4), range(3), range(2))]


def test_each_value() -> None:
    chosen = [CASES[i] for i in covering(CASES, 1)]
    assert len(chosen) == 4
    assert all({c[name] for c in chosen} == {c[name] for c in CASES} for name in "abc")
    assert [c["c"] for c in chosen].count(0) == 2  # also values of short lists are balanced


def test_each_pair_of_values() -> None:
    chosen = [CASES[i] for i in covering(CASES, 2)]
    assert len(chosen) <= 14
    for x, y in ("ab", "ac", "bc"):
        assert {(c[x], c[y]) for c in chosen} == {(c[x], c[y]) for c in CASES}


def test_each_third_case_of_all_or_of_those_that_cover() -> None:
    assert chosen(CASES, None, 5) == {0, 5, 10, 15, 20}
    few = sorted(covering(CASES, 1))
    assert chosen(CASES, 1, 3) == {few[0], few[3]}
