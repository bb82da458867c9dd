"""Causal linear attention, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.attention_launch import rows_of, with_unit_stride
from tritium_kernels.dense.kernels import linear_attention as kernels
from tritium_kernels.errors import (
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    check_without_gradient,
    refuse,
)
from tritium_kernels.launch import cdiv, device_class, empty_like, on, power_of_two
from tritium_kernels.operators import autocast, operator

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_CHUNKS = {"cpu": (32, 64), "hopper": (64, 64), "gpu": (64, 32)}
"""Rows of a chunk, and columns of v of a program at most."""


def _launch(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, scale: float, reverse: bool
) -> Tensor:
    batch, heads, length, d = q.shape
    width = v.shape[-1]
    o = torch.empty((batch, heads, length, width), dtype=v.dtype, device=q.device)
    if o.numel() == 0 or d == 0:
        return o.zero_()
    q, k, v = (with_unit_stride(x) for x in (q, k, v))
    chunk, columns = _CHUNKS[device_class(q.device)]
    columns = max(16, min(power_of_two(width), columns))
    with on("linear_attention", "q", q):
        kernels.linear_attention[(batch * heads, cdiv(width, columns))](
            q, k, v, o, decay, *rows_of(q), *rows_of(k), *rows_of(v), *rows_of(o), heads, length,
            scale, D=d, DV=width, DP=max(16, power_of_two(d)), BV=columns, CHUNK=chunk,
            REVERSE=reverse, PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
            num_warps=4,
        )  # fmt: skip
    return o


@operator("linear_attention")
def linear_attention_op(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, scale: float
) -> Tensor:
    return _launch(q, k, v, decay, scale, False)


@operator("linear_attention_backward")
def linear_attention_backward_op(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, decay: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    dq = _launch(do, v, k, decay, scale, False)
    dk = _launch(v, do, q, decay, scale, True)
    return dq, dk, _launch(k, q, do, decay, scale, True)


@linear_attention_op.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, scale: float) -> Tensor:
    return empty_like(v)


@linear_attention_backward_op.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, decay: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (empty_like(x) for x in (q, k, v))
    return dq, dk, dv


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, do: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, decay = ctx.saved_tensors
    return *linear_attention_backward_op(q, k, v, do, decay, ctx.scale), None, None


linear_attention_op.register_autograd(_backward, setup_context=_save)


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """o_t = scale * sum over s <= t of decay**(t - s) * (q_t . k_s) v_s.

    Sums are kept in float32; what a chunk of 64 rows (32 on CPUs) leaves to the next is rounded to
    q's dtype for the product.

    Args:
        q, k: (batch, heads, length, d), d up to 256; float16, bfloat16, float32.
        v: (batch, heads, length, any) of q's dtype.
        decay: float32 (heads,), above 0 and at most 1, without a gradient; None: 1.
        scale: None: d**-0.5.
    """
    op = "linear_attention"
    q, k, v = autocast(q, k, v)
    check_tensor(op, "q", q, _FLOATS)
    check_rank(op, "q", q, (4,))
    check_operand(op, "k", k, q.shape, "q", q)
    check_same_dtype(op, "k", k, "q", q)
    check_tensor(op, "v", v, _FLOATS)
    check_rank(op, "v", v, (4,))
    check_operand(op, "v", v, (*q.shape[:3], v.shape[3]), "q", q)
    check_same_dtype(op, "v", v, "q", q)
    d = q.shape[-1]
    if max(d, v.shape[-1]) > 256:
        raise refuse(op, "q", f"has {d}, v {v.shape[-1]} columns", "256 or fewer")
    if decay is not None:
        check_operand(op, "decay", decay, (q.shape[1],), "q", q, (torch.float32,))
        check_without_gradient(op, decay=decay)
        decay = decay.contiguous()
    return linear_attention_op(q, k, v, decay, max(d, 1) ** -0.5 if scale is None else scale)
