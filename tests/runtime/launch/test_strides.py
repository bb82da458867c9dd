"""Tensors with strides of zero and with no elements, as arguments."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.backends.interpreter.interpret import InterpretedKernel


@tritium.jit
def gather(x, out, stride, n):
    i = tl.arange(0, 4)
    tl.store(out + i, tl.load(x + i * stride, i < n, other=-1.0))


def tensors(kind: str):
    if kind == "numpy":
        three = np.full(1, 3, np.float32)
        yield np.broadcast_to(three, (4,)), 0, 4, np.full(4, 3)
        yield np.zeros((0, 4), np.float32), 1, 0, np.full(4, -1)
        yield np.arange(4, dtype=np.float32)[::-1], -1, 4, np.arange(4)[::-1]
    else:
        torch = pytest.importorskip("torch")
        yield torch.full((1,), 3.0).expand(4), 0, 4, np.full(4, 3)
        yield torch.zeros(4, 0), 1, 0, np.full(4, -1)
        yield torch.zeros(4)[4:], 1, 0, np.full(4, -1)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("interpret", [False, True])
def test_strides_of_zero_and_no_elements(kind, interpret):
    kernel = InterpretedKernel(gather.fn) if interpret else gather
    for x, stride, n, expected in tensors(kind):
        for _ in range(3):  # in Python, then natively
            out = np.zeros(4, np.float32)
            kernel[(1,)](x, out, stride, n)
            assert (out == expected).all(), (x, out)
        kernel[(0,)](x, out, stride, n)
