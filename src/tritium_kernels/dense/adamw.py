"""The optimizer AdamW, of torch's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.adamw_step import adamw_, adamw_foreach_, check_rates
from tritium_kernels.errors import check_flag


class AdamW(torch.optim.Optimizer):
    """`torch.optim.AdamW`; moments have the parameter's dtype.

    foreach: None or True: one kernel for all parameters of a group of the same dtype and step;
    False: one for each parameter.
    """

    OPTIONS = ("lr", "betas", "eps", "weight_decay", "maximize")

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, maximize: bool = False,
        foreach: bool | None = None,
    ) -> None:  # fmt: skip
        check_rates("AdamW", lr, betas, eps, weight_decay, maximize)
        if foreach is not None:
            check_flag("AdamW", foreach=foreach)
        values = lr, betas, eps, weight_decay, maximize
        defaults: dict[str, Any] = dict(zip(self.OPTIONS, values, strict=True))
        super().__init__(params, {**defaults, "foreach": foreach})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = {name: group[name] for name in self.OPTIONS}
            together: dict[int, list[tuple[Tensor, ...]]] = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                state["step"] += 1
                tensors = parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"]
                together.setdefault(int(state["step"]), []).append(tensors)
            for step, many in together.items():
                if group.get("foreach") is False or len(many) == 1:
                    for p, g, m, v in many:
                        adamw_(p, g, m, v, step, **options)
                else:
                    p, g, m, v = zip(*many, strict=True)
                    adamw_foreach_(p, g, m, v, step, **options)
        return loss
