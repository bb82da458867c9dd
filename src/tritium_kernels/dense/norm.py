"""Layer norm and RMS norm over the last dimension, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import norm as kernels
from tritium_kernels.errors import (
    check_eps,
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import (
    as_rows,
    cdiv,
    device_class,
    empty_like,
    on,
    power_of_two,
)
from tritium_kernels.launching.operators import autocast_wide, operator
from tritium_kernels.launching.tables import ROWS, RowPlan, plan_rows

_SMALL = 1 << 15
"""Elements of a gradient that a second program, and the sum of both their parts, would delay."""

_PART_TILES = {"cpu": (16, 128, 4), "hopper": (512, 16, 8), "gpu": (256, 16, 8)}
"""Rows (at most), columns and warps of the tiles in which programs' parts of sums are added up: a
GPU has all parts of a column under way at once."""


def statistics_dtype(x: Tensor) -> torch.dtype:
    """The type of means and deviations of x."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _statistics(x: Tensor, count: int) -> Tensor:
    """Memory for a number of each row."""
    return x.new_empty(count, dtype=statistics_dtype(x))


@operator("norm")
def norm_op(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, rstd); `center`: layer norm. RMS norm has no mean: an empty tensor."""
    y = empty_like(x)
    count = x.numel() // x.shape[-1] if x.shape[-1] else 0
    mean, rstd = _statistics(x, count if center else 0), _statistics(x, count)
    if y.numel() == 0:
        return y, mean, rstd
    source, target = as_rows(x), as_rows(y)
    rows, columns = source.shape
    plan = plan_rows(x.device, rows, columns, again=x.element_size())
    with on("norm", "x", x):
        kernels.norm_forward[(cdiv(rows, plan.rows),)](
            source, _contiguous(weight), _contiguous(bias), target, mean, rstd,
            rows, columns, source.stride(0), target.stride(0), eps,
            MEAN=center, WHOLE=plan.whole, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return y, mean, rstd


@operator("norm_backward")
def norm_backward_op(
    x: Tensor, weight: Tensor | None, dy: Tensor, mean: Tensor, rstd: Tensor,
    center: bool, has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(dx, dw, db); of what is not there, empty tensors."""
    dx = empty_like(x)
    n = x.shape[-1]
    reference = x if weight is None else weight
    walk = ROWS[device_class(x.device)].walk
    # One program adds small problems up where the sums belong.
    is_small = (
        walk is not None and dx.numel() <= _SMALL and reference.dtype == statistics_dtype(x)
    )  # fmt: skip
    new = reference.new_zeros if is_small or dx.numel() == 0 else reference.new_empty
    dw, db = new(n if weight is not None else 0), new(n if has_bias else 0)
    if dx.numel() == 0:
        return dx, dw, db
    source, given, target = as_rows(x), as_rows(dy), as_rows(dx)
    if is_small and walk is not None:
        saved = (source, _contiguous(weight), given, mean, rstd)
        sums = (None if weight is None else dw, db if has_bias else None)
        with on("norm", "x", x):
            _backward_walk(saved, target, *sums, center, 1, *walk)
        return dx, dw, db
    rows, columns = source.shape
    plan = plan_rows(x.device, rows, columns, sums=True)
    make, dtype = torch.zeros if walk else torch.empty, statistics_dtype(x)
    gradients = 0 if weight is None else 1 + has_bias
    parts = make((gradients, plan.programs, columns), dtype=dtype, device=x.device)
    parts_w, parts_b = (parts[i] if i < gradients else None for i in range(2))
    saved = (source, _contiguous(weight), given, mean, rstd)
    with on("norm", "x", x):
        if walk is not None:
            _backward_walk(saved, target, parts_w, parts_b, center, plan.programs, *walk)
        else:
            launch = _backward_whole if plan.whole else _backward_long
            launch(saved, target, parts_w, parts_b, center, plan)
        if gradients:
            height, block, warps = _PART_TILES[device_class(x.device)]
            kernels.sum_parts[(cdiv(columns, block), gradients)](
                parts, dw, db if has_bias else None, plan.programs, columns,
                ROWS=min(height, power_of_two(plan.programs)), BLOCK=block, num_warps=warps,
            )  # fmt: skip
    return dx, dw, db


