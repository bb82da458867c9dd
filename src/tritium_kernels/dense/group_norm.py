"""Group norm, with gradients."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import group_norm as kernels
from tritium_kernels.dense.norm import PART_TILES, statistics_dtype
from tritium_kernels.errors import (
    check_eps,
    check_integer,
    check_operand,
    check_same_dtype,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import (
    cdiv,
    device_class,
    empty_like,
    on,
    power_of_two,
    processors,
)
from tritium_kernels.launching.operators import autocast_wide, operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import RowPlan, plan_rows

_LEAST_POSITIONS = 16
"""The least positions for which a CPU computes channel by channel."""
_PART = 64
"""The positions that it takes at a time where a step does not divide them: the last part is
masked, and lanes without an element take time."""


_WHOLE = {"cpu": 0, "hopper": 1 << 16, "gpu": 1 << 15}
"""Bytes of the largest group that a program holds in registers, by the class of device. A CPU has
caches for that."""


@lru_cache(maxsize=4096)
def _tile(
    device: torch.device, itemsize: int, group: int, positions: int
) -> dict[str, int | bool] | None:
    """The constants of a program that holds a group of `group` channels, with its warps; None: it
    is too large."""
    channels, block = power_of_two(group), power_of_two(positions)
    if channels * block * itemsize > _WHOLE[device_class(device)]:
        return None
    return {
        "CHANNELS": channels, "POSITIONS": block, "EVEN": group * positions == channels * block,
        "num_warps": min(max(channels * block // 1024, 1), 8),
    }  # fmt: skip


def _statistics(x: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Memory for the means and shifts (`kernels.norm`) of all groups, and for rstd."""
    dtype, batch = statistics_dtype(x), x.shape[0]
    mean = torch.empty(2, batch, groups, dtype=dtype, device=x.device)
    return mean, torch.empty(batch, groups, dtype=dtype, device=x.device)


