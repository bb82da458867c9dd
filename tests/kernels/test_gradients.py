"""Gradients of functions that are no ops of torch: of either sign, and no constants to torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.support import integers, normal, torch
from tritium_kernels import dense, matmul, reduce, swiglu, topk

CALLS = {
    "topk": lambda x: topk.topk(x, 3).vals,
    "reduce": lambda x: reduce.reduce(x[None] * x, 0)[0],
    "matmul": lambda x: matmul.matmul(x, x.T, None),
    "swiglu": lambda x: swiglu.swiglu(x, 1.0, swiglu.PrecisionConfig()),
    "linear_cross_entropy": lambda x: dense.linear_cross_entropy(x, x[:5], integers(5, 6)),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", CALLS)
def test_gradients_that_cannot_be_differentiated(name: str):
    x: Any = normal(6, 8).requires_grad_()
    y = CALLS[name](x)
    # The derivative of a sum is a constant: the other factor of reduce's is all there is.
    for z in (y.square().sum(), *([y.sum()] if name != "reduce" else [])):
        (dx,) = torch.autograd.grad(z, x, create_graph=True)
        with pytest.raises(NotImplementedError, match=f"{name}: the derivative of its gradient"):
            torch.autograd.grad(dx.square().sum() + z, x, allow_unused=True)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", CALLS)
def test_gradients_that_torch_has_yet_to_negate(name: str):
    x: Any = normal(6, 8).requires_grad_()
    y = CALLS[name](x)
    dy = normal(*y.shape, seed=1)
    (right,) = torch.autograd.grad(y, x, dy, retain_graph=True)
    (found,) = torch.autograd.grad(y, x, torch._neg_view(-dy))
    assert torch.equal(found, right)
