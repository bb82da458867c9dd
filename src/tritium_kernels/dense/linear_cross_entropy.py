"""Cross entropy of x @ weight.T + bias, without ever holding all logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.cross_entropy import (
    check_loss,
    launch_backward,
    launch_forward,
    loss_dtype,
    losses,
)
from tritium_kernels.dense.matmul_launch import launch_matrices
from tritium_kernels.errors import check_operand, check_rank, check_same_dtype, check_tensor
from tritium_kernels.launching.launch import cdiv, empty_like, power_of_two
from tritium_kernels.launching.operators import autocast, once, operator


def _chunk(x: Tensor, columns: int) -> int:
    """Rows of logits held at a time: about as much memory as x itself takes; on CPUs, where the
    gradient of the weight is read and written for each of these chunks, no less than the weight."""
    rows, features = x.shape
    size = power_of_two(cdiv(rows, max(1, cdiv(columns, max(features, 1)))))
    return max(size, features) if x.is_cpu else size


def _logits(
    x: Tensor, weight: Tensor, bias: Tensor | None
) -> Iterator[tuple[slice, Tensor]]:
    """(rows, their logits), some rows at a time."""
    size, columns = _chunk(x, weight.shape[0]), weight.shape[0]
    for first in range(0, x.shape[0], size):
        part = x[first : first + size]
        logits = torch.empty(part.shape[0], columns, dtype=x.dtype, device=x.device)
        launch_matrices(part, weight.T, logits, bias)
        yield slice(first, first + size), logits


class _Gradients:
    """Gradients of x, weight and bias, added up over chunks of rows. That of the weight is summed
    in float32 (float64) where there are several chunks."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None):
        self.x, self.weight, self.bias = x, weight, bias
        self.dx = empty_like(x)
        self.dw = self.db = None

    def add(self, rows: slice, dlogits: Tensor) -> None:
        """Take the gradient of these rows' logits into account."""
        dtype = loss_dtype(self.x)
        launch_matrices(dlogits, self.weight, self.dx[rows])
        part = self.x[rows]
        if self.dw is None:
            only = part.shape[0] == self.x.shape[0]
            given = self.weight.dtype if only else dtype
            self.dw = torch.empty(self.weight.shape, dtype=given, device=part.device)
            launch_matrices(dlogits.T, part, self.dw)
        else:
            launch_matrices(dlogits.T, part, self.dw, residual=self.dw)
        if self.bias is not None:
            db = dlogits.sum(0, dtype=dtype)
            self.db = db if self.db is None else self.db.add_(db)

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """(dx, dweight, dbias), the last one empty without a bias."""
        dw, db = self.dw, self.db
        dw = self.weight.new_zeros(self.weight.shape) if dw is None else dw.to(self.weight.dtype)
        if self.bias is None:
            return self.dx, dw, self.weight.new_empty(0)
        db = torch.zeros_like(self.bias) if db is None else db.to(self.bias.dtype)
        return self.dx, dw, db


@operator("linear_cross_entropy")
def linear_cross_entropy_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float, mean: bool, gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """(loss, dx, dweight, dbias); gradients, for a dloss of 1, are empty where not wanted."""
    dtype, target = loss_dtype(x), target.contiguous()
    if mean:
        scale = (target != ignored).sum().to(dtype).reciprocal_()
    else:
        scale = torch.ones((), dtype=dtype, device=x.device)
    loss = torch.zeros((), dtype=dtype, device=x.device)
    found = _Gradients(x, weight, bias) if gradients else None
    for rows, logits in _logits(x, weight, bias):
        of_rows, lse = launch_forward(logits, target[rows], ignored, smoothing, z)
        loss += of_rows.sum()
        if found is not None:
            launch_backward(logits, target[rows], lse, scale, logits, ignored, smoothing, z)
            found.add(rows, logits)
    loss *= scale
    if found is None:
        return loss, x.new_empty(0), weight.new_empty(0), weight.new_empty(0)
    return loss, *found.result()


@linear_cross_entropy_op.register_fake
def _(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float, mean: bool, gradients: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    loss = torch.empty((), dtype=loss_dtype(x), device=x.device)
    dx = empty_like(x) if gradients else x.new_empty(0)
    dw = weight.new_empty(weight.shape if gradients else 0)
    db = (weight if bias is None else bias).new_empty(
        weight.shape[0] if gradients and bias is not None else 0
    )
    return loss, dx, dw, db


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.has_bias = inputs[2] is not None
    # The operands, for what the gradients depend on.
    ctx.save_for_backward(*output[1:], *inputs[:3])


@once("linear_cross_entropy")
def _backward(ctx: Any, dloss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    dx, dw, db = (g * dloss.to(g.dtype) for g in ctx.saved_tensors[:3])
    return dx, dw, db if ctx.has_bias else None, None, None, None, None, None, None


linear_cross_entropy_op.register_autograd(_backward, setup_context=_save)


@operator("linear_cross_entropy_rows")
def linear_cross_entropy_rows_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignored: int,
    smoothing: float, z: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(loss, lse) of each row."""
    loss, lse = losses(x)
    target = target.contiguous()
    for rows, logits in _logits(x, weight, bias):
        found = launch_forward(logits, target[rows], ignored, smoothing, z)
        loss[rows], lse[rows] = found
    return loss, lse


@operator("linear_cross_entropy_rows_backward")
def linear_cross_entropy_rows_backward_op(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, lse: Tensor, dloss: Tensor,
    ignored: int, smoothing: float, z: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dx, dweight, dbias): the logits are computed again; dbias is empty without a bias."""
    found, target = _Gradients(x, weight, bias), target.contiguous()
    for rows, logits in _logits(x, weight, bias):
        launch_backward(logits, target[rows], lse[rows], dloss[rows], logits, ignored, smoothing, z)
        found.add(rows, logits)
    return found.result()


@linear_cross_entropy_rows_op.register_fake
def _(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return losses(x)


@linear_cross_entropy_rows_backward_op.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    db = weight.new_empty(0) if bias is None else torch.empty_like(bias)
    return empty_like(x), weight.new_empty(weight.shape), db


def _save_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.ignored, ctx.smoothing, ctx.z = inputs
    ctx.save_for_backward(*tensors, output[1])


def _backward_rows(ctx: Any, dloss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
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
    check_loss(op, target, x.shape[0], x, ignore_index, label_smoothing, z_loss, reduction)
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
