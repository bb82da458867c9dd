"""Blocks that loops of `tl` kernels load by descriptors, where the copy engine puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.simt import rules as rules
from tests.simt.backend.compiler import run_ttgir
from tests.simt.engine import descriptor
from tests.simt.hardware import Simt
from tritium.compiler import ASTSource
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget


@tritium.jit
def summed(desc: Any, out: Any, count: Any, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
           STAGES: tl.constexpr):  # fmt: skip
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in tl.range(0, count, num_stages=STAGES):
        total += desc.load([0, k * COLUMNS]).to(tl.float32)
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, total)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("shape", [(1, 16), (1, 64), (1, 128), (2, 64), (4, 64), (4, 16), (8, 64)])
def test_buffers_begin_where_swizzles_do(shape: tuple[int, int], stages: int) -> None:
    """A swizzle is a function of the address: blocks of few rows have none in several buffers."""
    rows, columns = shape
    array = np.random.default_rng(0).integers(-9, 9, (rows, 5 * columns)).astype(np.float16)
    types = {"desc": f"tensordesc<fp16[{rows},{columns}]>", "out": "*fp32", "count": "i32"}
    constants = {"ROWS": rows, "COLUMNS": columns, "STAGES": stages}
    source = ASTSource(summed, types | dict.fromkeys(constants, "constexpr"), constants)
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttgir"]
    assert "ttng.async_tma_copy_global_to_local" in text
    out, made = np.zeros(shape, np.float32), descriptor(array)
    steps = [step // array.itemsize for step in array.strides]
    slots = [made.ctypes.data, *array.shape, *steps, out.ctypes.data, 5]
    run_ttgir(parse_module(text), 4, slots, (1,), Simt(32))
    want = array.reshape(rows, 5, columns).astype(np.float32).sum(1)
    np.testing.assert_array_equal(out, want)
