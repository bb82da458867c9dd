"""One step of AdamW on a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels.adamw import adamw as kernel
from tritium_kernels.errors import check_integer, check_operand, check_range, check_tensor, refuse
from tritium_kernels.launching.launch import cdiv, on
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.tables import plan_flat


def _flat(x: Tensor, like: Tensor) -> Tensor | None:
    """x's memory in the order of `like`, if both are dense and in the same order."""
    dense = torch.ops.aten.is_non_overlapping_and_dense(like)
    if dense and x.stride() == like.stride():
        return x.as_strided((x.numel(),), (1,))
    return None


@operator("adamw_", mutates=("parameter", "first", "second"))
def adamw_op(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, rate: float,
    beta1: float, beta2: float, eps: float, decay: float, maximize: bool,
) -> None:  # fmt: skip
    if parameter.numel() == 0:
        return
    tensors = (parameter, gradient, first, second)
    copies, is_copied = tensors, False
    if not all(t.is_contiguous() for t in tensors):
        flat = [f for f in (_flat(t, parameter) for t in tensors) if f is not None]
        # What has another order of elements is worked on in a copy.
        is_copied = len(flat) < len(tensors)
        copies = [t.contiguous() for t in tensors] if is_copied else flat
    corrections = 1 - beta1**step, (1 - beta2**step) ** 0.5
    n = parameter.numel()
    table, even = plan_flat(parameter.device, n)
    with on("adamw_", "parameter", parameter):
        kernel[(cdiv(n, table.block),)](
            *copies, n, rate, beta1, beta2, eps, rate * decay, *corrections,
            -1.0 if maximize else 1.0, BLOCK=table.block, EVEN=even, num_warps=table.warps,
        )  # fmt: skip
    if is_copied:
        for target, copy in ((parameter, copies[0]), (first, copies[2]), (second, copies[3])):
            target.copy_(copy)


@adamw_op.register_fake
def _(*_: Any) -> None:
    return None


def check_operands(
    op: str, name: str, parameter: Tensor, others: Mapping[str, Tensor]
) -> None:
    """A parameter, and its gradient and moments, in this order, by their names."""
    check_tensor(op, name, parameter)
    for other, value in others.items():
        check_operand(op, other, value, parameter.shape, name, parameter)
    if torch.is_grad_enabled():
        _, *moments = others.items()
        for written, value in ((name, parameter), *moments):
            if value.requires_grad:
                accepted = "a call under torch.no_grad(): it is written to in place"
                raise refuse(op, written, "requires grad", accepted)


def check_options(
    op: str, step: int, lr: float, betas: tuple[float, float], eps: float, weight_decay: float
) -> None:
    check_integer(op, "step", step, 1, what="step >= 1, an integer")
    check_rates(op, lr, betas, eps, weight_decay)


def check_rates(
    op: str, lr: float, betas: tuple[float, float], eps: float, weight_decay: float
) -> None:
    """The numbers that stay the same from step to step."""
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
        check_range(op, name, value, 0, float("inf"))
    for value in betas:
        check_range(op, "betas", value, 0, 1)


def adamw_(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int,
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, maximize: bool = False,
) -> None:  # fmt: skip
    """One step, in place: the parameter and its moments `first` and `second`.

    `step` counts from 1. Computed in float32 (float64 for a float64 parameter).
    """
    gradients = {"gradient": gradient, "first": first, "second": second}
    check_operands("adamw_", "parameter", parameter, gradients)
    check_options("adamw_", step, lr, betas, eps, weight_decay)
    adamw_op(
        parameter, gradient, first, second, step, lr, *betas, eps, weight_decay, maximize
    )