def _forward(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float,
    mean: Tensor | None = None, rstd: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normalized groups; writes their means and deviations where there is memory for them."""
    y = empty_like(x)
    if y.numel() == 0:
        return y
    batch, channels = x.shape[:2]
    size = x.numel() // (batch * groups)
    positions = size * groups // channels
    whole = _tile(x.device, x.element_size(), channels // groups, positions)
    plan = plan_rows(x.device, batch * groups, size)
    given = [None if t is None else t.contiguous() for t in (weight, bias)]
    tensors = (x.contiguous(), *given, y, mean, rstd)
    arguments = (*tensors, groups, size, positions, eps)
    with on("group_norm", "x", x):
        if whole is not None:
            kernels.group_norm_whole[(batch * groups,)](
                *tensors, groups, channels // groups, positions, eps, **whole
            )
        elif device_class(x.device) == "cpu" and positions >= _LEAST_POSITIONS:
            even = positions % plan.step == 0
            part = plan.step if even else min(_PART, power_of_two(positions))
            kernels.group_norm_by_channels[(batch * groups,)](
                *arguments, BLOCK=plan.step, EVEN=size % plan.step == 0, PART=part,
                EVEN_PARTS=positions % part == 0,
            )  # fmt: skip
        else:
            kernels.group_norm_forward[(batch * groups,)](
                *arguments, BLOCK=plan.step, EVEN=positions % plan.step == 0,
                num_warps=plan.warps,
            )  # fmt: skip
    return y


@operator("group_norm")
def group_norm_op(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, rstd)."""
    mean, rstd = _statistics(x, groups)
    return _forward(x, groups, weight, bias, eps, mean, rstd), mean, rstd


def _gradients_by_channels(
    x: Tensor, dy: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, sums: Tensor,
    products: Tensor, dx: Tensor, plan: RowPlan,
) -> None:  # fmt: skip
    """dx, and the sums of all channels, by more programs than there are groups."""
    (batch, channels), groups = x.shape[:2], rstd.shape[1]
    positions, group = x.numel() // (batch * channels), channels // groups
    even = positions % plan.step == 0
    factor, slope, offset = (torch.empty_like(t) for t in (sums, rstd, rstd))
    kernels.channel_sums[(batch * channels,)](
        x, dy, mean, sums, products, group, positions, BLOCK=plan.step, EVEN=even,
        num_warps=plan.warps,
    )  # fmt: skip
    kernels.group_coefficients[(batch * groups,)](
        sums, products, weight, mean, rstd, factor, slope, offset, groups, group, positions,
        BLOCK=power_of_two(group), num_warps=1,
    )  # fmt: skip
    kernels.group_norm_backward[(batch * channels * cdiv(positions, plan.step),)](
        x, dy, mean, factor, slope, offset, dx, group, positions, BLOCK=plan.step, EVEN=even,
        num_warps=plan.warps,
    )  # fmt: skip


@operator("group_norm_backward")
def group_norm_backward_op(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dw, db) in the types of x, weight and bias; of what is not there, empty tensors."""
    dx, dw, db = _gradients(x, weight, bias)
    if dx.numel() == 0:
        return dx, dw.zero_(), db.zero_()
    (batch, channels), groups = x.shape[:2], rstd.shape[1]
    sums, products = (mean.new_empty(batch, channels) for _ in range(2))
    x, dy = x.contiguous(), dy.contiguous()
    weight = None if weight is None else weight.contiguous()
    positions, group = x.numel() // (batch * channels), channels // groups
    whole = _tile(x.device, x.element_size(), group, positions)
    plan = plan_rows(x.device, batch * channels, positions)
    even = positions % plan.step == 0
    with on("group_norm", "x", x):
        if whole is not None:
            kernels.group_gradients_whole[(batch * groups,)](
                x, dy, weight, mean, rstd, sums, products, dx, groups, group, positions, **whole
            )
        elif batch * groups >= processors(x.device):
            kernels.group_gradients[(batch * groups,)](
                x, dy, weight, mean, rstd, sums, products, dx, groups, group, positions,
                BLOCK=plan.step, EVEN=even, STAGES=plan.stages, num_warps=min(16, 2 * plan.warps),
            )  # fmt: skip
        else:
            _gradients_by_channels(x, dy, weight, mean, rstd, sums, products, dx, plan)
        if dw.numel() or db.numel():
            height, block, warps = PART_TILES[device_class(x.device)]
            kernels.channel_gradients[(cdiv(channels, block),)](
                sums, products, mean, rstd, dw if dw.numel() else None,
                db if db.numel() else None, batch, channels, group,
                ROWS=min(height, power_of_two(batch)), BLOCK=block, num_warps=warps,
            )  # fmt: skip
    return dx, dw, db


def _gradients(
    x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Memory for dx, dw and db; of what is not there, empty tensors."""
    dw, db = (x.new_empty(0) if t is None else empty_like(t) for t in (weight, bias))
    return empty_like(x), dw, db


@group_norm_op.register_fake
def _(x: Tensor, groups: int, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return empty_like(x), *_statistics(x, groups)


@group_norm_backward_op.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, *_: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _gradients(x, weight, bias)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, _, weight, bias, _ = inputs
    ctx.save_for_backward(x, weight, bias, *output[1:])


def _backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Any, ...]:
    x, weight, bias, mean, rstd = ctx.saved_tensors
    dx, dw, db = group_norm_backward_op(x, weight, bias, dy, mean, rstd)
    return dx, None, None if weight is None else dw, None if bias is None else db, None


group_norm_op.register_autograd(_backward, setup_context=_save)
group_norm_op.register_primary(_forward)


@repeated
def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias; statistics of each group of channels.

    x: (batch, channels, ...); weight, bias: (channels,); `groups` divides channels.
    """
    op = "group_norm"
    x = autocast_wide(x)
    check_tensor(op, "x", x)
    if x.ndim < 2:
        raise refuse(op, "x", f"has {x.ndim} dimensions", "2 or more")
    accepted = f"a divisor of the {x.shape[1]} channels"
    check_integer(op, "groups", groups, 1, what=accepted)
    if x.shape[1] % groups:
        raise refuse(op, "groups", f"is {groups}", accepted)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            check_operand(op, name, value, x.shape[1:2], "x", x)
    if bias is not None and weight is not None:
        check_same_dtype(op, "bias", bias, "weight", weight)
    check_eps(op, eps)
    return group_norm_op.primary(x, groups, weight, bias, float(eps))
