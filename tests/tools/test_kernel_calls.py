"""The random calls of `tools/fuzz_kernels.py`: a sample of them, and what finds faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.needs_torch import torch
from tools.kernel_calls.bounded import FORMATS, Bounded, difference
from tools.kernel_calls.cases import CASES
from tools.kernel_calls.checking import Wrong, check
from tools.kernel_calls.operands import LAYOUTS, Operand, Source, exact, place
from tools.kernel_calls.rows import softmax

SINGLE = FORMATS["float32"]


def softmax_by(function: Callable[..., Any]) -> Any:
    """A call of softmax, in float32, of a function in the library's place."""
    for seed in range(100):
        trial = softmax(Source(seed))
        x = trial.operands["x"]
        if trial.name == "softmax" and x.dtype == torch.float32 and 1 < x.shape[-1] < 300:
            dim = trial.options["dim"]
            if x.shape[dim] > 1 and 0 not in x.shape:
                return replace(
                    trial, function=partial(function, dim=dim), compiles=False,
                    operands={"x": replace(x, values="normal", layout="plain")},
                )  # fmt: skip
    raise AssertionError


def test_a_right_function_passes():
    check(softmax_by(torch.softmax), Source(0))


class Unscaled(torch.autograd.Function):
    """Softmax whose gradient is a little off."""

    @staticmethod
    def forward(ctx: Any, x: Any, dim: int) -> Any:
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (y,) = ctx.saved_tensors
        return y * (dy - 1.001 * (y * dy).sum(ctx.dim, keepdim=True)), None


def changing(x: Any, dim: int) -> Any:
    y = torch.softmax(x, dim)
    x.detach().neg_().neg_().mul_(0)
    return y


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, dim: torch.softmax(x, dim) * (1 + 1e-4), "result 0 is"),
        (lambda x, dim: Unscaled.apply(x, dim), "the gradient of x is"),
        (changing, "x has changed"),
        (lambda x, dim: torch.softmax(x.detach(), dim).requires_grad_(), "requires grad|unused"),
    ],
)
def test_wrong_functions_are_found(function: Any, message: str):
    with pytest.raises((Wrong, RuntimeError), match=message):
        check(softmax_by(function), Source(0))


def test_bounds_hold_and_are_not_wide():
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((50, 70)).astype(np.float32) for _ in range(2))
    a, b = Bounded(x), Bounded(y)
    found = {
        "sum": ((x + y).sum(1), (a + b).sum(1)), "product": (x @ y.T, a.matmul(b.value.T)),
        "exp": (np.exp(x) / y, a.exp() / b),
        "root": (np.sqrt(x * x + y * y), (a * a + b * b).sqrt()),
    }  # fmt: skip
    for value, right in found.values():
        assert not difference(value.astype(np.float64), right, SINGLE)
        scale = 1e-3 * (np.abs(value) + 1).astype(np.float64)
        assert difference(value + scale, right, SINGLE)


def test_numbers_out_of_range():
    most = SINGLE.most
    assert not difference(np.array([np.inf]), Bounded(most) * Bounded(np.array([2.0])), SINGLE)
    assert difference(np.array([np.inf]), Bounded(np.array([1e30])), SINGLE)
    assert difference(np.array([np.nan]), Bounded(np.array([1.0])), SINGLE)
    assert difference(np.array([1.0]), Bounded(np.array([np.nan])), SINGLE)
    assert difference(np.array([-np.inf]), Bounded(np.array([np.inf])), SINGLE)


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS)))
def test_layouts_have_the_numbers(layout: str):
    x = Operand((4, 3, 5), torch.float32, "plain")._numbers(np.random.default_rng(0))
    t = place(x, torch.float32, layout, "cpu")
    right = x.astype(np.float32)
    if layout == "expanded":
        right = np.broadcast_to(right[:, :1], x.shape)
    assert np.array_equal(exact(t), right)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_sample(case: Any):
    for seed in range(3):
        check(case(Source(seed)), Source(seed))
