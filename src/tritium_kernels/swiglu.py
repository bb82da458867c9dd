"""SwiGLU of interleaved columns, by itself; `swiglu_fn` is the same inside of a product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tritium_kernels.errors import check_number, check_tensor, refuse
from tritium_kernels.launching.launch import as_rows, cdiv, on
from tritium_kernels.launching.operators import once, untraced
from tritium_kernels.launching.tables import plan_rows
from tritium_kernels.moe_kernels import swiglu as kernels
from tritium_kernels.moe_kernels.swiglu import swiglu_derivative as swiglu_derivative
from tritium_kernels.moe_kernels.swiglu import swiglu_fn as swiglu_fn
from tritium_kernels.numerics import (
    MAX_FINITE,
    UNSCALED,
    UNSCALED_RESULT,
    InFlexData,
    OutFlexData,
    compute_actual_scale,
)
from tritium_kernels.reduce import PostprocessFn, reduce_backward
from tritium_kernels.specialize import FnSpecs

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class FlexCtx:
    """Scales of the result and of a; `saturate_inf`: results are cut off at the largest number."""

    out_data: OutFlexData = UNSCALED_RESULT
    inp_data: InFlexData = UNSCALED
    saturate_inf: bool = False


_NO_FLEX = FlexCtx()


@dataclass(frozen=True)
class PrecisionConfig:
    """The limits and the scales of numbers.

    Attributes:
        limit: the most that the gate, and the linear part in magnitude, can be; None: no limit.
        flex_ctx: flexpoint scales.
    """

    limit: float | None = None
    flex_ctx: FlexCtx = _NO_FLEX


class SwiGLU(torch.autograd.Function):
    """The function with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, alpha: float, precision_config: PrecisionConfig,
        routing_data: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        ctx.save_for_backward(a)
        ctx.options = alpha, precision_config, routing_data
        return _swiglu(a, alpha, precision_config, routing_data)

    @staticmethod
    @once("swiglu")
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (a,) = ctx.saved_tensors
        alpha, config, routing_data = ctx.options
        x, dy = as_rows(a), as_rows(gradients[0])
        specs = FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), (), 2)
        function = PostprocessFn(specs, (alpha, config.limit), swiglu_derivative)
        dx = torch.empty((1, *x.shape), dtype=a.dtype, device=a.device)
        reduce_backward(
            dy, dx.shape, 0, None, None, None, UNSCALED, function, None, None, None, None, dx,
            _rows_used(routing_data), x.float(),
        )  # fmt: skip
        return dx.view(a.shape), None, None, None


def _rows_used(routing_data: Any) -> torch.Tensor | None:
    return None if routing_data is None else routing_data.expt_data.slice_offs[-1:]


def _columns(a: torch.Tensor) -> int:
    check_tensor("swiglu", "a", a, (*_FLOATS, *MAX_FINITE))
    if not a.ndim or a.shape[-1] % 2:
        found = f"has shape {tuple(a.shape)}"
        raise refuse("swiglu", "a", found, "an even number of columns")
    return a.shape[-1] // 2


@untraced
def swiglu(
    a: torch.Tensor, alpha: float, precision_config: PrecisionConfig, routing_data: Any = None
) -> torch.Tensor:
    """gate * sigmoid(alpha * gate) * (linear + 1); gate: columns 0, 2, ..., linear: 1, 3, ...

    `routing_data`: only the rows of its experts are computed, the others are left as they come, and
    have gradients of 0.
    """
    given: dict[str, tuple[Any, type[Any]]] = {
        "a": (a, torch.Tensor), "precision_config": (precision_config, PrecisionConfig)
    }  # fmt: skip
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise refuse("swiglu", name, f"is {type(value).__name__}", kind.__name__)
    if routing_data is not None and not hasattr(routing_data, "expt_data"):
        raise refuse("swiglu", "routing_data", f"is {type(routing_data).__name__}", "RoutingData")
    check_number("swiglu", "alpha", alpha, "a number")
    if precision_config.limit is not None:
        check_number("swiglu", "precision_config.limit", precision_config.limit, "a number, None")
    if torch.is_grad_enabled() and a.requires_grad:
        if precision_config.flex_ctx != _NO_FLEX:
            found = "is given with a gradient wanted"
            raise refuse("swiglu", "flex_ctx", found, "FlexCtx(), or torch.no_grad()")
        return SwiGLU.apply(a, alpha, precision_config, routing_data)
    return _swiglu(a, alpha, precision_config, routing_data)


def _swiglu(
    a: torch.Tensor, alpha: float, precision_config: PrecisionConfig, routing_data: Any
) -> torch.Tensor:
    flex = precision_config.flex_ctx
    a = flex.inp_data.reinterpret(a)
    columns = _columns(a)
    dtype = flex.out_data.dtype or a.dtype
    y = torch.empty((*a.shape[:-1], columns), dtype=dtype, device=a.device)
    if y.numel() == 0:
        return y
    x = as_rows(a)
    plan = plan_rows(a.device, x.shape[0], columns)
    used = _rows_used(routing_data)
    with on("swiglu", "a", a):
        kernels.swiglu[(cdiv(x.shape[0], plan.rows) * cdiv(columns, plan.block),)](
            x, y, x.shape[0], used, columns, x.stride(0), float(alpha), precision_config.limit,
            flex.inp_data.scale, *flex.out_data, SATURATE=flex.saturate_inf, ROWS=plan.rows,
            BLOCK=plan.block, num_warps=plan.warps,
        )  # fmt: skip
    return y


def swiglu_torch(a: torch.Tensor, alpha: float, precision_config: PrecisionConfig) -> torch.Tensor:
    """`swiglu` by torch's functions, for comparison."""
    flex, limit = precision_config.flex_ctx, precision_config.limit
    a = flex.inp_data.reinterpret(a)
    _columns(a)
    numbers = a.float()
    if flex.inp_data.scale is not None:
        numbers = numbers * flex.inp_data.scale
    gate, linear = numbers[..., ::2], numbers[..., 1::2]
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    y = gate * torch.sigmoid(alpha * gate) * (linear + 1)
    dtype = flex.out_data.dtype or a.dtype
    if flex.out_data.actual_scale is not None:
        flex.out_data.actual_scale.copy_(compute_actual_scale(y, dtype))
    if flex.out_data.expected_scale is not None:
        y = y / flex.out_data.expected_scale
    if flex.saturate_inf:
        y = y.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return y.to(dtype)
