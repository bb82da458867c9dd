"""Rotary position embedding, with its gradient: the rotation back."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tritium_kernels.dense.kernels.rope import rope as kernel
from tritium_kernels.errors import (
    check_flag,
    check_like,
    check_rank,
    check_same_dtype,
    check_shape,
    check_tensor,
    check_without_gradient,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, empty_like, on, power_of_two
from tritium_kernels.launching.operators import operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_rows


def _strided(x: Tensor) -> tuple[Tensor | int, ...]:
    """x with adjacent columns, and its other strides; the batches of two dimensions are one."""
    strides = x.stride()
    if strides[-1] != 1:
        x = x.contiguous()
        strides = x.stride()
    return (x, 0, strides[0]) if len(strides) == 2 else (x, *strides[:-1])


@operator("rope", like=("x",))
def rope_op(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, back: bool) -> Tensor:
    """x: (batch, heads, length, d); cos, sin: (length, half) or (batch, length, half)."""
    y = empty_like(x)
    if y.numel() == 0:
        return y
    source, turns = _strided(x), (_strided(cos), _strided(sin))
    (batch, heads, length, d), half = x.shape, cos.shape[-1]
    rest = d - 2 * half
    plan = plan_rows(x.device, length, d)
    with on("rope", "x", x):
        kernel[(batch * heads * cdiv(length, plan.rows),)](
            source[0], turns[0][0], turns[1][0], y, heads, length, half, d, *source[1:],
            heads * length * d, length * d, d, *turns[0][1:], *turns[1][1:], -1.0 if back else 1.0,
            INTERLEAVED=interleaved, REST=power_of_two(rest) if rest else 0, ROWS=plan.rows,
            HALF=power_of_two(half), num_warps=4,
        )  # fmt: skip
    return y


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, ctx.interleaved, ctx.back = inputs
    ctx.save_for_backward(cos, sin)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None, None, None]:
    cos, sin = ctx.saved_tensors
    return rope_op(dy, cos, sin, ctx.interleaved, not ctx.back), None, None, None, None


rope_op.register_autograd(_backward, setup_context=_save)


@repeated
def rope(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Rotate pairs of elements of x by the angle of their position.

    Args:
        x: (batch, heads, length, d).
        cos, sin: (length, half) or (batch, length, half) with 2 * half <= d: pairs are the first
            2 * half elements, the others stay as they are. They get no gradient.
        interleaved: pairs are (0, 1), (2, 3), ...; otherwise element j and element half + j.
    """
    check_tensor("rope", "x", x)
    check_rank("rope", "x", x, (4,))
    check_flag("rope", interleaved=interleaved)
    check_tensor("rope", "cos", cos)
    check_rank("rope", "cos", cos, (2, 3))
    check_like("rope", "cos", cos, "x", x)
    half = cos.shape[-1]
    leading = (x.shape[2],) if cos.ndim == 2 else (x.shape[0], x.shape[2])
    check_shape("rope", "cos", cos, (*leading, half))
    if not 0 < 2 * half <= x.shape[-1]:
        raise refuse("rope", "cos", f"has {half} columns", f"1 to {x.shape[-1] // 2}, half of d")
    check_tensor("rope", "sin", sin)
    check_shape("rope", "sin", sin, cos.shape)
    check_like("rope", "sin", sin, "x", x)
    check_same_dtype("rope", "sin", sin, "cos", cos)
    check_without_gradient("rope", cos=cos, sin=sin)
    cos, sin = (t.detach() if t.requires_grad else t for t in (cos, sin))
    return rope_op(x, cos, sin, interleaved, False)
