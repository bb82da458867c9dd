"""Loops whose bounds lie where the next counter does not fit its type: as Python's `range`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritium.language as tl
from tests.support import device
from tests.support.agreement import run_all
from tritium.errors import InterpreterError
from tritium.runtime.interpreted import InterpretedFunction

I32, I64 = 2**31, 2**63
SIGNED = [
    (I32 - 3, I32 - 1, 5),
    (I32 - 65, I32 - 1, 32),
    (I32 - 65, I32 - 1, 31),
    (-I32 + 2, -I32, -5),
    (-I32, I32 - 1, 2**30),
    (I32 - 1, -I32, -(2**30)),
    (-I32, I32 - 1, I32 - 1),
    (I64 - 3, I64 - 1, 5),
    (-I64 + 2, -I64, -5),
    (-I64, I64 - 1, 2**62),
    (0, 10, 3),
    (10, 0, -3),
    (5, 5, 1),
    (3, -3, 4),
    (-3, 3, -4),
]
UNSIGNED = [
    (3, 10, 2),
    (I32 + 1, I32 + 8, 3),
    (2 * I32 - 3, 2 * I32 - 1, 5),
    (5, I32 + 5, I32),
    (I32 + 9, I32, -4),
    (10, 3, 1),
]


def constant_step(out, start, stop, STEP: tl.constexpr):
    count = 0
    for i in tl.range(start, stop, STEP):
        tl.store(out + 1 + count, i)
        count += 1
    tl.store(out, count)


def step_at_run_time(out, start, stop, STEP):
    count = 0
    for i in tl.range(start, stop, STEP):
        tl.store(out + 1 + count, i)
        count += 1
    tl.store(out, count)


def unrolled(out, start, stop, STEP: tl.constexpr):
    count = 0
    for i in tl.range(start, stop, STEP, loop_unroll_factor=2):
        tl.store(out + 1 + count, i)
        count += 1
    tl.store(out, count)


def tile(out, start, stop, STEP: tl.constexpr):
    k = tl.arange(0, 16)
    total = tl.zeros([16], tl.int64)
    for i in tl.range(start, stop, STEP):
        tl.store(out + 1 + tl.sum(total) // 16, i)
        total += 1
    tl.store(out, tl.max(total * (k >= 0)))


def unsigned(out, start: tl.uint32, stop: tl.uint32, STEP: tl.constexpr):
    count = 0
    for i in tl.range(start, stop, STEP):
        tl.store(out + 1 + count, i.to(tl.int64))
        count += 1
    tl.store(out, count)


def check(kernel: Any, bounds: tuple[int, int, int]) -> None:
    start, stop, step = bounds
    found = run_all(kernel, out=np.zeros(8, np.int64), start=start, stop=stop, STEP=step)["out"]
    turns = list(range(*bounds))
    assert found.tolist() == [len(turns), *turns, *[0] * (7 - len(turns))]


def _far_apart(bounds: tuple[int, int, int]) -> bool:
    """Whether the distance is no signed number of the counter's type."""
    start, stop, _ = bounds
    return abs(stop - start) >= (I32 if -I32 <= min(start, stop) <= max(start, stop) < I32 else I64)


@pytest.mark.covering(1)
@pytest.mark.parametrize("bounds", SIGNED, ids=str)
@pytest.mark.parametrize("kernel", [constant_step, step_at_run_time, unrolled, tile])
def test_signed(kernel: Any, bounds: tuple[int, int, int]) -> None:
    if device.device == "cuda" and _far_apart(bounds):
        pytest.skip("ptxas counts such turns as if signed numbers did not wrap (docs/language.md)")
    if kernel is not step_at_run_time or bounds[2] > 0:
        check(kernel, bounds)


@pytest.mark.parametrize("bounds", UNSIGNED, ids=str)
def test_unsigned(bounds: tuple[int, int, int]) -> None:
    check(unsigned, bounds)


def wide_step(out, start, stop, STEP: tl.int64):
    count = 0
    for _ in tl.range(start, stop, STEP):
        count += 1
    tl.store(out, count)


def product_at_run_time(out, start, stop, STEP):
    k = tl.arange(0, 16)
    total = tl.zeros([16, 16], tl.float32)
    for _ in range(start, stop, STEP):
        block = tl.load(out + k[:, None] * 16 + k[None, :]).to(tl.float32)
        total = tl.dot(block, block, total)
    tl.store(out + k, tl.sum(total, 0).to(tl.int64))


@pytest.mark.covering(1)
@pytest.mark.skipif(device.device == "cuda", reason="a loop on a GPU cannot report it")
@pytest.mark.parametrize("way", [device.native, InterpretedFunction], ids=["native", "interpreted"])
@pytest.mark.parametrize("bounds", [(0, 5, 0), (5, 0, -1), (0, 5, -3), (5, 5, 0)], ids=str)
@pytest.mark.parametrize("kernel", [step_at_run_time, wide_step, product_at_run_time])
def test_steps_that_are_not_positive(
    kernel: Any, bounds: tuple[int, int, int], way: Callable[[Any], Any]
) -> None:
    """An error, not a loop without end."""
    out, (start, stop, step) = np.zeros(256, np.int64), bounds
    with pytest.raises((RuntimeError, InterpreterError), match="the step of this loop is"):
        way(kernel)[(1,)](out=out, start=start, stop=stop, STEP=step)


def product(out, x, start, stop, STEP: tl.constexpr):
    k = tl.arange(0, 16)
    total = tl.zeros([16, 16], tl.float32)
    for _ in range(start, stop, STEP):
        block = tl.load(x + k[:, None] * 16 + k[None, :])
        total = tl.dot(block, block, total)
    tl.store(out + k, tl.sum(total, 0))


@pytest.mark.every(2)
@pytest.mark.parametrize("bounds", SIGNED, ids=str)
def test_a_matrix_product(bounds: tuple[int, int, int]) -> None:
    x, (start, stop, step) = np.ones((16, 16), np.float32), bounds
    out = np.zeros(16, np.float32)
    out = run_all(product, out=out, x=x, start=start, stop=stop, STEP=step)["out"]
    assert out.tolist() == [256.0 * len(range(*bounds))] * 16
