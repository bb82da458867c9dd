"""Linear attention and its gradients against float64."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.kernels.support import compare, normal, place, torch
from tritium_kernels.dense import linear_attention
from tritium_kernels.errors import ArgumentError


def exact(q, k, v, decay=None):
    at = torch.arange(q.shape[2], device=q.device)
    apart = (at[:, None] - at).double()
    weights = torch.where(apart >= 0, 1.0, 0.0).double()
    if decay is not None:
        weights = weights * decay.double()[:, None, None] ** apart.clamp(min=0)
    return (q @ k.mT * weights * q.shape[-1] ** -0.5) @ v


def check(length: int, d: int, width: int, dtype) -> None:
    q, k = (normal(2, 3, length, d, dtype=dtype, seed=s) for s in (0, 1))
    v = normal(2, 3, width, length, dtype=dtype).mT
    compare(linear_attention, exact, [q, k, v], 4)
    decay = torch.tensor([1.0, 0.9, 0.5], device=place())
    compare(lambda *x: linear_attention(*x, decay), lambda *x: exact(*x, decay), [q, k, v], 4)


def test_chunks():
    """Several chunks, the last of which is not whole."""
    check(70, 20, 24, torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 16, 16), (33, 8, 24), (100, 64, 64), (70, 20, 100)])
def test_shapes(shape, dtype):
    check(*shape, dtype)


@pytest.mark.every(2)
@pytest.mark.parametrize("decayed", [False, True])
def test_all_gradients_of_one_launch(decayed: bool):
    """As three launches give them."""
    made = import_module("tritium_kernels.dense.linear_attention")
    q, k, v, do = (normal(2, 3, 70, 20, dtype=torch.float32, seed=s) for s in range(4))
    k, do = (x.mT.contiguous().mT for x in (k, do))  # copied, as rows are not adjacent
    decay = torch.tensor([1.0, 0.9, 0.5], device=place()) if decayed else None
    parts = ((do, v, k, False), (v, do, q, True), (k, q, do, True))
    want = [made.launch(*x, decay, 0.3, reverse) for *x, reverse in parts]
    for got, one in zip(made.launch_gradients(q, k, v, do, decay, 0.3), want, strict=True):
        torch.testing.assert_close(got, one)


def test_empty():
    for length, d, width in ((0, 8, 8), (5, 0, 8), (5, 8, 0)):
        q, k, v = normal(1, 2, length, d), normal(1, 2, length, d), normal(1, 2, length, width)
        o = linear_attention(q.requires_grad_(), k, v)
        assert o.shape == v.shape and not o.any()
        o.sum().backward()
        assert q.grad.shape == q.shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: linear_attention(x[0], x, x), "q has 3 dimensions; accepted: 4"),
        (lambda x: linear_attention(x, x[:, :1], x), r"k has shape \(1, 1, 5, 4\); acc"),
        (lambda x: linear_attention(x, x, x.half()), "v has dtype float16; accepted: the dtype"),
        (lambda x: linear_attention(x, x, x, x[0, 0, 0]), r"decay has shape \(4,\); acc"),
        (lambda x: linear_attention(x.double(), x, x), "q has dtype float64; accepted: float16"),
        (lambda x: linear_attention(*[x.repeat(1, 1, 1, 65)] * 3), "q has 260, v 260 columns; acc"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(1, 2, 5, 4))
