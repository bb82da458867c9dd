"""The algebra of linear layouts, against evaluation of every position."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tritium.ir.layouts import gf2
from tritium.ir.layouts.linear import LinearLayout

SETTINGS = settings(max_examples=80, deadline=None, derandomize=True)


@st.composite
def layouts(
    draw: Any, ins: tuple[str, ...] = ("register", "lane"), outs: tuple[str, ...] = ("x", "y"),
    bijective: bool = False,
) -> LinearLayout:  # fmt: skip
    """A layout with up to 3 bits an input and an output; with `bijective`, an invertible one."""
    in_bits = [draw(st.integers(0, 3)) for _ in ins]
    total = sum(in_bits)
    if bijective:
        cut = draw(st.integers(0, total))
        out_bits = [cut, total - cut]
        columns = [1 << i for i in range(total)]
        for _ in range(2 * total):
            i, j = draw(st.integers(0, total - 1)), draw(st.integers(0, total - 1))
            if i != j:
                columns[i] ^= columns[j]
    else:
        out_bits = [draw(st.integers(0, 3)) for _ in outs]
        columns = [draw(st.integers(0, (1 << sum(out_bits)) - 1)) for _ in range(total)]
    return LinearLayout(
        tuple(zip(ins, in_bits, strict=True)), tuple(zip(outs, out_bits, strict=True)),
        tuple(columns),
    )


def positions(layout: LinearLayout) -> dict[str, np.ndarray]:
    """Every position of a layout."""
    grids = np.indices([layout.in_size(n) for n in layout.in_names])
    return {n: g.reshape(-1) for n, g in zip(layout.in_names, grids, strict=True)}


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(*np.broadcast_arrays(a[name], b[name]))


@SETTINGS
@given(layouts())
def test_apply_is_linear(layout: LinearLayout) -> None:
    where = positions(layout)
    other = {n: np.roll(v, 3) & (layout.in_size(n) - 1) for n, v in where.items()}
    both = layout.apply({n: where[n] ^ other[n] for n in where})
    left, right = layout.apply(where), layout.apply(other)
    same(both, {n: left[n] ^ right[n] for n in left})


@SETTINGS
@given(layouts(), layouts(ins=("x", "y"), outs=("u", "v")))
def test_compose(inner: LinearLayout, outer: LinearLayout) -> None:
    inner = LinearLayout(inner.in_dims, outer.in_dims, tuple(
        c & ((1 << outer.total_in_bits) - 1) for c in inner.columns))  # fmt: skip
    where = positions(inner)
    same(inner.compose(outer).apply(where), outer.apply(inner.apply(where)))


@SETTINGS
@given(layouts(), layouts())
def test_product_and_quotient(low: LinearLayout, high: LinearLayout) -> None:
    product = low * high
    where = positions(product)
    below = {n: where[n] & (low.in_size(n) - 1) for n in where}
    above = {n: where[n] >> low.in_bits(n) for n in where}
    a, b = low.apply(below), high.apply(above)
    same(product.apply(where), {n: a[n] | (b[n] << low.out_bits(n)) for n in a})
    assert product.divide(low) == high


@SETTINGS
@given(layouts(bijective=True))
def test_inverse(layout: LinearLayout) -> None:
    assert layout.is_invertible
    where = positions(layout)
    same(layout.inverse().apply(layout.apply(where)), where)


@SETTINGS
@given(layouts(bijective=True), st.randoms(use_true_random=False))
def test_invert_and_compose(outer: LinearLayout, random: Any) -> None:
    columns = [random.randrange(1 << outer.total_out_bits) for _ in range(4)]
    inner = LinearLayout((("register", 4),), outer.out_dims, tuple(columns))
    where = positions(inner)
    found = inner.invert_and_compose(outer)
    same(outer.apply(found.apply(where)), inner.apply(where))


@SETTINGS
@given(layouts())
def test_free_variables_change_nothing(layout: LinearLayout) -> None:
    where, free = positions(layout), layout.free_variables()
    kept = {n: where[n] & ~free[n] for n in where}
    assert len(set(zip(*(v.tolist() for v in kept.values()), strict=True))) == 1 << layout.rank
    # Positions with the free bits cleared reach every image.
    images, reached = (
        set(zip(*(np.broadcast_to(v, where["lane"].shape).tolist() for v in
                  layout.apply(w).values()), strict=True))
        for w in (where, kept)
    )  # fmt: skip
    assert images == reached


@SETTINGS
@given(st.lists(st.integers(0, 63), max_size=6), st.integers(0, 63))
def test_solutions_solve(columns: list[int], mask: int) -> None:
    target = gf2.apply(columns, mask & ((1 << len(columns)) - 1))
    solution = gf2.solve(columns, [target])
    assert solution is not None and gf2.apply(columns, solution[0]) == target
    reachable = {gf2.apply(columns, x) for x in range(1 << len(columns))}
    assert len(reachable) == 1 << gf2.rank(columns)
    for unreachable in set(range(64)) - reachable:
        assert gf2.solve(columns, [unreachable]) is None


@SETTINGS
@given(st.lists(st.integers(0, 31), max_size=5), st.lists(st.integers(0, 31), max_size=5))
def test_subspaces(first: list[int], second: list[int]) -> None:
    def span(vectors: list[int]) -> set[int]:
        return {gf2.apply(vectors, x) for x in range(1 << len(vectors))}

    assert span(gf2.intersection(first, second)) == span(first) & span(second)
    kernel = {x for x in range(1 << len(first)) if gf2.apply(first, x) == 0}
    assert span(gf2.kernel(first)) == kernel
    assert len(span([*first, *gf2.complement(first, 5)])) == 32
