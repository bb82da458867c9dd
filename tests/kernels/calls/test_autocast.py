"""Under torch.autocast functions compute in the types that torch's own take there."""

from __future__ import annotations

from typing import Any

import pytest
import torch.nn.functional as F

from tests.kernels.support import close, integers, normal, place, torch
from tritium_kernels import dense
from tritium_kernels.matmul import matmul as moe_matmul

HALVES = (torch.bfloat16, torch.float16)


def heads(seed: int = 0) -> Any:
    return normal(1, 2, 8, 16, seed=seed)


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", HALVES)
def test_products_are_of_the_lower_precision(dtype: Any):
    a, b = normal(4, 8), normal(8, 6)
    x, w = (t.clone().requires_grad_() for t in (a, b))
    with torch.autocast(place(), dtype=dtype):
        y, right = dense.matmul(x, w, normal(6)), F.linear(a, b.T, normal(6))
    assert y.dtype == right.dtype == dtype
    assert torch.equal(y, dense.matmul(a.to(dtype), b.to(dtype), normal(6).to(dtype)))
    close(y.detach(), right.double())
    y.float().square().sum().backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32 and bool(w.grad.any())


@pytest.mark.parametrize(
    "call",
    [
        lambda q: dense.attention(q, q, q, causal=True),
        lambda q: dense.linear_attention(q, q, q),
        lambda q: dense.attention_packed(
            *3 * [q[0].transpose(0, 1)], *2 * [torch.tensor([0, 8], device=q.device).int()], 8, 8
        ),
        lambda q: moe_matmul(q[0], q[0].mT, None),
    ],
)
def test_attention_and_experts(call: Any):
    q = heads()
    with torch.autocast(place(), dtype=torch.bfloat16):
        y = call(q)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, call(q.bfloat16()))


def test_losses_stay_wide():
    x, w, target = normal(5, 8), normal(7, 8), integers(7, 5)
    with torch.autocast(place(), dtype=torch.bfloat16):
        loss = dense.linear_cross_entropy(x, w, target)
    assert loss.dtype == torch.float32
    assert loss == dense.linear_cross_entropy(x.bfloat16(), w.bfloat16(), target)


@pytest.mark.parametrize(
    ("call", "exact"),
    [
        (dense.softmax, lambda x: torch.softmax(x, -1)),
        (dense.log_softmax, lambda x: torch.log_softmax(x, -1)),
        (dense.layer_norm, lambda x: F.layer_norm(x, x.shape[-1:])),
        (lambda x: dense.group_norm(x, 2), lambda x: F.group_norm(x, 2)),
        (dense.cumsum, lambda x: torch.cumsum(x, -1)),
    ],
)
def test_what_torch_widens(call: Any, exact: Any):
    """GPUs alone: on CPUs torch leaves the type as it is."""
    x = normal(3, 8, dtype=torch.bfloat16)
    with torch.autocast(place(), dtype=torch.bfloat16):
        found, right = call(x), exact(x)
    assert found.dtype == right.dtype
    close(found, right.double())


def test_outside_of_it_types_stay():
    a = normal(4, 4)
    with torch.autocast(place(), dtype=torch.bfloat16, enabled=False):
        assert dense.matmul(a, a).dtype == torch.float32
