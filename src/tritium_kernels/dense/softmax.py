"""Softmax and log-softmax along one dimension, with gradients."""

from __future__ import annotations

from typing import Any

import torch

from tritium_kernels.dense.kernels import softmax as kernels
from tritium_kernels.errors import check_axis, check_tensor
from tritium_kernels.launching.launch import cdiv, empty_like, matrix_of, on
from tritium_kernels.launching.operators import autocast_wide, operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows


@operator("softmax", like=("x",))
def softmax_op(x: torch.Tensor, log: bool) -> torch.Tensor:
    """Softmax, or its logarithm, of the last dimension."""
    y = empty_like(x)
    if y.numel() == 0:
        return y
    source, rows, columns, step = matrix_of(x)
    plan = plan_rows(x.device, rows, columns)
    with on("softmax", "x", x):
        kernels.softmax_forward[(cdiv(rows, plan.rows),)](
            source, y, rows, columns, step, columns,
            LOG=log, WHOLE=plan.whole, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return y


@operator("softmax_backward", like=("y",))
def softmax_backward_op(y: torch.Tensor, dy: torch.Tensor, log: bool) -> torch.Tensor:
    dx = empty_like(y)
    if dx.numel() == 0:
        return dx
    (result, rows, columns, step), (given, _, _, given_step) = matrix_of(y), matrix_of(dy)
    plan = plan_rows(y.device, rows, columns, again=y.element_size())
    with on("softmax", "x", y):
        kernels.softmax_backward[(cdiv(rows, plan.rows),)](
            result, given, dx, rows, columns, step, given_step, columns,
            LOG=log, WHOLE=plan.whole, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return dx


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.log = inputs[1]


def _backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
    (y,) = ctx.saved_tensors
    return softmax_backward_op(y, dy, ctx.log), None


softmax_op.register_autograd(_backward, setup_context=_save)


def _along(op: str, x: torch.Tensor, dim: int, log: bool) -> torch.Tensor:
    x = autocast_wide(x)
    check_tensor(op, "x", x)
    check_axis(op, x, dim)
    if dim == -1 or dim == x.ndim - 1:
        return softmax_op(x, log)
    return softmax_op(x.movedim(dim, -1), log).movedim(-1, dim)


@repeated
def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """exp(x) / sum(exp(x)) along `dim`, computed in float32 (float64 for float64).

    A row of minus infinities gives NaN, as does a row with a NaN or plus infinity.
    """
    return _along("softmax", x, dim, log=False)


@repeated
def log_softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """log(softmax(x)) along `dim`, without the loss of small probabilities."""
    return _along("log_softmax", x, dim, log=True)
