"""Cross entropy of rows of logits with one right column each, and its gradient.

    loss = (1 - s) * (lse - x[target]) + s * (lse - mean(x)) + z * lse**2

s: label smoothing, z: weight of the square of lse = log(sum(exp(x))). A row whose target is
`ignored` has loss 0 and no gradient; one whose target is no column has loss NaN and a gradient of
NaN.

lse is kept as two numbers, the largest logit and the logarithm of the sum relative to it: their sum
would lose the second one's digits where logits are large. The mean is taken of distances from the
first logit, for the same reason.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import wide, zeros_like_wide
from tritium_kernels.dense.kernels.softmax import finite_or_zero


@tritium.jit
def walk_together(x_ptr, columns, first, SMOOTH: tl.constexpr, BLOCK: tl.constexpr):
    """(largest, sum of exponentials relative to it, sum of distances from `first`) of a row, with
    one largest number so far: each element has one exponential."""
    c = tl.arange(0, BLOCK)
    sums = zeros_like_wide(x_ptr, (BLOCK,))
    largest = tl.full((), float("-inf"), sums.dtype)
    plain = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, columns, BLOCK):
        mask = start + c < columns
        x = wide(tl.load(x_ptr + start + c, mask=mask, other=float("-inf")))
        before, largest = largest, tl.maximum(largest, tl.max(x, 0))
        base = finite_or_zero(largest)
        sums = sums * tl.exp(before - base) + tl.exp(x - base)
        if SMOOTH:
            plain += tl.where(mask, x - first, 0.0)
    return largest, tl.sum(sums, 0), tl.sum(plain, 0)


@tritium.jit
def walk_apart(
    x_ptr, columns, first, SMOOTH: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """`walk_together` with a largest number for every WIDTH neighbours, which a thread of a GPU
    holds: threads wait for each other at the end of the row only, and hold few sums."""
    LANES: tl.constexpr = BLOCK // WIDTH
    c = tl.arange(0, LANES)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    sums = zeros_like_wide(x_ptr, (LANES,))
    plain = zeros_like_wide(x_ptr, (LANES,))
    largest = tl.full((LANES,), float("-inf"), sums.dtype)
    for start in range(0, columns, BLOCK):
        mask = start + c < columns
        x = wide(tl.load(x_ptr + start + c, mask=mask, other=float("-inf")))
        before, largest = largest, tl.maximum(largest, tl.max(x, 1))
        base = finite_or_zero(largest)
        sums = sums * tl.exp(before - base) + tl.sum(tl.exp(x - base[:, None]), 1)
        if SMOOTH:
            plain += tl.sum(tl.where(mask, x - first, 0.0), 1)
    most = tl.max(largest, 0)
    return most, tl.sum(sums * tl.exp(largest - finite_or_zero(most)), 0), tl.sum(plain, 0)


@tritium.jit
def loss_forward(
    x_ptr, target_ptr, loss_ptr, lse_ptr, columns, x_stride, ignored, smoothing: tl.float64,
    z: tl.float64, SMOOTH: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """`WIDTH`: neighbours that share a largest number; 1: all columns do."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    target = tl.load(target_ptr + row).to(tl.int64)
    first = finite_or_zero(wide(tl.load(x_ptr, mask=columns > 0, other=0.0)))
    if WIDTH == 1:
        largest, total, plain = walk_together(x_ptr, columns, first, SMOOTH, BLOCK)
    else:
        largest, total, plain = walk_apart(x_ptr, columns, first, SMOOTH, BLOCK, WIDTH)
    rest = tl.log(total)
    lse = largest + rest
    inside = (target >= 0) & (target < columns)
    right = wide(tl.load(x_ptr + target, mask=inside, other=float("nan")))
    loss = largest - right + rest  # what is large goes first
    smoothing, z = smoothing.to(lse.dtype), z.to(lse.dtype)
    if SMOOTH:
        loss = (1 - smoothing) * loss + smoothing * (largest - first - plain / columns + rest)
    loss += z * lse * lse
    tl.store(loss_ptr + row, tl.where(target == ignored, 0.0, loss))
    if lse_ptr is not None:  # gradients are wanted
        tl.store(lse_ptr + 2 * row, largest)
        tl.store(lse_ptr + 2 * row + 1, rest)


@tritium.jit
def total_of_losses(
    loss_ptr, target_ptr, total_ptr, scale_ptr, rows, ignored, MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of all losses, or their mean over rows that are not ignored, and the derivative of it
    by a loss."""
    sums = zeros_like_wide(loss_ptr, (BLOCK,))
    counts = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(loss_ptr + at, mask=at < rows, other=0.0)
        if MEAN:
            target = tl.load(target_ptr + at, mask=at < rows, other=ignored)
            counts += (target.to(tl.int64) != ignored).to(tl.int32)
    total = tl.sum(sums, 0)
    scale = tl.full((), 1.0, total.dtype)
    if MEAN:
        scale = scale / tl.sum(counts, 0).to(total.dtype)
        total = total / tl.sum(counts, 0).to(total.dtype)
    tl.store(total_ptr, total)
    if scale_ptr is not None:
        tl.store(scale_ptr, scale)


@tritium.jit
def loss_backward(
    x_ptr, target_ptr, lse_ptr, scale_ptr, factor_ptr, dx_ptr, columns, x_stride, dx_stride,
    scale_stride, ignored, smoothing: tl.float64, z: tl.float64, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx = scale * (softmax * (1 + 2 z lse) - (1 - s) * [column is target] - s / columns).

    dx may be x itself: each element is read before it is written, by the same program.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    dx_ptr += row * dx_stride
    target = tl.load(target_ptr + row).to(tl.int64)
    largest, rest = tl.load(lse_ptr + 2 * row), tl.load(lse_ptr + 2 * row + 1)
    lse = largest + rest
    smoothing, z = smoothing.to(lse.dtype), z.to(lse.dtype)
    scale = wide(tl.load(scale_ptr + row * scale_stride))
    if factor_ptr is not None:
        scale *= wide(tl.load(factor_ptr))
    wrong = (target < 0) | (target >= columns)
    scale = tl.where(wrong & (target != ignored), float("nan"), scale)
    c = tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        mask = start + c < columns
        x = wide(tl.load(x_ptr + start + c, mask=mask, other=0.0))
        dx = tl.exp(x - largest - rest) * (1 + 2 * z * lse) - smoothing / columns
        dx -= tl.where(start + c == target, 1 - smoothing, 0.0)
        dx = tl.where(target == ignored, 0.0, dx * scale)
        tl.store(dx_ptr + start + c, dx.to(dx_ptr.dtype.element_ty), mask=mask)
