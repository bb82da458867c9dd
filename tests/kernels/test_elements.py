"""Gated activations and rotary embedding, forward and backward, against float64."""

from __future__ import annotations

import pytest

from tests.kernels.support import FLOATS, compare, is_op, normal, place, torch
from tritium_kernels.dense import geglu, rope, swiglu
from tritium_kernels.errors import ArgumentError

F = torch.nn.functional


def check_gated(gate, up) -> None:
    compare(swiglu, lambda g, u: F.silu(g) * u, [gate, up])
    compare(geglu, lambda g, u: F.gelu(g) * u, [gate, up])
    compare(
        lambda g, u: geglu(g, u, "tanh"), lambda g, u: F.gelu(g, approximate="tanh") * u, [gate, up]
    )


def test_gated():
    check_gated(3 * normal(5, 70), normal(5, 70, seed=1))
    halves = normal(6, 40)
    compare(
        lambda x: swiglu(x[:, :20], x[:, 20:]), lambda x: F.silu(x[:, :20]) * x[:, 20:], [halves]
    )
    far = torch.tensor([-200.0, -30.0, 30.0, 200.0], device=place())
    check_gated(far, torch.ones_like(far))
    assert swiglu(normal(0, 4), normal(0, 4)).shape == (0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (1000, 33), (3, 20000)])
def test_sizes(shape, dtype):
    check_gated(normal(*shape, dtype=dtype), normal(*shape, dtype=dtype, seed=1))


def exact_rope(x, cos, sin, interleaved: bool):
    half = cos.shape[-1]
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = x[..., :half], x[..., half : 2 * half]
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([turned, x[..., 2 * half :]], -1)


@pytest.mark.covering(1)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("half", "batched"), [(8, False), (5, True)])
def test_rope(half: int, batched: bool, interleaved: bool):
    x = normal(2, 7, 3, 16).transpose(1, 2)
    angle = normal(*((2,) if batched else ()), 7, half)
    cos, sin = angle.cos(), angle.sin()
    compare(
        lambda x: rope(x, cos, sin, interleaved),
        lambda x: exact_rope(x, cos.double(), sin.double(), interleaved), [x],
    )  # fmt: skip


@pytest.mark.slow
def test_they_are_ops_of_torch():
    x = normal(1, 2, 3, 8).requires_grad_()
    angle = normal(3, 4)
    is_op(torch.ops.tritium_kernels.rope.default, x, angle.cos(), angle.sin(), False, False)
    is_op(torch.ops.tritium_kernels.gated.default, x, x, "silu")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: swiglu(x, x[:1]), r"swiglu: up has shape \(1, 4\); accepted: \(2, 4\)"),
        (lambda x: swiglu(x, x.half()), "up has dtype float16; accepted: the dtype of gate"),
        (lambda x: geglu(x, x, "erf"), "geglu: approximate is 'erf'; accepted: 'none', 'tanh'"),
        (lambda x: rope(x, x, x), "rope: x has 2 dimensions; accepted: 4"),
        (lambda x: rope(x[None, None], x, x), "rope: cos has 4 columns; accepted: 1 to 2, half"),
        (lambda x: rope(x[None, None], x[:1], x), r"cos has shape \(1, 4\); accepted: \(2, 4\)"),
    ],
)
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(2, 4))
