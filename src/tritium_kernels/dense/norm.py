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
    cdiv,
    device_class,
    empty_like,
    matrix_of,
    on,
    power_of_two,
)
from tritium_kernels.launching.operators import autocast_wide, operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import ROWS, RowPlan, plan_rows

_SMALL = 1 << 15
"""Elements of a gradient that a second program, and the sum of both their parts, would delay."""

PART_TILES = {"cpu": (16, 128, 4), "hopper": (512, 16, 8), "gpu": (256, 16, 8)}
"""Rows (at most), columns and warps of the tiles in which programs' parts of sums are added up: a
GPU has all parts of a column under way at once."""


def statistics_dtype(x: Tensor) -> torch.dtype:
    """The type of means and deviations of x."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _statistics(x: Tensor, center: bool) -> tuple[Tensor, Tensor]:
    """Memory for the means and shifts (`kernels.norm`) of all rows, and for rstd."""
    dtype, device, columns = statistics_dtype(x), x.device, x.shape[-1]
    count = x.numel() // columns if columns else 0
    mean = torch.empty(2 * count if center else 0, dtype=dtype, device=device)
    return mean, torch.empty(count, dtype=dtype, device=device)


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool,
    mean: Tensor | None = None, rstd: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Normalized rows; writes their means and deviations where there is memory for them."""
    y = empty_like(x)
    if y.numel() == 0:
        return y
    source, rows, columns, step = matrix_of(x)
    plan = plan_rows(x.device, rows, columns, again=x.element_size())
    with on("norm", "x", x):
        kernels.norm_forward[(cdiv(rows, plan.rows),)](
            source, _contiguous(weight), _contiguous(bias), y, mean, rstd,
            rows, columns, step, columns, eps,
            MEAN=center, WHOLE=plan.whole, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
            num_warps=plan.warps,
        )  # fmt: skip
    return y


@operator("norm")
def norm_op(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, rstd); `center`: layer norm. RMS norm has no mean: an empty tensor."""
    mean, rstd = _statistics(x, center)
    return _forward(x, weight, bias, eps, center, mean, rstd), mean, rstd


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
    (source, rows, columns, step), (gradient, _, _, gradient_step) = matrix_of(x), matrix_of(dy)
    given = (source, _contiguous(weight), gradient, mean, rstd)
    sizes = (rows, columns, step, gradient_step, columns)
    if is_small and walk is not None:
        sums = (None if weight is None else dw, db if has_bias else None)
        with on("norm", "x", x):
            _backward_walk(given, (dx, *sums), sizes, center, 1, *walk)
        return dx, dw, db
    plan = plan_rows(x.device, rows, columns, sums=x.element_size())
    make, dtype = torch.zeros if walk else torch.empty, statistics_dtype(x)
    gradients = 0 if weight is None else 1 + has_bias
    parts = make((gradients, plan.programs, columns), dtype=dtype, device=x.device)
    found = (dx, *(parts[i] if i < gradients else None for i in range(2)))
    with on("norm", "x", x):
        if walk is not None:
            _backward_walk(given, found, sizes, center, plan.programs, *walk)
        else:
            launch = _backward_whole if plan.whole else _backward_long
            launch(given, found, sizes, center, plan)
        if gradients:
            height, block, warps = PART_TILES[device_class(x.device)]
            kernels.sum_parts[(cdiv(columns, block), gradients)](
                parts, dw, db if has_bias else None, plan.programs, columns,
                ROWS=min(height, power_of_two(plan.programs)), BLOCK=block, num_warps=warps,
            )  # fmt: skip
    return dx, dw, db


_Given = tuple[Tensor | None, ...]
"""x, weight, dy, mean, rstd."""
_Found = tuple[Tensor | None, ...]
"""dx, and memory for sums of dw and db or None."""
_Sizes = tuple[int, int, int, int, int]
"""Rows, columns, elements from row to row of x, dy and dx."""


def _backward_walk(
    given: _Given, found: _Found, sizes: _Sizes, center: bool, programs: int, height: int,
    block: int,
) -> None:  # fmt: skip
    kernels.norm_backward_walk[(programs,)](
        *given, *found, *sizes, MEAN=center, ROWS=height, BLOCK=block,
        EVEN=sizes[0] % height == 0 and sizes[1] % block == 0,
    )  # fmt: skip


def _backward_whole(
    given: _Given, found: _Found, sizes: _Sizes, center: bool, plan: RowPlan
) -> None:
    kernels.norm_backward_whole[(plan.programs,)](
        *given, *found, *sizes, MEAN=center, ROWS=plan.rows, BLOCK=plan.block, EVEN=plan.even,
        STAGES=plan.stages, num_warps=plan.warps,
    )  # fmt: skip


def _backward_long(
    given: _Given, found: _Found, sizes: _Sizes, center: bool, plan: RowPlan
) -> None:
    rows, columns = sizes[:2]
    kernels.norm_backward_rows[(rows,)](
        *given, found[0], *sizes, MEAN=center, ROWS=1, BLOCK=plan.block, EVEN=plan.even,
        num_warps=plan.warps,
    )  # fmt: skip
    if found[1] is not None:
        x, _, dy, mean, rstd = given
        kernels.norm_backward_columns[(plan.programs, cdiv(columns, plan.block))](
            x, dy, mean, rstd, *found[1:], *sizes[:4],
            MEAN=center, ROWS=1, BLOCK=plan.block, EVEN=plan.even, num_warps=plan.warps,
        )  # fmt: skip


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


@norm_op.register_fake
def _(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, center: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_like(x), *_statistics(x, center)


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


def _backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, mean, rstd = ctx.saved_tensors
    dx, dw, db = norm_backward_op(x, weight, dy, mean, rstd, ctx.center, ctx.has_bias)
    return dx, dw if weight is not None else None, db if ctx.has_bias else None, None, None


norm_op.register_autograd(_backward, setup_context=_save)
norm_op.register_primary(_forward)


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


@repeated
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension."""
    x = autocast_wide(x)
    _check("layer_norm", x, weight, bias, eps)
    return norm_op.primary(x, weight, bias, float(eps), True)


@repeated
def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean of squares + eps) * weight over the last dimension."""
    _check("rms_norm", x, weight, None, eps)
    return norm_op.primary(x, weight, None, float(eps), False)
