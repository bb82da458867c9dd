"""Descriptors whose extent is given in the kernel: nothing beyond it is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.conformance.support import WAYS
from tritium.compiler import ASTSource
from tritium.errors import TritonError
from tritium.target import GPUTarget
from tritium.tools.ragged_tma import (
    atomic_add_ragged,
    create_ragged_descriptor,
    load_ragged,
    store_ragged,
)


def move(source, target, offset, size, row, M: tl.constexpr, N: tl.constexpr, ADD: tl.constexpr):
    block = load_ragged(source, offset, size, [row, 4])
    if ADD:
        atomic_add_ragged(target, offset, size, [row, 4], block)
    else:
        store_ragged(target, offset, size, [row, 4], block)


def middle(source, out, offset, size, M: tl.constexpr, N: tl.constexpr, ADD: tl.constexpr):
    block = load_ragged(source, offset, size, [1, 1, 0], ragged_dim=1)
    given = [1, 1, 0]
    store_ragged(  # the names of Triton 3.6
        out, batch_offset=offset, batch_size=size, coords=given, data=block + ADD, ragged_dim=1
    )


def unnamed(source, out):
    load_ragged(source, 1, coords=[0, 0], batch_offset=2)


def arrays(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    return x, np.full(shape, -1, np.float32)


@pytest.mark.covering(1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("offset", "size", "row"), [(0, 10, 0), (3, 5, 0), (3, 5, 2), (7, 3, 4),
                                                     (2, 0, 0), (4, 6, 5)])  # fmt: skip
def test_rows(way: str, add: bool, offset: int, size: int, row: int):
    x, out = arrays(10, 12)
    want = out.copy()
    for i in range(row, row + 4):
        if 0 <= i < size:
            values = x[offset + i, 4:12]
            want[offset + i, 4:12] = values + want[offset + i, 4:12] if add else values
    descriptors = [create_ragged_descriptor(t, [4, 8]) for t in (x, out)]
    WAYS[way](move)[(1,)](*descriptors, offset, size, row, 4, 8, add)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("way", WAYS)
def test_the_axis_in_the_middle(way: str):
    x, out = arrays(3, 6, 8)
    want = out.copy()
    want[1:3, 3:5] = x[1:3, 3:5] + 1
    descriptors = [create_ragged_descriptor(t, [2, 4, 8], ragged_dim=1) for t in (x, out)]
    WAYS[way](middle)[(1,)](*descriptors, 2, 3, 4, 8, 1)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("way", WAYS)
def test_rows_named_twice_or_not_at_all(way: str):
    x, out = arrays(4, 8)
    with pytest.raises(TritonError, match="pass slice_off and slice_size, or batch_offset"):
        WAYS[way](unnamed)[(1,)](create_ragged_descriptor(x, [4, 8]), out)


def test_for_a_gpu():
    kernel = tritium.jit(move)
    shape = "tensordesc<fp32[1, 1, 4, 8]>"
    signature = {"source": shape, "target": shape, "offset": "i32", "size": "i32", "row": "i32",
                 "M": "constexpr", "N": "constexpr", "ADD": "constexpr"}  # fmt: skip
    source = ASTSource(kernel, signature, {"M": 4, "N": 8, "ADD": False})
    ptx = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "cp.async.bulk.tensor.4d" in ptx


@pytest.mark.parametrize(
    ("shape", "block", "axis", "message"),
    [((4, 4), [4], 0, "has 2 axes and block_shape 1"), ((4, 4), [4, 4], 1, "ragged_dim is 1; of 2"),
     ((2, 2, 2, 4), [1] * 4, 0, "has 4 axes"), ((4, 4), [4, 4], -3, "ragged_dim is -1")],
)  # fmt: skip
def test_what_is_refused(shape: Any, block: Any, axis: int, message: str):
    with pytest.raises(ValueError, match=message):
        create_ragged_descriptor(np.zeros(shape, np.float32), block, axis)
