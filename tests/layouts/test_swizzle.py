"""Bank conflicts of conversions: what `swizzle` computes against a model of the 32 banks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.test_conversion import conflicts, elements, offsets, simulate
from tritium.ir.layouts import gf2
from tritium.ir.layouts.conversion import through_memory
from tritium.ir.layouts.encodings import BlockedEncoding, NvidiaMmaEncoding, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.target import Banks

BITS = {"register": 3, "lane": 5, "warp": 1, "block": 0}
TOTAL = sum(BITS.values())


@st.composite
def bijections(draw: st.DrawFn) -> LinearLayout:
    """A layout that permutes the elements, at random: products of elementary steps."""
    columns = draw(st.permutations([1 << i for i in range(TOTAL)]))
    for _ in range(draw(st.integers(0, 6))):
        i, j = draw(st.lists(st.integers(0, TOTAL - 1), min_size=2, max_size=2, unique=True))
        columns[i] ^= columns[j]
    outs = (("dim0", TOTAL // 2), ("dim1", TOTAL - TOTAL // 2))
    return LinearLayout(tuple(BITS.items()), outs, tuple(columns))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(bijections(), bijections(), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_conflicts_are_counted_right(
    source: LinearLayout, result: LinearLayout, size: int, matrices: bool
) -> None:
    found = through_memory(source, result, size, store=matrices, load=matrices)
    assert found.memory is not None and found.memory.is_invertible
    np.testing.assert_array_equal(simulate(source, result, found), elements(result))
    for layout, side in ((source, found.write), (result, found.read)):
        assert side is not None
        if side.matrices is None:
            where = offsets(layout, found.memory)
            # `Access` is of one warp.
            counted = side.conflicts << layout.in_bits("warp")
            assert conflicts(where, 1 << side.width, size) == counted


def pairs() -> list[tuple[BlockedEncoding | NvidiaMmaEncoding, ...]]:
    rows, columns = (
        BlockedEncoding.make(sizePerThread=size, threadsPerWarp=threads, warpsPerCTA=(4, 1),
                             order=order)
        for size, threads, order in (((1, 8), (4, 8), (1, 0)), ((8, 1), (8, 4), (0, 1)))
    )  # fmt: skip
    narrow = BlockedEncoding.make(
        sizePerThread=(1, 1), threadsPerWarp=(1, 32), warpsPerCTA=(4, 1), order=(1, 0)
    )
    wgmma = NvidiaMmaEncoding.make(
        versionMajor=3, versionMinor=0, warpsPerCTA=(4, 1), instrShape=(16, 64, 16)
    )
    mma = NvidiaMmaEncoding.make(
        versionMajor=2, versionMinor=0, warpsPerCTA=(2, 2), instrShape=(16, 8)
    )
    return list(itertools.permutations((rows, columns, narrow, wgmma, mma), 2))


@pytest.mark.parametrize("banks", [32, 64])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_no_conflicts_between_layouts_of_kernels(size: int, banks: int) -> None:
    """Blocked layouts by rows and columns, and those of products."""
    for source, result in pairs():
        layouts = linear(source, (128, 128)), linear(result, (128, 128))
        found = through_memory(*layouts, size, store=True, load=True, banks=Banks(banks))
        assert found.write is not None and found.read is not None
        assert (found.write.conflicts, found.read.conflicts) == (0, 0), (source, result)


def test_rows_of_matrices_lie_in_different_banks() -> None:
    """The 8 rows of 16 bytes of a matrix fill all banks, and there is a conversion that uses
    matrices."""
    found = 0
    for source, result in pairs():
        layouts = linear(source, (128, 128)), linear(result, (128, 128))
        plan = through_memory(*layouts, 2, store=True, load=True)
        for side in (plan.write, plan.read):
            if side is not None and side.matrices is not None:
                found += 1
                groups = [offset * 2 // 16 % 8 for offset in side.matrices.rows]
                assert gf2.rank(groups) == 3 and side.cycles == 4 * side.instructions
    assert found >= 2