def _backward_walk(
    saved: tuple[Tensor | None, ...], dx: Tensor, dw: Tensor | None, db: Tensor | None,
    center: bool, programs: int, height: int, block: int,
) -> None:  # fmt: skip
    x, weight, dy, mean, rstd = saved
    assert x is not None and dy is not None
    rows, columns = x.shape
    kernels.norm_backward_walk[(programs,)](
        x, weight, dy, mean, rstd, dx, dw, db, rows, columns, x.stride(0), dy.stride(0),
        dx.stride(0), MEAN=center, ROWS=height, BLOCK=block,
        EVEN=rows % height == 0 and columns % block == 0,
    )  # fmt: skip


def _backward_whole(
    saved: tuple[Tensor | None, ...], dx: Tensor, dw: Tensor | None, db: Tensor | None,
    center: bool, plan: RowPlan,
) -> None:  # fmt: skip
    x, weight, dy, mean, rstd = saved
    assert x is not None and dy is not None
    kernels.norm_backward_whole[(plan.programs,)](
        x, weight, dy, mean, rstd, dx, dw, db, *x.shape, x.stride(0), dy.stride(0), dx.stride(0),
        MEAN=center, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even, STAGES=plan.stages,
        num_warps=plan.warps,
    )  # fmt: skip


def _backward_long(
    saved: tuple[Tensor | None, ...], dx: Tensor, dw: Tensor | None, db: Tensor | None,
    center: bool, plan: RowPlan,
) -> None:  # fmt: skip
    x, weight, dy, mean, rstd = saved
    assert x is not None and dy is not None
    rows, columns = x.shape
    kernels.norm_backward_rows[(rows,)](
        x, weight, dy, mean, rstd, dx, rows, columns, x.stride(0), dy.stride(0), dx.stride(0),
        MEAN=center, ROWS=1, BLOCK=plan.block, EVEN=plan.even, num_warps=plan.warps,
    )  # fmt: skip
    if dw is not None:
        kernels.norm_backward_columns[(plan.programs, cdiv(columns, plan.block))](
            x, dy, mean, rstd, dw, db, rows, columns, x.stride(0), dy.stride(0),
            MEAN=center, ROWS=1, BLOCK=plan.block, EVEN=plan.even, num_warps=plan.warps,
        )  # fmt: skip


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


@norm_op.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor, Tensor]:
    count = x.numel() // x.shape[-1] if x.shape[-1] else 0
    mean, rstd = _statistics(x, count if center else 0), _statistics(x, count)
    return empty_like(x), mean, rstd


@norm_backward_op.register_fake
def _(
    x: Tensor, weight: Tensor | None, dy: Tensor, mean: Tensor, rstd: Tensor,
    center: bool, has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    n = x.shape[-1]
    dx = empty_like(x)
    reference = x if weight is None else weight
    dw = reference.new_empty(n if weight is not None else 0)
    return dx, dw, reference.new_empty(n if has_bias else 0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias, _, ctx.center = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight, *output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, mean, rstd = ctx.saved_tensors
    dx, dw, db = norm_backward_op(x, weight, dy, mean, rstd, ctx.center, ctx.has_bias)
    return dx, dw if weight is not None else None, db if ctx.has_bias else None, None, None


norm_op.register_autograd(_backward, setup_context=_save)


def _check(op: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> None:
    check_tensor(op, "x", x)
    if x.ndim == 0:
        check_rank(op, "x", x, (1, 2))
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            check_operand(op, name, value, x.shape[-1:], "x", x)
    if bias is not None:
        if weight is None:
            raise refuse(op, "bias", "is given without weight", "bias with weight, or none")
        check_same_dtype(op, "bias", bias, "weight", weight)
    check_eps(op, eps)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension."""
    x = autocast_wide(x)
    _check("layer_norm", x, weight, bias, eps)
    return norm_op(x, weight, bias, float(eps), True)[0]


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean of squares + eps) * weight over the last dimension."""
    _check("rms_norm", x, weight, None, eps)
    return norm_op(x, weight, None, float(eps), False)[0]
