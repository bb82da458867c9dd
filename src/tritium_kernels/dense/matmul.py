"""Matrix products with bias, activation, residual and scales, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium_kernels.dense.kernels.activation import ACTIVATIONS, activation_backward
from tritium_kernels.dense.matmul_launch import Sizes, Strides, launch, launch_plain
from tritium_kernels.errors import (
    FLOATS,
    check_choice,
    check_like,
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, constant, empty_like, on
from tritium_kernels.launching.operators import autocast, operator
from tritium_kernels.launching.plans import repeated
from tritium_kernels.launching.tables import plan_flat

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
RESULTS = (*FLOATS, *FP8)
OPERANDS = (*FLOATS, torch.int8, *FP8)
_ACTIVATIONS = (None, *ACTIVATIONS)
PRECISIONS = ("ieee", "tf32", "tf32x3")


def _batches(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Shape to which the leading dimensions of a and b broadcast."""
    left, right = a.shape[:-2], b.shape[:-2]
    if left == right or not right:  # torch's function takes 20 us
        return left
    return right if not left else torch.broadcast_shapes(left, right)


def _batched(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """x as (product of `batch`, rows, columns); one matrix for all batches is repeated by a stride
    of 0, not copied."""
    if len(batch) + 2 == x.ndim == 3 and x.shape[0] == batch[0]:
        return x
    if not batch:
        return x.unsqueeze(0)
    if x.ndim == 2 or all(s == 1 for s in x.shape[:-2]):
        count = 1
        for size in batch:
            count *= size
        return x.reshape(x.shape[-2:]).expand(count, *x.shape[-2:])
    return x.expand(*batch, *x.shape[-2:]).flatten(0, -3)


def _folded(
    a: Tensor, b: Tensor, residual: Tensor | None, a_scale: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """a, residual and a_scale with all batches as rows of one matrix, where b is the same for all
    of them and nothing is copied for it; else as they are."""
    if b.ndim != 2 or a.ndim == 2 or (a_scale is not None and a_scale.stride(0)):
        return a, residual, a_scale
    try:
        matrix = a.view(-1, a.shape[-1])
        added = None if residual is None else residual.view(-1, b.shape[-1])
    except RuntimeError:
        return a, residual, a_scale
    return matrix, added, None if a_scale is None else a_scale[:1].expand(matrix.shape[0])


def _result_dtype(a: Tensor, out_dtype: torch.dtype | None, scaled: bool) -> torch.dtype:
    if out_dtype is not None:
        accepted = (torch.int32, torch.int64, *FLOATS) if a.dtype == torch.int8 else RESULTS
        if out_dtype not in accepted:
            names = ", ".join(map(str, accepted))
            raise refuse("matmul", "out_dtype", f"is {out_dtype}", f"{names}, for {a.dtype}")
        return out_dtype
    if a.dtype == torch.int8:
        return torch.float32 if scaled else torch.int32
    return torch.float16 if a.dtype in FP8 else a.dtype


_Plain = tuple[Sizes, Strides, Strides]
"""(batch, m, n, k), and the strides of a and b."""


def _plain(a: Tensor, b: Tensor, residual: Tensor | None) -> _Plain | None:
    """The sizes and strides of a product that needs no views: of two matrices, of as many by as
    many, of rows in any number of dimensions by one matrix; None of others."""
    if residual is not None and not residual.is_contiguous():
        return None
    rank, (*leading, m, k), n = a.ndim, a.shape, b.shape[-1]
    if b.ndim == 2:
        down = b.stride()
        if rank == 2:
            return (1, m, n, k), (0, *a.stride()), (0, *down)
        if k and a.is_contiguous():
            return (1, a.numel() // k, n, k), (0, k, 1), (0, *down)
    elif rank == 3 == b.ndim and leading[0] == b.shape[0]:
        return (leading[0], m, n, k), a.stride(), b.stride()
    return None


def _compute(
    a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, a_scale: Tensor | None,
    b_scale: Tensor | None, activation: str | None, out_dtype: torch.dtype, precision: str,
    keep_inner: bool, inner: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The result; what the activation was applied to is written where there is memory for it."""
    shape = (*_batches(a, b), a.shape[-2], b.shape[-1])
    y = torch.empty(*shape, dtype=out_dtype, device=a.device)
    if y.numel() == 0:
        return y
    if a_scale is None and b_scale is None:
        plain = _plain(a, b, residual)
        extra = (bias, None, None, residual, inner)
        if plain is not None and launch_plain(a, b, y, extra, *plain, activation, precision):
            return y
    a, residual, a_scale = _folded(a, b, residual, a_scale)
    batch = _batches(a, b)
    x, w = _batched(a, batch), _batched(b, batch)
    flat = (x.shape[0], x.shape[1], shape[-1])
    launch(
        x, w, y.view(flat), bias, a_scale, b_scale,
        None if residual is None else _batched(residual, batch),
        None if inner is None else inner.view(flat), activation, precision,
    )  # fmt: skip
    return y


@operator("matmul")
def matmul_op(
    a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, a_scale: Tensor | None,
    b_scale: Tensor | None, activation: str | None, out_dtype: torch.dtype, precision: str,
    keep_inner: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(y, what the activation was applied to), the latter empty unless it is to be kept."""
    shape = (*_batches(a, b), a.shape[-2], b.shape[-1]) if keep_inner else (0,)
    inner = torch.empty(*shape, dtype=out_dtype, device=a.device)
    y = _compute(
        a, b, bias, residual, a_scale, b_scale, activation, out_dtype, precision, keep_inner,
        inner if keep_inner else None,
    )  # fmt: skip
    return y, inner


@matmul_op.register_fake
def _(
    a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, a_scale: Tensor | None,
    b_scale: Tensor | None, activation: str | None, out_dtype: torch.dtype, precision: str,
    keep_inner: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    batch = _batches(a, b)
    shape = (*batch, a.shape[-2], b.shape[-1])
    y = torch.empty(shape, dtype=out_dtype, device=a.device)
    return y, torch.empty(shape if keep_inner else 0, dtype=out_dtype, device=a.device)


@operator("activation_backward", like=("x",))
def activation_backward_op(x: Tensor, dy: Tensor, activation: str) -> Tensor:
    dx = empty_like(x)
    if dx.numel() == 0:
        return dx
    n = x.numel()
    table, even = plan_flat(x.device, n)
    with on("matmul", "a", x):
        activation_backward[(cdiv(n, table.block),)](
            x.contiguous(), dy.contiguous(), dx, n,
            KIND=constant(activation), BLOCK=table.block, EVEN=even, num_warps=table.warps,
        )  # fmt: skip
    return dx


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, bias, residual, _, _, ctx.activation, _, ctx.precision, _ = inputs
    ctx.bias, ctx.residual = (None if t is None else (t.dtype, t.shape) for t in (bias, residual))
    ctx.save_for_backward(a, b, output[1])


def _product(a: Tensor, b: Tensor, like: Tensor, precision: str) -> Tensor:
    """a @ b, summed over the batches along which `like` was broadcast."""
    y = matmul_op.primary(a, b, None, None, None, None, None, like.dtype, precision, False)
    return y if y.shape == like.shape else y.sum_to_size(like.shape)


def _backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Any, ...]:
    a, b, inner = ctx.saved_tensors
    dresidual = dbias = da = db = None
    if ctx.residual is not None and ctx.needs_input_grad[3]:
        dtype, shape = ctx.residual
        dresidual = dy.to(dtype).sum_to_size(shape)
    if ctx.activation is not None:
        dy = activation_backward_op(inner, dy, ctx.activation)
    if ctx.bias is not None and ctx.needs_input_grad[2]:
        accurate = torch.promote_types(dy.dtype, torch.float32)
        dbias = dy.flatten(0, -2).sum(0, dtype=accurate).to(ctx.bias[0])
    dy = dy.to(a.dtype)
    if ctx.needs_input_grad[0]:
        da = _product(dy, b.mT, a, ctx.precision)
    if ctx.needs_input_grad[1]:
        if b.ndim == 2 and a.ndim > 2:  # one weight for all batches: one product
            db = _product(a.flatten(0, -2).mT, dy.flatten(0, -2), b, ctx.precision)
        else:
            db = _product(a.mT, dy, b, ctx.precision)
    return da, db, dbias, dresidual, None, None, None, None, None, None


matmul_op.register_autograd(_backward, setup_context=_save)
matmul_op.register_primary(_compute)


def _check_scale(name: str, scale: Tensor | None, size: int, a: Tensor) -> Tensor | None:
    """A scale for each row or column, from one for all or for each."""
    if scale is None:
        return None
    check_tensor("matmul", name, scale, (torch.float32,))
    check_like("matmul", name, scale, "a", a)
    if scale.numel() != 1 and tuple(scale.shape) != (size,):
        raise refuse("matmul", name, f"has shape {tuple(scale.shape)}", f"(), (1,) or ({size},)")
    return scale.reshape(-1).expand(size)


def _check(a: Tensor, b: Tensor, activation: str | None, precision: str) -> tuple[int, ...]:
    check_tensor("matmul", "a", a, OPERANDS)
    check_tensor("matmul", "b", b, OPERANDS)
    if not (a.dtype in FP8 and b.dtype in FP8):
        check_same_dtype("matmul", "b", b, "a", a)
    check_like("matmul", "b", b, "a", a)
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 2:
            check_rank("matmul", name, x, (2, 3))
    if b.shape[-2] != a.shape[-1]:
        found = f"has {b.shape[-2]} rows"
        raise refuse("matmul", "b", found, f"{a.shape[-1]}, the columns of a")
    check_choice("matmul", "activation", activation, _ACTIVATIONS)
    check_choice("matmul", "precision", precision, PRECISIONS)
    try:
        return _batches(a, b)
    except RuntimeError:
        found = f"has batches {tuple(b.shape[:-2])}"
        accepted = f"those that broadcast with a's, {tuple(a.shape[:-2])}"
        raise refuse("matmul", "b", found, accepted) from None


@repeated
def matmul(
    a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str | None = None,
    residual: Tensor | None = None, a_scale: Tensor | None = None, b_scale: Tensor | None = None,
    out_dtype: torch.dtype | None = None, precision: str = "ieee",
) -> Tensor:  # fmt: skip
    """activation(a @ b * a_scale * b_scale + bias) + residual.

    Args:
        a, b: (..., m, k) and (..., k, n), whose leading dimensions broadcast; any strides.
        bias: (n,).  residual: broadcasts to the result.
        activation: None or one of `ACTIVATIONS`.
        a_scale, b_scale: float32, one for all, or one for each row of a or column of b; for int8
            and fp8, which have no gradients.
        out_dtype: of the result; a's if not given, int32 for int8 (float32 with scales), float16
            for fp8.
        precision: of float32 products: "ieee" (all bits), "tf32", "tf32x3".

    Sums are kept in float32 (int32 for int8, float64 for float64).
    """
    a, b, bias = autocast(a, b, bias)
    batch = _check(a, b, activation, precision)
    m, n = a.shape[-2], b.shape[-1]
    scales = _check_scale("a_scale", a_scale, m, a), _check_scale("b_scale", b_scale, n, a)
    scaled = scales != (None, None)
    differentiable = a.dtype in FLOATS
    if scaled and differentiable:
        name = "a_scale" if a_scale is not None else "b_scale"
        raise refuse("matmul", name, f"is given for {a.dtype}", "none, except for int8 and fp8")
    dtype = _result_dtype(a, out_dtype, scaled)
    if not dtype.is_floating_point and (scaled or bias is not None or activation is not None):
        raise refuse("matmul", "out_dtype", f"is {dtype} with an epilogue", "a floating-point type")
    if bias is not None:
        check_operand("matmul", "bias", bias, (n,), "a", a)
    if residual is not None:
        check_tensor("matmul", "residual", residual)
        check_like("matmul", "residual", residual, "a", a)
        try:
            residual = residual.expand(*batch, m, n)
        except RuntimeError:
            found = f"has shape {tuple(residual.shape)}"
            accepted = f"those that broadcast to {(*batch, m, n)}"
            raise refuse("matmul", "residual", found, accepted) from None
    keep = activation is not None and torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (a, b, bias)
    )  # fmt: skip
    return matmul_op.primary(a, b, bias, residual, *scales, activation, dtype, precision, keep)
