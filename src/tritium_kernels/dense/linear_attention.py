"""Causal linear attention, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.attention_launch import rows_of, with_unit_stride
from tritium_kernels.dense.kernels import linear_attention as kernels
from tritium_kernels.errors import (
    check_number,
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    check_without_gradient,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, device_class, on, power_of_two
from tritium_kernels.launching.operators import autocast, operator

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_CHUNKS = {"cpu": (32, 64), "hopper": (64, 64), "gpu": (64, 32)}
"""Rows of a chunk, and columns of v of a program at most."""
_COPIED_AHEAD = {"hopper": 512, "gpu": 128}
"""The most bytes of a row of q of which the next chunk is copied to shared memory ahead, which has
no room for more."""


def _settings(q: Tensor, width: int) -> dict[str, Any]:
    """The constants of a launch that depend on the device and q's type."""
    device = device_class(q.device)
    chunk, columns = _CHUNKS[device]
    ahead = q.shape[-1] * q.element_size() <= _COPIED_AHEAD.get(device, 0)
    return {
        "DP": max(16, power_of_two(q.shape[-1])), "CHUNK": chunk,
        "BV": max(16, min(power_of_two(width), columns)),
        "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32",
        "num_warps": 4, "num_stages": 2 if ahead else 1,
    }  # fmt: skip


def launch(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, scale: float, reverse: bool
) -> Tensor:
    batch, heads, length, d = q.shape
    width = v.shape[-1]
    o = torch.empty((batch, heads, length, width), dtype=v.dtype, device=q.device)
    if o.numel() == 0 or d == 0:
        return o.zero_()
    q, k, v = (with_unit_stride(x) for x in (q, k, v))
    settings = _settings(q, width)
    columns = settings["BV"]
    with on("linear_attention", "q", q):
        kernels.linear_attention[(batch * heads, cdiv(width, columns))](
            q, k, v, o, decay, *rows_of(q), *rows_of(k), *rows_of(v), *rows_of(o), heads, length,
            scale, D=d, DV=width, REVERSE=reverse, **settings,
        )  # fmt: skip
    return o


def launch_gradients(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, decay: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Launch all gradients at once: q has as many columns as v."""
    batch, heads, length, d = q.shape
    dq, dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(3))
    if dq.numel() == 0:
        return dq, dk, dv
    q, k, v, do = (with_unit_stride(x) for x in (q, k, v, do))
    settings = _settings(q, d)
    with on("linear_attention", "q", q):
        kernels.linear_attention_gradients[(batch * heads, cdiv(d, settings["BV"]), 3)](
            q, k, v, do, dq, dk, dv, decay, *rows_of(q), *rows_of(k), *rows_of(v), *rows_of(do),
            *rows_of(dq), heads, length, scale, D=d, **settings,
        )  # fmt: skip
    return dq, dk, dv


@operator("linear_attention", like=("v",))
def linear_attention_op(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor | None, scale: float
) -> Tensor:
    return launch(q, k, v, decay, scale, False)


@operator("linear_attention_backward", like=("q", "k", "v"))
def linear_attention_backward_op(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, decay: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    # One after the other, each kernel would leave most of a GPU idle.
    if v.shape[-1] == q.shape[-1] and q.device.type != "cpu":
        return launch_gradients(q, k, v, do, decay, scale)
    dq = launch(do, v, k, decay, scale, False)
    dk = launch(v, do, q, decay, scale, True)
    return dq, dk, launch(k, q, do, decay, scale, True)


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
    if scale is not None:
        check_number(op, "scale", scale, "a number, or None")
    factor = max(d, 1) ** -0.5 if scale is None else float(scale)
    return linear_attention_op(q, k, v, decay, factor)
