"""SwiGLU of interleaved columns, by itself; `swiglu_fn` is the same inside of a product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tritium_kernels.errors import check_tensor, refuse
from tritium_kernels.launch import as_rows, cdiv, on
from tritium_kernels.moe_kernels import swiglu as kernels
from tritium_kernels.moe_kernels.swiglu import swiglu_fn as swiglu_fn
from tritium_kernels.tables import plan_rows

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class PrecisionConfig:
    """`limit`: the most that the gate, and the linear part in magnitude, can be; None: no limit."""

    limit: float | None = None


class SwiGLU(torch.autograd.Function):
    """The function without a gradient, as an autograd function."""

    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, alpha: float, precision_config: PrecisionConfig,
        routing_data: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        return swiglu(a.detach(), alpha, precision_config, routing_data)


def _columns(a: torch.Tensor) -> int:
    check_tensor("swiglu", "a", a, _FLOATS)
    if not a.ndim or a.shape[-1] % 2:
        found = f"has shape {tuple(a.shape)}"
        raise refuse("swiglu", "a", found, "an even number of columns")
    return a.shape[-1] // 2


def swiglu(
    a: torch.Tensor, alpha: float, precision_config: PrecisionConfig, routing_data: Any = None
) -> torch.Tensor:
    """gate * sigmoid(alpha * gate) * (linear + 1); gate: columns 0, 2, ..., linear: 1, 3, ...

    `routing_data`: only the rows of its experts are computed, the others are left as they come.
    """
    columns = _columns(a)
    y = torch.empty((*a.shape[:-1], columns), dtype=a.dtype, device=a.device)
    if y.numel() == 0:
        return y
    x = as_rows(a)
    plan = plan_rows(a.device, x.shape[0], columns)
    used = None if routing_data is None else routing_data.expt_data.slice_offs[-1:]
    with on("swiglu", "a", a):
        kernels.swiglu[(cdiv(x.shape[0], plan.rows) * cdiv(columns, plan.block),)](
            x, y, x.shape[0], used, columns, x.stride(0), alpha, precision_config.limit,
            ROWS=plan.rows, BLOCK=plan.block, num_warps=plan.warps,
        )  # fmt: skip
    return y


def swiglu_torch(
    a: torch.Tensor, alpha: float, precision_config: PrecisionConfig
) -> torch.Tensor:
    """`swiglu` by torch's functions, for comparison."""
    _columns(a)
    limit = precision_config.limit
    gate, linear = a[..., ::2].float(), a[..., 1::2].float()
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return (gate * torch.sigmoid(alpha * gate) * (linear + 1)).to(a.dtype)
