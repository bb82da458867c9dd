"""Cross entropy, forward and backward, against float64."""

from __future__ import annotations

import pytest

from tests.kernels.support import FLOATS, close, compare, integers, is_op, normal, place, torch
from tritium_kernels.dense import cross_entropy
from tritium_kernels.errors import ArgumentError

F = torch.nn.functional


def exact(x, target, smoothing: float, z: float, reduction: str):
    loss = F.cross_entropy(x, target, label_smoothing=smoothing, reduction="none")
    kept = target != -100
    loss = loss + torch.where(kept, z * torch.logsumexp(x, -1) ** 2, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() / (kept.sum() if reduction == "mean" else 1)


def check(rows: int, columns: int, smoothing=0.0, z=0.0, reduction="mean", dtype=torch.float32):
    target = integers(columns, rows)
    target[rows // 2] = -100
    compare(
        lambda x: cross_entropy(x, target, -100, smoothing, z, reduction),
        lambda x: exact(x, target, smoothing, z, reduction),
        [normal(rows, columns, dtype=dtype)], scale=3,
    )  # fmt: skip


def test_options():
    check(5, 100, smoothing=0.1, z=0.01, reduction="none")
    check(3, 20000, smoothing=0.1, reduction="sum")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [1, 17, 1000, 4097, 130000])
def test_sizes(columns: int, dtype):
    check(9, columns, dtype=dtype)
    check(9, columns, 0.2, 0.01, "none", dtype=dtype)


def test_targets_that_are_no_column_give_nan():
    logits = torch.zeros(4, 5, device=place(), requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([1, 5, -1, -100], device=place()), reduction="none")
    assert loss.isnan().tolist() == [False, True, True, False] and loss[3] == 0
    loss.sum().backward()
    assert logits.grad.isnan().any(1).tolist() == [False, True, True, False]


def test_empty_and_strided_tensors():
    target = integers(6, 4)
    ours, theirs = (lambda x, f=f: f(x.mT, target) for f in (cross_entropy, F.cross_entropy))
    compare(ours, theirs, [normal(6, 4)])
    empty = torch.empty(0, 5, device=place(), requires_grad=True)
    assert cross_entropy(empty, integers(5, 0), reduction="sum") == 0
    assert cross_entropy(empty, integers(5, 0)).isnan()


@pytest.mark.slow
def test_gradients_of_float64():
    x, target = normal(3, 5, dtype=torch.float64).requires_grad_(), integers(5, 3)
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, target, -100, 0.1, 0.01), (x,))
    is_op(torch.ops.tritium_kernels.cross_entropy.default, x, target, -100, 0.1, 0.01)


def test_large_logits():
    """Equal ones, beside which the logarithm of their number is nothing."""
    x, target = torch.full((2, 50), 1e30, device=place()), integers(50, 2)
    x[1] *= -1
    right = F.cross_entropy(x.double(), target, reduction="none")
    close(cross_entropy(x, target, reduction="none"), right)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, t: cross_entropy(x, t.float()), "target has dtype float32; accepted: int"),
        (lambda x, t: cross_entropy(x, t[:1]), r"target has shape \(1,\); accepted: \(2,\)"),
        (lambda x, t: cross_entropy(x[0], t), "logits has 1 dimensions; accepted: 2"),
        (lambda x, t: cross_entropy(x, t, reduction="avg"), "reduction is 'avg'; accepted: 'mean'"),
        (lambda x, t: cross_entropy(x, t, label_smoothing=2), "label_smoothing is 2; accepted"),
    ],
)  # fmt: skip
def test_errors(call, message: str):
    with pytest.raises(ArgumentError, match=message):
        call(normal(2, 3), integers(3, 2))
