"""Cross entropy, forward and backward, against float64."""

from __future__ import annotations

import importlib

import pytest

from tests.kernels.support import FLOATS, close, compare, integers, is_op, normal, place, torch
from tritium_kernels.dense import cross_entropy, linear_cross_entropy
from tritium_kernels.errors import ArgumentError

F = torch.nn.functional
cross_entropy_module = importlib.import_module("tritium_kernels.dense.cross_entropy")


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


def test_logits_that_are_all_large():
    """Losses and gradients depend on differences of logits alone."""
    x, target = (normal(5, 300) + 1e6), integers(300, 5)
    for reduction in ("none", "mean"):
        compare(
            lambda x, r=reduction: cross_entropy(x, target, label_smoothing=0.1, reduction=r),
            lambda x, r=reduction: exact(x, target, 0.1, 0.0, r), [x],
        )  # fmt: skip


def test_neighbours_with_a_largest_number_of_their_own(monkeypatch):
    """As on GPUs; minus infinities, infinities and NaN give what they give otherwise."""
    monkeypatch.setitem(cross_entropy_module.WIDTHS, place(), 8)
    check(5, 1003, 0.1, 0.01, "none")
    check(3, 4, dtype=torch.float64)
    x = normal(7, 1100, seed=3)
    x[0, 600:], x[1, :600], x[2, 7], x[3, 700] = -torch.inf, -torch.inf, torch.inf, torch.nan
    x[4], x[5], target = -torch.inf, 1e30, integers(500, 7)
    found = cross_entropy(x, target, reduction="none")
    close(found, F.cross_entropy(x.double(), target, reduction="none"))


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


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("columns", [7, 300])
def test_losses_of_rows_of_a_linear_layer(columns: int, biased: bool):
    """Each loss may have a gradient of its own; with 300 columns there are several parts."""
    target = integers(columns, 21)
    target[4] = -100
    inputs = [normal(21, 8), normal(columns, 8), *([normal(columns)] if biased else [])]

    def exact(x, w, b=None):
        y = F.linear(x, w, b)
        loss = F.cross_entropy(y, target, reduction="none", label_smoothing=0.1)
        return loss + 0.01 * torch.logsumexp(y, 1).square() * (target != -100)

    compare(
        lambda x, w, b=None: linear_cross_entropy(
            x, w, target, b, label_smoothing=0.1, z_loss=0.01, reduction="none"
        ),
        exact, inputs,
    )  # fmt: skip
    none = torch.empty(0, 8, device=place(), requires_grad=True)
    loss = linear_cross_entropy(none, inputs[1], target[:0], reduction="none")
    loss.sum().backward()
    assert loss.shape == (0,) and none.grad.shape == (0, 8)


@pytest.mark.slow
def test_losses_of_rows_are_an_op_of_torch():
    x, w, target = normal(3, 8).requires_grad_(), normal(5, 8).requires_grad_(), integers(5, 3)
    op = torch.ops.tritium_kernels.linear_cross_entropy_rows.default
    is_op(op, x, w, None, target, -100, 0.1, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_many_rows(reduction: str):
    """More than are added up at once; the total is an op of its own."""
    check(5000, 3, 0.1, 0.01, reduction, dtype=torch.float64)
    check(20000, 3, reduction=reduction)
    op, x = torch.ops.tritium_kernels.cross_entropy_total.default, normal(3, 5).requires_grad_()
    is_op(op, x, integers(5, 3), -100, 0.1, 0.01, reduction == "mean")


def test_rows_without_columns():
    """Logits of any strides: each row has a loss, as no column is right."""
    target = torch.tensor([0, -100], device=place())
    for logits in (normal(2, 0), normal(0, 2).T):
        loss = cross_entropy(logits, target, reduction="none")
        assert loss.shape == (2,) and loss[0].isnan() and loss[1] == 0
