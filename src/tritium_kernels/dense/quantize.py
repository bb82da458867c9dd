"""Rows as numbers of 8 bits times a factor, and back."""

from __future__ import annotations

import torch
from torch import Tensor

from tritium_kernels.dense.kernels import quantize as kernels
from tritium_kernels.errors import (
    check_choice,
    check_integer,
    check_operand,
    check_tensor,
    check_without_gradient,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, matrix_of, on
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_MOST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
_KINDS = tuple(_MOST)


@operator("quantize")
def quantize_op(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    q = torch.empty(x.shape, dtype=dtype, device=x.device)
    if x.numel() == 0:
        return q, torch.zeros(x.shape[:-1], dtype=torch.float32, device=x.device)
    scale = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    source, rows, columns, step = matrix_of(x)
    plan = plan_rows(x.device, rows, columns)
    with on("quantize", "x", x):
        kernels.quantize_rows[(cdiv(rows, plan.rows),)](
            source, q, scale, rows, columns, step, MOST=_MOST[dtype],
            ROWS=plan.rows, BLOCK=plan.block, num_warps=plan.warps,
        )  # fmt: skip
    return q, scale


@operator("dequantize")
def dequantize_op(q: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    y = torch.empty(q.shape, dtype=dtype, device=q.device)
    if y.numel() == 0:
        return y
    source, rows, columns, step = matrix_of(q)
    plan = plan_rows(q.device, rows, columns)
    with on("dequantize", "q", q):
        kernels.dequantize_rows[(cdiv(rows, plan.rows),)](
            source, scale.contiguous(), y, rows, columns, step, ROWS=plan.rows,
            BLOCK=plan.block, num_warps=plan.warps,
        )  # fmt: skip
    return y


@quantize_op.register_fake
def _(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    scale = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    return torch.empty(x.shape, dtype=dtype, device=x.device), scale


@dequantize_op.register_fake
def _(q: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(q.shape, dtype=dtype, device=q.device)


def _groups(op: str, x: Tensor, group: int | None) -> tuple[int, ...]:
    """The shape of x with groups of columns as rows of their own."""
    if x.ndim == 0:
        raise refuse(op, "x", "has 0 dimensions", "1 or more")
    if group is None:
        return tuple(x.shape)
    accepted = f"None, or a divisor of {x.shape[-1]} columns"
    check_integer(op, "group", group, 1, what=accepted)
    if x.shape[-1] % group:
        raise refuse(op, "group", f"is {group}", accepted)
    return (*x.shape[:-1], x.shape[-1] // group, group)


@repeated
def quantize(
    x: Tensor, dtype: torch.dtype = torch.int8, group: int | None = None
) -> tuple[Tensor, Tensor]:
    """(q, scale) with x = q * scale nearly: one scale for each row, or for `group` columns of it.

    The scale (float32) is the largest magnitude over the largest number of dtype (int8, float8
    e4m3fn and e5m2); numbers are rounded to the nearest, ties to even. Where the scale is NaN or
    infinite, because an element is, or 0, all of q are 0. There is no gradient.
    """
    check_tensor("quantize", "x", x, _FLOATS)
    check_choice("quantize", "dtype", dtype, _KINDS)
    shape = _groups("quantize", x, group)
    check_without_gradient("quantize", x=x)
    x = x.detach() if x.requires_grad else x
    if group is None:
        return quantize_op(x, dtype)
    q, scale = quantize_op(x.reshape(shape), dtype)
    return q.view(x.shape), scale


@repeated
def dequantize(q: Tensor, scale: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """q * scale in `dtype`: scale (float32) has a number for each row of q, or for each of as many
    groups of columns as its last dimension has."""
    check_tensor("dequantize", "q", q, _KINDS)
    check_choice("dequantize", "dtype", dtype, _FLOATS)
    check_tensor("dequantize", "scale", scale, (torch.float32,))
    check_without_gradient("dequantize", q=q, scale=scale)
    groups = scale.shape[-1] if scale.ndim == q.ndim and q.ndim else None
    if groups is not None and (not groups or q.shape[-1] % groups):
        found = f"has {groups} columns"
        raise refuse("dequantize", "scale", found, f"a divisor of {q.shape[-1]}, the columns of q")
    shape = _groups("dequantize", q, None if groups is None else q.shape[-1] // groups)
    check_operand("dequantize", "scale", scale, shape[:-1], "q", q, (torch.float32,))
    if groups is None:
        return dequantize_op(q, scale, dtype)
    return dequantize_op(q.reshape(shape), scale, dtype).view(q.shape)
