"""Cross entropy of x @ weight.T + bias, without ever holding all logits."""

from __future__ import annotations

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
from tritium_kernels.errors import check_operand, check_rank, check_same_dtype, check_tensor, refuse
from tritium_kernels.launching.launch import cdiv, power_of_two
from tritium_kernels.launching.operators import operator


def _chunk(rows: int, features: int, columns: int) -> int:
    """Rows of logits held at a time: about as much memory as x itself takes."""
    return power_of_two(cdiv(rows, max(1, cdiv(columns, max(features, 1)))))


def _product(a: Tensor, b: Tensor, y: Tensor, **extra: Any) -> None:
    matmul_launch.launch(a[None], b[None], y[None], **extra)


@operator("linear_cross_entropy")
def linear_cross_entropy_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float, mean: bool, gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(loss, dx, dweight, dbias); gradients, for a dloss of 1, are empty where not wanted."""
    rows, features = x.shape
    columns = weight.shape[0]
    dtype = loss_dtype(x)
    count = (target != ignored).sum().to(dtype) if mean else torch.ones((), device=x.device)
    scale = (1 / count).to(dtype)
    loss = torch.zeros((), dtype=dtype, device=x.device)
    dx = torch.zeros_like(x) if gradients else x.new_empty(0)
    dw = torch.zeros(weight.shape if gradients else 0, dtype=dtype, device=x.device)
    db = torch.zeros(columns if gradients and bias is not None else 0, dtype=dtype, device=x.device)
    size = _chunk(rows, features, columns)
    for first in range(0, rows, size):
        part, right = x[first : first + size], target[first : first + size].contiguous()
        logits = torch.empty((part.shape[0], columns), dtype=x.dtype, device=x.device)
        _product(part, weight.T, logits, bias=bias)
        losses, lse = launch_forward(logits, right, ignored, smoothing, z)
        loss += losses.sum()
        if gradients:
            launch_backward(logits, right, lse, scale, logits, ignored, smoothing, z)
            _product(logits, weight, dx[first : first + size])
            _product(logits.T, part, dw, residual=dw[None])
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


def linear_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None,
    ignore_index: int = -100, label_smoothing: float = 0.0, z_loss: float = 0.0,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`cross_entropy(x @ weight.T + bias, target, ...)`, some rows of logits at a time.

    Gradients are computed with the loss, where any is wanted: the logits are not kept. Logits have
    x's dtype. `reduction` is "mean" or "sum".
    """
    op = "linear_cross_entropy"
    check_tensor(op, "x", x)
    check_rank(op, "x", x, (2,))
    check_tensor(op, "weight", weight)
    check_operand(op, "weight", weight, (*weight.shape[:1], x.shape[1]), "x", x)
    check_same_dtype(op, "weight", weight, "x", x)
    if bias is not None:
        check_operand(op, "bias", bias, weight.shape[:1], "x", x)
    check_loss(op, target, x.shape[0], x, label_smoothing, reduction)
    if reduction == "none":
        raise refuse(op, "reduction", "is 'none'", "'mean', 'sum'")
    wanted = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, weight, bias)
    )
    mean = reduction == "mean"
    return linear_cross_entropy_op(
        x, weight, bias, target, ignore_index, label_smoothing, z_loss, mean, wanted
    )[0]
