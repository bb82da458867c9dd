"""The origin that is named is that of the number which is stored, not of one that is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.interpret import InterpretedKernel
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu


@tritium.jit
def replaced(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    chosen = tl.where(a > 0, tl.log(a), 0.0)
    root = tl.sqrt(tl.load(y + i))
    tl.store(out + i, chosen + root)


@tritium.jit
def masked_off(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    other = tl.sqrt(tl.load(x + i))
    root = tl.sqrt(tl.load(y + i))
    tl.store(out + i, other + root, mask=i >= 4)


@tritium.jit
def rows(x, y, out, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 4), tl.arange(0, BLOCK // 4)
    a = tl.sqrt(tl.load(x + i[:, None] * (BLOCK // 4) + j))
    b = tl.log(tl.load(y + i[:, None] * (BLOCK // 4) + j))
    total = tl.sum(tl.trans(a) + tl.trans(b), axis=0)
    tl.store(out + i, total, mask=i >= 2)


@tritium.jit
def products(x, y, out, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    mask = (i < BLOCK // 4) & (j < 4)
    root = tl.sqrt(tl.load(x + i * 4 + j, mask=mask, other=1.0))
    logs = tl.log(tl.load(y + i * 4 + j, mask=mask, other=1.0))
    total = tl.dot(root, tl.full((16, 16), 1.0, tl.float32))
    total += tl.dot(logs, tl.full((16, 16), 1.0, tl.float32))
    tl.store(out + i * 16 + j, total, mask=i >= 2)


@tritium.jit
def carried(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    dropped, kept = tl.load(x + i), tl.load(y + i)
    for _ in range(3):
        dropped = tl.sqrt(dropped)
        kept = tl.log(kept) + 1
    tl.store(out + i, tl.where(i < 4, 0.0, dropped) + kept)


@tritium.jit
def infinite(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    first = 1.0 / tl.load(x + i)
    second = 1.0 / tl.load(y + i)
    tl.store(out + i, tl.where(i < 4, 1.0, first) + second * 0.0)


# The element of x is dropped, that of y is stored.
CASES = {
    "replaced": (replaced, 3, 7, -1, "root = tl.sqrt"),
    "masked off": (masked_off, 3, 7, -1, "root = tl.sqrt"),
    "another row of a sum": (rows, 5, 9, -1, "b = tl.log"),
    "another row of a product": (products, 5, 9, -1, "logs = tl.log"),
    "carried by a loop": (carried, 3, 7, -1, "kept = tl.log"),
    "the cause of another NaN": (infinite, 3, 7, 0, "second = 1.0"),
}


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_dropped_numbers_are_no_origins(case: str, interpreted: bool):
    kernel, dropped, stored, number, line = CASES[case]
    x, y, out = np.ones(16, np.float32), np.ones(16, np.float32), np.zeros(256, np.float32)
    x[dropped] = number
    launched: Any = InterpretedKernel(kernel) if interpreted else kernel
    launched[(1,)](x, y, out, BLOCK=16, instrumentation_mode="fp")
    y[stored] = number
    with pytest.raises(SanitizerError) as caught:
        launched[(1,)](x, y, out, BLOCK=16, instrumentation_mode="fp")
    last = str(caught.value).splitlines()[-2:]
    assert "first made at" in last[0] and last[1].strip().startswith(line)
