"""Group norm of (batch, channels, positions), contiguous, and its gradient.

Backward, the sums of dy and of dy * (x - mean) over the positions of each channel come first; from
these few numbers follow those of each group, dw and db, and then dx, element by element. Sums of
dy * x, from which the mean is taken later, would cancel where means are large.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, wide, zeros_like_wide


@tritium.jit
def of_channels(ptr, start, positions, mask, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """The weight or bias of the channel of each element of a block."""
    if EVEN:
        return wide(tl.load(ptr + start // positions))
    else:
        channel = (start + tl.arange(0, BLOCK)) // positions
        return wide(tl.load(ptr + channel, mask=mask, other=0.0))


@tritium.jit
def squares_of(x_ptr, start, size, mean, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """The squared distances from the mean of a block of a group."""
    mask = inside(start, size, BLOCK, EVEN)
    x = wide(tl.load(x_ptr + start + tl.arange(0, BLOCK), mask=mask, other=0.0))
    x = tl.where(mask, x - mean, 0.0)
    return x * x


@tritium.jit
def group_norm_forward(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, groups, size, positions,
    eps: tl.float64, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """One group, whose `size` elements are adjacent. EVEN: blocks are of one channel."""
    pid = tl.program_id(0).to(tl.int64)
    x_ptr += pid * size
    y_ptr += pid * size
    c = tl.arange(0, BLOCK)
    sums = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, size, BLOCK):
        mask = inside(start, size, BLOCK, EVEN)
        sums += wide(tl.load(x_ptr + start + c, mask=mask, other=0.0))
    mean = tl.sum(sums, 0) / size
    squares = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, size, BLOCK):
        squares += squares_of(x_ptr, start, size, mean, BLOCK, EVEN)
    rstd = 1 / tl.sqrt(tl.sum(squares, 0) / size + eps.to(mean.dtype))
    if mean_ptr is not None:  # gradients are wanted
        tl.store(mean_ptr + pid, mean)
        tl.store(rstd_ptr + pid, rstd)
    channel = (pid % groups) * (size // positions)
    for start in range(0, size, BLOCK):
        mask = inside(start, size, BLOCK, EVEN)
        y = (wide(tl.load(x_ptr + start + c, mask=mask, other=0.0)) - mean) * rstd
        if w_ptr is not None:
            y *= of_channels(w_ptr + channel, start, positions, mask, BLOCK, EVEN)
        if b_ptr is not None:
            y += of_channels(b_ptr + channel, start, positions, mask, BLOCK, EVEN)
        tl.store(y_ptr + start + c, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def group_norm_by_channels(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, groups, size, positions,
    eps: tl.float64, BLOCK: tl.constexpr, EVEN: tl.constexpr, PART: tl.constexpr,
    EVEN_PARTS: tl.constexpr,
):  # fmt: skip
    """`group_norm_forward` for a CPU, which adds a block up in registers and wants no division for
    each element: results are computed channel by channel, PART positions at a time.

    EVEN: blocks end where the group does; EVEN_PARTS: parts where the channel does.
    """
    pid = tl.program_id(0).to(tl.int64)
    x_ptr += pid * size
    y_ptr += pid * size
    total = zeros_like_wide(x_ptr, ())
    for start in range(0, size, BLOCK):
        mask = inside(start, size, BLOCK, EVEN)
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK), mask=mask, other=0.0)
        total += tl.sum(wide(x), 0)
    mean = total / size
    total = zeros_like_wide(x_ptr, ())
    for start in range(0, size, BLOCK):
        total += tl.sum(squares_of(x_ptr, start, size, mean, BLOCK, EVEN), 0)
    rstd = 1 / tl.sqrt(total / size + eps.to(mean.dtype))
    if mean_ptr is not None:
        tl.store(mean_ptr + pid, mean)
        tl.store(rstd_ptr + pid, rstd)
    channels = size // positions
    c = tl.arange(0, PART)
    for i in range(channels):
        channel = (pid % groups) * channels + i
        scale, shift = rstd, zeros_like_wide(x_ptr, ())
        if w_ptr is not None:
            scale *= wide(tl.load(w_ptr + channel))
        if b_ptr is not None:
            shift += wide(tl.load(b_ptr + channel))
        for start in range(0, positions, PART):
            at, mask = i * positions + start + c, inside(start, positions, PART, EVEN_PARTS)
            x = wide(tl.load(x_ptr + at, mask=mask, other=0.0))
            y = (x - mean) * scale + shift
            tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def channel_sums(
    x_ptr, dy_ptr, mean_ptr, sum_ptr, product_ptr, group, positions, BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """Sums of dy and dy * (x - mean) over the positions of one channel."""
    pid = tl.program_id(0).to(tl.int64)
    mean = tl.load(mean_ptr + pid // group)
    c = tl.arange(0, BLOCK)
    sums = zeros_like_wide(x_ptr, (BLOCK,))
    products = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, positions, BLOCK):
        mask = inside(start, positions, BLOCK, EVEN)
        x = wide(tl.load(x_ptr + pid * positions + start + c, mask=mask, other=0.0))
        dy = wide(tl.load(dy_ptr + pid * positions + start + c, mask=mask, other=0.0))
        sums += dy
        products += dy * (x - mean)
    tl.store(sum_ptr + pid, tl.sum(sums, 0))
    tl.store(product_ptr + pid, tl.sum(products, 0))


@tritium.jit
def group_coefficients(
    sum_ptr, product_ptr, w_ptr, rstd_ptr, factor_ptr, slope_ptr, shift_ptr, groups, group,
    positions, BLOCK: tl.constexpr,
):  # fmt: skip
    """The coefficients that `group_norm_backward` takes, of one group of `group` channels. With
    h = (x - mean) * rstd and g = w * dy, dx = rstd * (g - mean(g) - h * mean(g * h))."""
    pid = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < group
    rstd = tl.load(rstd_ptr + pid)
    scale = tl.full((BLOCK,), 1, rstd.dtype)
    if w_ptr is not None:
        w = tl.load(w_ptr + (pid % groups) * group + c, mask=mask, other=0.0)
        scale = w.to(rstd.dtype)
    sums = tl.load(sum_ptr + pid * group + c, mask=mask, other=0.0)
    products = tl.load(product_ptr + pid * group + c, mask=mask, other=0.0)
    count = group * positions
    of_gh = tl.sum(products * scale, 0) * rstd
    tl.store(factor_ptr + pid * group + c, scale * rstd, mask=mask)
    tl.store(slope_ptr + pid, -rstd * rstd * (of_gh / count))
    tl.store(shift_ptr + pid, -rstd * (tl.sum(sums * scale, 0) / count))


@tritium.jit
def channel_gradients(
    sum_ptr, product_ptr, rstd_ptr, dw_ptr, db_ptr, batch, channels, group, BLOCK: tl.constexpr
):
    """dw = sum of dy * h and db = sum of dy over the batch, of some channels."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < channels
    dw = zeros_like_wide(rstd_ptr, (BLOCK,))
    db = zeros_like_wide(rstd_ptr, (BLOCK,))
    for b in range(batch):
        sums = tl.load(sum_ptr + b * channels + c, mask=mask, other=0.0)
        products = tl.load(product_ptr + b * channels + c, mask=mask, other=0.0)
        at = (b * channels + c) // group
        dw += products * tl.load(rstd_ptr + at, mask=mask, other=0.0)
        db += sums
    tl.store(dw_ptr + c, dw, mask=mask)
    tl.store(db_ptr + c, db, mask=mask)


@tritium.jit
def group_norm_backward(
    x_ptr, dy_ptr, mean_ptr, factor_ptr, slope_ptr, shift_ptr, dx_ptr, group, positions,
    BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """dx = factor[channel] * dy + slope[group] * (x - mean[group]) + shift[group]."""
    across = tl.cdiv(positions, BLOCK)
    pid = tl.program_id(0).to(tl.int64)
    row = pid // across
    start = (pid % across) * BLOCK
    at = start + tl.arange(0, BLOCK)
    mask = inside(start, positions, BLOCK, EVEN)
    x = wide(tl.load(x_ptr + row * positions + at, mask=mask, other=0.0))
    dy = wide(tl.load(dy_ptr + row * positions + at, mask=mask, other=0.0))
    factor = tl.load(factor_ptr + row)
    slope = tl.load(slope_ptr + row // group)
    shift = tl.load(shift_ptr + row // group)
    dx = factor * dy + slope * (x - tl.load(mean_ptr + row // group)) + shift
    tl.store(dx_ptr + row * positions + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)
