"""Cross entropy of x @ weight.T + bias, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense import matmul_launch
from tritium_kernels.dense.cross_entropy import (
    check_loss,
    launch_backward,
    launch_forward,
    loss_dtype,
)
from tritium_kernels.errors import check_operand, check_rank, check_same_dtype, check_tensor
from tritium_kernels.launching.launch import cdiv, power_of_two
from tritium_kernels.launching.operators import autocast, operator


def _chunk(rows: int, features: int, columns: int) -> int:
    """Rows of logits held at a time: about as much memory as x itself takes."""
    return power_of_two(cdiv(rows, max(1, cdiv(columns, max(features, 1)))))


def _logits(
    x: Tensor, weight: Tensor, bias: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """(rows, their logits), some rows at a time."""
    size = _chunk(x.shape[0], x.shape[1], weight.shape[0])
    for first in range(0, x.shape[0], size):
        part = x[first : first + size]
        logits = torch.empty((part.shape[0], weight.shape[0]), dtype=x.dtype, device=x.device)
        _product(part, weight.T, logits, bias=bias)
        yield slice(first, first + size), logits


def _product(a: Tensor, b: Tensor, y: Tensor, **extra: Any) -> None:
    matmul_launch.launch(a[None], b[None], y[None], **extra)


@operator("linear_cross_entropy")
def linear_cross_entropy_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float, mean: bool, gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(loss, dx, dweight, dbias); gradients, for a dloss of 1, are empty where not wanted."""
    columns = weight.shape[0]
    dtype = loss_dtype(x)
    count = (target != ignored).sum().to(dtype) if mean else torch.ones((), device=x.device)
    scale = (1 / count).to(dtype)
    loss = torch.zeros((), dtype=dtype, device=x.device)
    dx = torch.zeros_like(x) if gradients else x.new_empty(0)
    dw = torch.zeros(weight.shape if gradients else 0, dtype=dtype, device=x.device)
    db = torch.zeros(columns if gradients and bias is not None else 0, dtype=dtype, device=x.device)
    for some, logits in _logits(x, weight, bias):
        right = target[some].contiguous()
        losses, lse = launch_forward(logits, right, ignored, smoothing, z)
        loss += losses.sum()
        if gradients:
            launch_backward(logits, right, lse, scale, logits, ignored, smoothing, z)
            _product(logits, weight, dx[some])
            _product(logits.T, x[some], dw, residual=dw[None])
            if bias is not None:
                db += logits.sum(0, dtype=dtype)
    db = db.to(weight.dtype if bias is None else bias.dtype)
    return loss * scale, dx, dw.to(weight.dtype), db


@linear_cross_entropy_op.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float, mean: bool, gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    loss = torch.empty((), dtype=loss_dtype(x), device=x.device)
    dx = torch.empty_like(x) if gradients else x.new_empty(0)
    dw = weight.new_empty(weight.shape if gradients else 0)
    db = (weight if bias is None else bias).new_empty(
        weight.shape[0] if gradients and bias is not None else 0
    )
    return loss, dx, dw, db


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.has_bias = inputs[2] is not None
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, dloss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    dx, dw, db = (g * dloss.to(g.dtype) for g in ctx.saved_tensors)
    return dx, dw, db if ctx.has_bias else None, None, None, None, None, None, None


linear_cross_entropy_op.register_autograd(_backward, setup_context=_save)


@operator("linear_cross_entropy_rows")
def linear_cross_entropy_rows_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(loss, log-sum-exp) of each row."""
    loss = torch.zeros(x.shape[0], dtype=loss_dtype(x), device=x.device)
    lse = torch.zeros_like(loss)
    for rows, logits in _logits(x, weight, bias):
        found = launch_forward(logits, target[rows].contiguous(), ignored, smoothing, z)
        loss[rows], lse[rows] = found
    return loss, lse


@operator("linear_cross_entropy_rows_backward")
def linear_cross_entropy_rows_backward_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, lse: Tensor, dloss: Tensor,
    ignored: int, smoothing: float, z: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dx, dweight, dbias): the logits are computed again; dbias is empty without a bias."""
    dx = torch.zeros_like(x)
    dw = torch.zeros(weight.shape, dtype=loss_dtype(x), device=x.device)
    db = dw.new_zeros(0 if bias is None else weight.shape[0])
    for rows, logits in _logits(x, weight, bias):
        launch_backward(
            logits, target[rows].contiguous(), lse[rows], dloss[rows], logits, ignored, smoothing, z
        )
        _product(logits, weight, dx[rows])
        _product(logits.T, x[rows], dw, residual=dw[None])
        if bias is not None:
            db += logits.sum(0, dtype=db.dtype)
    return dx, dw.to(weight.dtype), db.to(weight.dtype if bias is None else bias.dtype)


@linear_cross_entropy_rows_op.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    loss = torch.empty(x.shape[0], dtype=loss_dtype(x), device=x.device)
    return loss, torch.empty_like(loss)


@linear_cross_entropy_rows_backward_op.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, lse: Tensor, dloss: Tensor,
    ignored: int, smoothing: float, z: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    db = weight.new_empty(0) if bias is None else torch.empty_like(bias)
    return torch.empty_like(x), weight.new_empty(weight.shape), db


def _save_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.ignored, ctx.smoothing, ctx.z = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward_rows(ctx: Any, dloss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, bias, target, lse = ctx.saved_tensors
    dx, dw, db = linear_cross_entropy_rows_backward_op(
        x, weight, bias, target, lse, dloss, ctx.ignored, ctx.smoothing, ctx.z
    )
    return dx, dw, None if bias is None else db, None, None, None, None


linear_cross_entropy_rows_op.register_autograd(_backward_rows, setup_context=_save_rows)


def linear_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None,
    ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`cross_entropy(x @ weight.T + bias, target, ...)`, some rows of logits at a time.

    Gradients are computed with the loss, where any is wanted: the logits are not kept. With the
    reduction "none" they are computed again for the gradients. Logits have x's dtype.
    """
    op = "linear_cross_entropy"
    x, weight, bias = autocast(x, weight, bias)
    check_tensor(op, "x", x)
    check_rank(op, "x", x, (2,))
    check_tensor(op, "weight", weight)
    check_operand(op, "weight", weight, (*weight.shape[:1], x.shape[1]), "x", x)
    check_same_dtype(op, "weight", weight, "x", x)
    if bias is not None:
        check_operand(op, "bias", bias, weight.shape[:1], "x", x)
    check_loss(op, target, x.shape[0], x, label_smoothing, reduction)
    if reduction == "none":
        return linear_cross_entropy_rows_op(
            x, weight, bias, target, ignore_index, label_smoothing, z_loss
        )[0]
    wanted = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    mean = reduction == "mean"
    return linear_cross_entropy_op(
        x, weight, bias, target, ignore_index, label_smoothing, z_loss, mean, wanted
    )[0]
