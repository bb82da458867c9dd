"""Sums in tensor memory: kernels for sm_100 are run by the reference semantics, which refuses to
use that memory before a product has ended. `test_async_dots` has attention and its gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ir.test_reference_runs import floats
from tests.ttgir.test_async_dots import kernel
from tritium.ops.memory import EvaluationError

SIZE, LENGTH = 64, 192


@tritium.jit
def product(a_ptr, b_ptr, out_ptr, length):
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, length, 32):
        at = k + tl.arange(0, 32)
        a = tl.load(a_ptr + i[:, None] * length + at[None, :])
        acc = tl.dot(a, tl.load(b_ptr + at[:, None] * 64 + i[None, :]), acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc)


@tritium.jit
def forked(a_ptr, b_ptr, out_ptr, length):
    """Two products go on from the same sums, one of them in some iterations alone."""
    i = tl.arange(0, 64)
    acc, other = tl.zeros((64, 64), tl.float32), tl.zeros((64, 64), tl.float32)
    for k in range(0, length, 32):
        at = k + tl.arange(0, 32)
        a = tl.load(a_ptr + i[:, None] * length + at[None, :])
        b = tl.load(b_ptr + at[:, None] * 64 + i[None, :])
        if k % 64 == 0:
            other = tl.dot(a, b, acc)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc + other)


@tritium.jit
def nested(a_ptr, b_ptr, out_ptr, length):
    """Sums of an inner loop, which the outer one halves."""
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for start in range(0, length, 64):
        acc = acc * 0.5
        for k in range(start, start + 64, 32):
            at = k + tl.arange(0, 32)
            a = tl.load(a_ptr + i[:, None] * length + at[None, :])
            acc = tl.dot(a, tl.load(b_ptr + at[:, None] * 64 + i[None, :]), acc)
    tl.store(out_ptr + i[:, None] * 64 + i[None, :], acc)


def run(function: Any, stages: int, edit: Any = None) -> None:
    a, b = floats(SIZE, LENGTH, dtype=np.float16), floats(LENGTH, SIZE, seed=1, dtype=np.float16)
    out = np.zeros((SIZE, SIZE), np.float32)
    made = kernel(function, stages, edit, arch=100)
    assert any(op.name == "ttng.tc_gen5_mma" for op in made.module.walk())
    made(a, b, out, LENGTH)
    wide = a.astype(np.float64), b.astype(np.float64)
    parts = [wide[0][:, k : k + 32] @ wide[1][k : k + 32] for k in range(0, LENGTH, 32)]
    acc, other = np.zeros((SIZE, SIZE)), np.zeros((SIZE, SIZE))
    for number, part in enumerate(parts):
        if number % 2 == 0:
            other = acc + part
            acc = acc * (0.5 if function is nested else 1)
        acc = acc + part
    want = acc + other if function is forked else acc
    np.testing.assert_allclose(out, want, 1e-2, 1e-2)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("function", [product, forked, nested])
def test_sums(function: Any, stages: int, fresh_cache: Path) -> None:
    run(function, stages)


def test_a_missing_wait_is_refused(fresh_cache: Path) -> None:
    def without(text: str) -> str:
        head, loop = text.split("ttng.tc_gen5_mma", 1)
        lines = [line for line in loop.splitlines() if "ttng.wait_barrier" not in line]
        return head + "ttng.tc_gen5_mma" + "\n".join(lines)

    with pytest.raises(EvaluationError):
        run(product, 3, without)
