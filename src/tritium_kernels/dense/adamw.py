"""The optimizers Adam and AdamW, of torch's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.adamw_step import (
    adam_,
    adam_foreach_,
    adamw_,
    adamw_foreach_,
    check_rates,
)
from tritium_kernels.errors import check_flag

_NOT_BUILT = ("amsgrad", "differentiable")
"""torch's options that these optimizers lack, by their names in groups of parameters."""
_Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]
_DECOUPLED = "decoupled_weight_decay"


class Adam(torch.optim.Optimizer):
    """`torch.optim.Adam`; moments have the parameter's dtype.

    foreach: None or True: one kernel for all parameters of a group of the same dtype and step;
    False: one for each parameter. decoupled_weight_decay: parameters decay as AdamW has it, not by
    their gradients. States of torch's optimizers can be loaded.
    """

    OPTIONS = ("lr", "betas", "eps", "weight_decay", "maximize")

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        op = type(self).__name__
        check_rates(op, lr, betas, eps, weight_decay, maximize)
        check_flag(op, amsgrad=amsgrad, decoupled_weight_decay=decoupled_weight_decay)
        if foreach is not None:
            check_flag(op, foreach=foreach)
        values = lr, betas, eps, weight_decay, maximize
        defaults: dict[str, Any] = dict(zip(self.OPTIONS, values, strict=True))
        defaults |= {"foreach": foreach, "amsgrad": amsgrad}
        defaults[_DECOUPLED] = decoupled_weight_decay
        self._refuse_what_is_not_built(defaults)
        super().__init__(params, defaults)

    def _refuse_what_is_not_built(self, group: dict[str, Any]) -> None:
        for name in _NOT_BUILT:
            if group.get(name):
                raise NotImplementedError(
                    f"{type(self).__name__}: {name} is not built; leave {name}=False, or use "
                    f"torch.optim.{type(self).__name__}"
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._refuse_what_is_not_built(group)
            options = {name: group[name] for name in self.OPTIONS}
            decoupled = group.get(_DECOUPLED, self.defaults[_DECOUPLED])
            one, all_of = (adamw_, adamw_foreach_) if decoupled else (adam_, adam_foreach_)
            for step, (p, g, m, v) in self._by_step(group["params"]).items():
                if group.get("foreach") is False or len(p) == 1:
                    for tensors in zip(p, g, m, v, strict=True):
                        one(*tensors, step, **options)
                else:
                    all_of(p, g, m, v, step, **options)
        return loss

    def _by_step(self, parameters: list[Tensor]) -> dict[int, _Lists]:
        """Parameters with gradients, their gradients and moments, by the number of this step."""
        found: dict[int, _Lists] = {}
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            step = state["step"] = int(state["step"]) + 1
            if step not in found:
                found[step] = [], [], [], []
            p, g, m, v = found[step]
            p.append(parameter)
            g.append(gradient)
            m.append(state["exp_avg"])
            v.append(state["exp_avg_sq"])
        return found


class AdamW(Adam):
    """`torch.optim.AdamW`, as `Adam`; parameters decay by themselves, not by their gradients."""

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False, foreach: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach,
            decoupled_weight_decay=True,
        )  # fmt: skip
