"""Accesses in the shape of what is rearranged: the same meaning, before and after, and natively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.checking import Check
from tritium.passes import PassManager, pipelines
from tritium.passes.ttir import TensorPointers
from tritium.passes.ttir.reshape_accesses import ReshapeAccesses

pytestmark = pytest.mark.cpu

SOURCE = """
def kernel(x, out, n):
    at = {loads}
    v = tl.reshape(tl.load(x + at{mask}), {shape})
    v = {value}
    to = {stores}
    tl.store(out + to, tl.reshape(v, {result}){stored})
"""

SIZE = st.sampled_from([1, 2, 4, 8, 16])


class Rearranging(Check):
    """The pass by the reference semantics, and then native code."""

    def run(self) -> None:
        module = self._frontend()
        PassManager(pipelines.ttir()).run(module)
        before = self._evaluated(module)
        TensorPointers().run(module)
        self.changed = ReshapeAccesses().run(module)
        module.verify()
        self._compare("after", self._evaluated(module), "before", before)
        self._native(module, before)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    shape=st.lists(SIZE, min_size=2, max_size=4), order=st.randoms(use_true_random=False),
    start=st.sampled_from([0, 3]), rows=st.booleans(),
    masked=st.sampled_from(["", ", at % 3 != n, other=2"]),
    kept=st.sampled_from(["", ", mask=to < n * 9"]),
    dtype=st.sampled_from([np.int8, np.float32, np.int64]),
)  # fmt: skip
def test_meaning(
    shape: list[int], order: Any, start: int, rows: bool, masked: str, kept: str, dtype: Any
) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    turned, size = [shape[a] for a in axes], int(np.prod(shape))
    stores, result = f"tl.arange({start}, {start + size})", [size]
    if rows:  # a store of two axes, the second of which is made of several
        head, tail = turned[0], size // turned[0]
        result = [head, tail]
        stores = f"tl.arange(0, {head})[:, None] * {tail + 1} + tl.arange(0, {tail})[None, :]"
    source = SOURCE.format(
        loads=f"tl.arange(0, {size})", mask=masked, shape=shape,
        value=f"tl.permute(v, {axes}) * 3", stores=stores, result=result, stored=kept,
    )  # fmt: skip
    x = np.random.default_rng(0).integers(-50, 50, size).astype(dtype)
    out = np.zeros(2 * size + 40, dtype)
    check = Rearranging(source, {"x": x, "out": out, "n": 7}, 1, frozenset(), (None,))
    check.run()
    moved = [a for a in axes if shape[a] > 1]
    if moved != sorted(moved) and not rows:
        assert check.changed


COLUMN = """
def kernel(x, out, n):
    column = tl.make_block_ptr(x, (n, n), (3, 1), (0, n - 12), (16, 1), (1, 0))
    v = tl.load(column, boundary_check=(0, 1), padding_option="zero")
    v = tl.permute(tl.reshape(v, (1, 4, 1, 4)), (3, 2, 0, 1))
    tl.store(out + tl.arange(0, 16), tl.reshape(v, (16,)))
"""


def test_an_axis_of_size_1_for_which_there_is_none() -> None:
    """The axes of the rearranged tile are all in that of the rows."""
    x, out = np.arange(64, dtype=np.int32), np.zeros(16, np.int32)
    check = Rearranging(COLUMN, {"x": x, "out": out, "n": 13}, 1, frozenset(), (None,))
    check.run()
    assert check.changed
