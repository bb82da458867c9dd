"""Tensors whose elements are more than 2**31 elements apart, of which few are touched."""

from __future__ import annotations

import pytest

from tests.kernels.support import close, integers, normal, place, torch
from tritium_kernels.dense import (
    attention,
    cross_entropy,
    embedding,
    layer_norm,
    matmul,
    rms_norm,
    rope,
    softmax,
    swiglu,
)

F = torch.nn.functional
FAR = 3 << 29
"""Elements from one row to the next: the third row is beyond 2**31."""


def spread(rows: int, columns: int):
    """Normal numbers, and the same in rows that are far apart."""
    memory = torch.empty((rows - 1) * FAR + columns, dtype=torch.bfloat16, device=place())
    far = memory.as_strided((rows, columns), (FAR, 1))
    near = normal(rows, columns, dtype=torch.bfloat16)
    far.copy_(near)
    return near, far


@pytest.fixture(scope="module")
def pair():
    return spread(3, 64)


@pytest.mark.slow
def test_rows(pair):
    near, far = pair
    target = integers(64, 3)
    functions = [
        softmax, layer_norm, rms_norm, lambda x: swiglu(x, x),
        lambda x: cross_entropy(x, target, reduction="none"), lambda x: embedding(target % 3, x),
    ]  # fmt: skip
    for function in functions:
        assert torch.equal(function(far), function(near))


def test_products(pair):
    near, far = pair
    w = normal(64, 32, dtype=torch.bfloat16)
    assert torch.equal(matmul(far, w), matmul(near, w))
    assert torch.equal(matmul(far[:, :16].mT, w[:3]), matmul(near[:, :16].mT, w[:3]))
    x = normal(16, 64, dtype=torch.bfloat16)
    close(matmul(x, far.mT), x.double() @ near.double().mT, scale=2)


@pytest.mark.slow
def test_positions_and_heads(pair):
    near, far = ((t.view(1, 1, 3, 64), t.view(3, 1, 1, 64)) for t in pair)
    angle = normal(3, 32)
    for a, b in zip(near, far, strict=True):
        turned = (rope(t, angle[: t.shape[2]].cos(), angle[: t.shape[2]].sin()) for t in (a, b))
        assert torch.equal(*turned)
        assert torch.equal(attention(b, b, b), attention(a, a, a))
        ours, theirs = (t.detach().requires_grad_() for t in (b, a))
        for x in (ours, theirs):
            y = attention(x, x, x, causal=True)
            y.backward(torch.ones_like(y))
        assert torch.equal(ours.grad, theirs.grad)
