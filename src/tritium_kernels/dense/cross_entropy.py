"""Cross entropy of logits and right columns, with its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import cross_entropy as kernels
from tritium_kernels.errors import (
    INDICES,
    WORDS,
    check_choice,
    check_integer,
    check_number,
    check_operand,
    check_range,
    check_rank,
    check_tensor,
)
from tritium_kernels.launching.launch import as_rows, device_class, empty_like, on
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows

REDUCTIONS = ("mean", "sum", "none")
WIDTHS = {"cpu": 1, "hopper": 8, "gpu": 8}
"""Neighbours in a row that have a largest number of their own on the way, by class of device."""

SUMMED = 1024
"""Losses that are added up at once."""

MOST_SUMMED = 16384
"""Losses that one program of a GPU adds up; more are torch's."""


def loss_dtype(x: Tensor) -> torch.dtype:
    """The type of losses and of their gradients."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def losses(x: Tensor) -> tuple[Tensor, Tensor]:
    """Memory for the loss of each row, and for lse: the row's largest logit and the logarithm of
    the sum of exponentials relative to it, whose sum is log-sum-exp."""
    loss = torch.empty(x.shape[0], dtype=loss_dtype(x), device=x.device)
    return loss, loss.new_empty(x.shape[0], 2)


def launch_forward(
    x: Tensor, target: Tensor, ignored: int, smoothing: float, z: float
) -> tuple[Tensor, Tensor]:
    """(loss, lse) of each row of a matrix whose columns are adjacent; see `losses`."""
    loss, lse = losses(x)
    _launch_forward(x, target, loss, lse, ignored, smoothing, z)
    return loss, lse


def _launch_forward(
    x: Tensor, target: Tensor, loss: Tensor, lse: Tensor | None, ignored: int, smoothing: float,
    z: float,
) -> None:  # fmt: skip
    """Write the loss of each row, and lse where there is memory for it."""
    rows, columns = x.shape
    if rows == 0:
        return
    plan = plan_rows(x.device, rows, columns)
    with on("cross_entropy", "logits", x):
        kernels.loss_forward[(rows,)](
            x, target, loss, lse, columns, x.stride(0), ignored, smoothing, z,
            SMOOTH=smoothing != 0, BLOCK=plan.step,
            WIDTH=min(WIDTHS[device_class(x.device)], plan.step), num_warps=plan.warps,
        )  # fmt: skip


def launch_backward(
    x: Tensor, target: Tensor, lse: Tensor, scale: Tensor, dx: Tensor,
    ignored: int, smoothing: float, z: float, factor: Tensor | None = None,
) -> None:  # fmt: skip
    """Write the gradient of the logits, for the gradient `scale` of each loss, times one number
    `factor`, to dx."""
    rows, columns = x.shape
    if rows == 0 or columns == 0:
        return
    plan = plan_rows(x.device, rows, columns)
    with on("cross_entropy", "logits", x):
        kernels.loss_backward[(rows,)](
            x, target, lse, scale, factor, dx, columns, x.stride(0), dx.stride(0),
            scale.stride(0) if scale.ndim else 0, ignored, smoothing, z,
            BLOCK=plan.step, num_warps=plan.warps,
        )  # fmt: skip


@operator("cross_entropy")
def cross_entropy_op(
    logits: Tensor, target: Tensor, ignored: int, smoothing: float, z: float
) -> tuple[Tensor, Tensor]:
    return launch_forward(as_rows(logits), target.contiguous(), ignored, smoothing, z)


@operator("cross_entropy_backward", like=("logits",))
def cross_entropy_backward_op(
    logits: Tensor, target: Tensor, lse: Tensor, dloss: Tensor,
    ignored: int, smoothing: float, z: float, factor: Tensor | None,
) -> Tensor:  # fmt: skip
    """`factor`: one number that every gradient is multiplied by."""
    dx, x = empty_like(logits), as_rows(logits)
    launch_backward(x, target.contiguous(), lse, dloss, dx, ignored, smoothing, z, factor)
    return dx


@cross_entropy_op.register_fake
def _(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return losses(logits)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, target, *ctx.options = inputs
    ctx.save_for_backward(logits, target, output[1])


def _backward(ctx: Any, dloss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    logits, target, lse = ctx.saved_tensors
    dx = cross_entropy_backward_op(logits, target, lse, dloss, *ctx.options, None)
    return dx, None, None, None, None


cross_entropy_op.register_autograd(_backward, setup_context=_save)


@operator("cross_entropy_total")
def cross_entropy_total_op(
    logits: Tensor, target: Tensor, ignored: int, smoothing: float, z: float, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(sum or mean of the losses, its derivative by a loss, lse of each row)."""
    target = target.contiguous()
    loss, lse = launch_forward(as_rows(logits), target, ignored, smoothing, z)
    scale = loss.new_empty(())
    if _is_added_by_torch(loss):
        scale = (target != ignored).sum().to(loss.dtype).reciprocal() if mean else scale.fill_(1.0)
        return loss.sum() * scale, scale, lse
    return _add_up(loss, target, scale, ignored, mean), scale, lse


