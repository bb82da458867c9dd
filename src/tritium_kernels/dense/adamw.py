"""The optimizers Adam and AdamW, of torch's kind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import is_
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

    _states: list[dict[str, Any]]
    """The states of all parameters after the last step."""
    _states_of: dict[int, tuple[list[Tensor], list[dict[str, Any]]]]
    """Parameters of a group with gradients and their states, by the first one's identity."""

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
        self._states, self._states_of = [], {}
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._states, self._states_of = [], {}
        super().__setstate__(state)

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
        self._forget_replaced_states()
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

    def _forget_replaced_states(self) -> None:
        """Forget the states of parameters if they are others than at the last step."""
        states = [*self.state.values()]
        if not _are_same(states, self._states):
            self._states, self._states_of = states, {}

    def _by_step(self, parameters: list[Tensor]) -> dict[int, _Lists]:
        """Parameters with gradients, their gradients and moments, by the number of this step."""
        gradients: list[Any] = [parameter.grad for parameter in parameters]
        if any(map(is_, gradients, repeat(None))):
            pairs = zip(parameters, gradients, strict=True)
            parameters = [p for p, gradient in pairs if gradient is not None]
            gradients = [gradient for gradient in gradients if gradient is not None]
        states = self._states_for(parameters)
        steps = {int(step) for step in {state["step"] for state in states}}
        if len(steps) == 1:
            return {steps.pop() + 1: _stepped(parameters, gradients, states)}
        found: dict[int, list[int]] = {}
        for i, state in enumerate(states):
            found.setdefault(int(state["step"]) + 1, []).append(i)
        return {
            step: _stepped(
                [parameters[i] for i in places], [gradients[i] for i in places],
                [states[i] for i in places],
            ) for step, places in found.items()
        }  # fmt: skip

    def _states_for(self, parameters: list[Tensor]) -> list[dict[str, Any]]:
        """The states of parameters, from the last step if these are the same: a look at each
        takes torch more time than the rest of a step of small parameters."""
        first = id(parameters[0]) if parameters else 0
        known, states = self._states_of.get(first, ([], []))
        if _are_same(parameters, known) and all(states):
            return states
        states = [self._state_of(parameter) for parameter in parameters]
        self._states_of[first] = [*parameters], states
        self._states = [*self.state.values()]
        return states

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def _are_same(some: list[Any], others: list[Any]) -> bool:
    """True if two lists have the same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _stepped(
    parameters: list[Tensor], gradients: list[Tensor], states: list[dict[str, Any]]
) -> _Lists:
    """Count a step of some parameters of the same step; the lists that it takes."""
    if states:
        step = int(states[0]["step"]) + 1
        for state in states:
            state["step"] = step
    firsts = [state["exp_avg"] for state in states]
    return parameters, gradients, firsts, [state["exp_avg_sq"] for state in states]


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
