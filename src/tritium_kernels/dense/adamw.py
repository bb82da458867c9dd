"""AdamW: one step on a tensor, and the optimizer of torch's kind."""

from __future__ import annotations

from collections.abc import Callable
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


def adamw_(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int,
    lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, maximize: bool = False,
) -> None:  # fmt: skip
    """One step, in place: the parameter and its moments `first` and `second`.

    `step` counts from 1. Computed in float32 (float64 for a float64 parameter).
    """
    op = "adamw_"
    check_tensor(op, "parameter", parameter)
    for name, value in (("gradient", gradient), ("first", first), ("second", second)):
        check_operand(op, name, value, parameter.shape, "parameter", parameter)
    check_integer(op, "step", step, 1, what="step >= 1, an integer")
    if torch.is_grad_enabled():
        for name, value in (("parameter", parameter), ("first", first), ("second", second)):
            if value.requires_grad:
                accepted = "a call under torch.no_grad(): it is written to in place"
                raise refuse(op, name, "requires grad", accepted)
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
        check_range(op, name, value, 0, float("inf"))
    for value in betas:
        check_range(op, "betas", value, 0, 1)
    adamw_op(
        parameter, gradient, first, second, step, lr, *betas, eps, weight_decay, maximize
    )


class AdamW(torch.optim.Optimizer):
    """`torch.optim.AdamW`, one kernel for each parameter; moments have the parameter's dtype."""

    OPTIONS = ("lr", "betas", "eps", "weight_decay", "maximize")

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, maximize: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            check_range("AdamW", name, value, 0, float("inf"))
        for value in betas:
            check_range("AdamW", "betas", value, 0, 1)
        values = lr, betas, eps, weight_decay, maximize
        defaults: dict[str, Any] = dict(zip(self.OPTIONS, values, strict=True))
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = {name: group[name] for name in self.OPTIONS}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                state["step"] += 1
                adamw_(
                    parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"],
                    int(state["step"]), **options,
                )  # fmt: skip
        return loss