def _total(
    logits: Tensor, target: Tensor, ignored: int, smoothing: float, z: float, mean: bool
) -> Tensor:
    """The sum or mean of the losses."""
    target = target.contiguous()
    loss = torch.empty(logits.shape[0], dtype=loss_dtype(logits), device=logits.device)
    _launch_forward(as_rows(logits), target, loss, None, ignored, smoothing, z)
    if _is_added_by_torch(loss):
        return loss.sum() / (target != ignored).sum() if mean else loss.sum()
    return _add_up(loss, target, None, ignored, mean)


def _is_added_by_torch(loss: Tensor) -> bool:
    return loss.shape[0] > MOST_SUMMED and not loss.is_cpu


def _add_up(loss: Tensor, target: Tensor, scale: Tensor | None, ignored: int, mean: bool) -> Tensor:
    """The sum or mean of the losses; its derivative by a loss is written where there is memory."""
    total = loss.new_empty(())
    with on("cross_entropy", "logits", loss):
        kernels.total_of_losses[(1,)](
            loss, target, total, scale, loss.shape[0], ignored, MEAN=mean, BLOCK=SUMMED, num_warps=8
        )
    return total


@cross_entropy_total_op.register_fake
def _(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    lse = losses(logits)[1]
    return lse.new_empty(()), lse.new_empty(()), lse


def _save_total(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, target, *ctx.options, _ = inputs
    ctx.save_for_backward(logits, target, *output[1:])


def _backward_total(ctx: Any, dloss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    logits, target, scale, lse = ctx.saved_tensors
    dx = cross_entropy_backward_op(logits, target, lse, scale, *ctx.options, dloss)
    return dx, None, None, None, None, None


cross_entropy_total_op.register_autograd(_backward_total, setup_context=_save_total)
cross_entropy_total_op.register_primary(_total)


def check_loss(
    op: str, target: Tensor, rows: int, reference: Tensor, ignored: int, smoothing: float, z: float,
    reduction: str,
) -> None:  # fmt: skip
    """The arguments that plain and fused cross entropy share."""
    check_operand(op, "target", target, (rows,), "the logits", reference, INDICES)
    check_integer(op, "ignore_index", ignored, *WORDS)
    check_number(op, "z_loss", z, "a number")
    check_range(op, "label_smoothing", smoothing, 0, 1 + 1e-12)
    check_choice(op, "reduction", reduction, REDUCTIONS)


@repeated
def cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int = -100, label_smoothing: float = 0.0,
    z_loss: float = 0.0, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Cross entropy of logits (rows, columns) and the right column of each row.

    The loss is float32 (float64 for float64). A target that is neither `ignore_index` nor a column
    gives NaN. `z_loss` times the square of log(sum(exp(x))) is added to each row's loss. "mean" is
    over the rows that are not ignored, and NaN where there is none.
    """
    check_tensor("cross_entropy", "logits", logits)
    check_rank("cross_entropy", "logits", logits, (2,))
    check_loss(
        "cross_entropy", target, logits.shape[0], logits, ignore_index, label_smoothing, z_loss,
        reduction,
    )  # fmt: skip
    if reduction == "none":
        return cross_entropy_op.primary(logits, target, ignore_index, label_smoothing, z_loss)
    mean = reduction == "mean"
    return cross_entropy_total_op.primary(
        logits, target, ignore_index, label_smoothing, z_loss, mean
    )
