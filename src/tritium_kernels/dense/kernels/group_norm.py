"""Group norm of (batch, channels, positions), contiguous, and its gradient.

Backward, the sums of dy and of dy * (x - mean) over the positions of each channel come first; from
these few numbers follow those of each group, dw and db, and then dx, element by element. Sums of
dy * x, from which the mean is taken later, would cancel where means are large. What the rounded
mean is off by is `shift` (`kernels.norm`). A group that fits into a program's registers is read
once (`group_norm_whole`, `group_gradients_whole`). Of larger ones, where there are groups for all
processors, a program has a group (`group_gradients`), and reads what it has just read again for dx;
of few groups, programs have channels, then parts of them.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, wide, zeros_like_wide
from tritium_kernels.dense.kernels.norm import add_both, distances, normalized, spread


@tritium.jit
def of_channels(ptr, start, positions, mask, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """The weight or bias of the channel of each element of a block."""
    if EVEN:
        return wide(tl.load(ptr + start // positions))
    else:
        channel = (start + tl.arange(0, BLOCK)) // positions
        return wide(tl.load(ptr + channel, mask=mask, other=0.0))


@tritium.jit
def block_of(x_ptr, start, size, origin, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """A block of a group, less `origin`; zeros past its end."""
    at = start + tl.arange(0, BLOCK)
    return distances(x_ptr, at, inside(start, size, BLOCK, EVEN), origin)


@tritium.jit
def store_statistics(mean_ptr, rstd_ptr, pid, mean, shift, rstd):
    """For the gradients, if any are wanted: behind all means are the shifts."""
    if mean_ptr is not None:
        tl.store(mean_ptr + pid, mean)
        tl.store(mean_ptr + tl.num_programs(0) + pid, shift)
        tl.store(rstd_ptr + pid, rstd)


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
    first = wide(tl.load(x_ptr))
    sums = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, size, BLOCK):
        sums += block_of(x_ptr, start, size, first, BLOCK, EVEN)
    mean = first + tl.sum(sums, 0) / size
    sums = zeros_like_wide(x_ptr, (BLOCK,))
    squares = zeros_like_wide(x_ptr, (BLOCK,))
    for start in range(0, size, BLOCK):
        x = block_of(x_ptr, start, size, mean, BLOCK, EVEN)
        sums += x
        squares += x * x
    shift, rstd = spread(tl.sum(sums, 0), tl.sum(squares, 0), size, eps)
    store_statistics(mean_ptr, rstd_ptr, pid, mean, shift, rstd)
    channel = (pid % groups) * (size // positions)
    for start in range(0, size, BLOCK):
        mask = inside(start, size, BLOCK, EVEN)
        x = wide(tl.load(x_ptr + start + c, mask=mask, other=0.0))
        y = normalized(x, mean, shift, rstd, True)
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
    first = wide(tl.load(x_ptr))
    total = zeros_like_wide(x_ptr, ())
    for start in range(0, size, BLOCK):
        total += tl.sum(block_of(x_ptr, start, size, first, BLOCK, EVEN), 0)
    mean = first + total / size
    total = zeros_like_wide(x_ptr, ())
    squares = zeros_like_wide(x_ptr, ())
    for start in range(0, size, BLOCK):
        x = block_of(x_ptr, start, size, mean, BLOCK, EVEN)
        total += tl.sum(x, 0)
        squares += tl.sum(x * x, 0)
    shift, rstd = spread(total, squares, size, eps)
    store_statistics(mean_ptr, rstd_ptr, pid, mean, shift, rstd)
    channels = size // positions
    c = tl.arange(0, PART)
    for i in range(channels):
        channel = (pid % groups) * channels + i
        scale, offset = rstd, -shift
        if w_ptr is not None:
            w = wide(tl.load(w_ptr + channel))
            scale, offset = scale * w, offset * w
        if b_ptr is not None:
            offset += wide(tl.load(b_ptr + channel))
        for start in range(0, positions, PART):
            at, mask = i * positions + start + c, inside(start, positions, PART, EVEN_PARTS)
            x = wide(tl.load(x_ptr + at, mask=mask, other=0.0))
            y = (x - mean) * scale + offset
            tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def group_tile(
    group, positions, CHANNELS: tl.constexpr, POSITIONS: tl.constexpr, EVEN: tl.constexpr
):
    """(offsets, mask) of a whole group, one channel a row; EVEN: the tile has no more."""
    r = tl.arange(0, CHANNELS)[:, None]
    c = tl.arange(0, POSITIONS)[None, :]
    if EVEN:
        return r * positions + c, tl.full((CHANNELS, POSITIONS), True, tl.int1)
    else:
        return r * positions + c, (r < group) & (c < positions)


@tritium.jit
def group_norm_whole(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, groups, group, positions, eps: tl.float64,
    CHANNELS: tl.constexpr, POSITIONS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`group_norm_forward` of a group of `group` channels that is held in registers."""
    pid = tl.program_id(0).to(tl.int64)
    size = group * positions
    at, mask = group_tile(group, positions, CHANNELS, POSITIONS, EVEN)
    x = wide(tl.load(x_ptr + pid * size + at, mask=mask, other=0.0))
    mean = tl.sum(tl.sum(x, 1), 0) / size
    x = tl.where(mask, x - mean, 0.0)
    totals, squares = tl.reduce((x, x * x), 1, add_both)
    shift, rstd = spread(tl.sum(totals, 0), tl.sum(squares, 0), size, eps)
    store_statistics(mean_ptr, rstd_ptr, pid, mean, shift, rstd)
    c = tl.arange(0, CHANNELS)
    channel = (pid % groups) * group + c
    y = x * rstd - shift
    if w_ptr is not None:
        y *= wide(tl.load(w_ptr + channel, mask=c < group, other=0.0))[:, None]
    if b_ptr is not None:
        y += wide(tl.load(b_ptr + channel, mask=c < group, other=0.0))[:, None]
    tl.store(y_ptr + pid * size + at, y.to(y_ptr.dtype.element_ty), mask=mask)


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
def group_gradients(
    x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, sum_ptr, product_ptr, dx_ptr, groups, group,
    positions, BLOCK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """dx of one group, and the sums of its channels for `channel_gradients`."""
    pid = tl.program_id(0).to(tl.int64)
    mean, rstd = tl.load(mean_ptr + pid), tl.load(rstd_ptr + pid)
    shift = tl.load(mean_ptr + tl.num_programs(0) + pid)
    x_ptr += pid * group * positions
    dy_ptr += pid * group * positions
    dx_ptr += pid * group * positions
    channel = (pid % groups) * group
    c = tl.arange(0, BLOCK)
    of_g = zeros_like_wide(x_ptr, ())
    of_gh = zeros_like_wide(x_ptr, ())
    for i in tl.range(0, group, flatten=True):
        sums = zeros_like_wide(x_ptr, (BLOCK,))
        products = zeros_like_wide(x_ptr, (BLOCK,))
        for start in tl.range(0, positions, BLOCK, num_stages=STAGES):
            at, mask = i * positions + start + c, inside(start, positions, BLOCK, EVEN)
            x = wide(tl.load(x_ptr + at, mask=mask, other=0.0))
            dy = wide(tl.load(dy_ptr + at, mask=mask, other=0.0))
            sums += dy
            products += dy * (x - mean)
        total, product = tl.sum(sums, 0), tl.sum(products, 0)
        tl.store(sum_ptr + pid * group + i, total)
        tl.store(product_ptr + pid * group + i, product)
        w = wide(tl.load(w_ptr + channel + i)) if w_ptr is not None else 1.0
        of_g += w * total
        of_gh += w * product
    slope, offset = coefficients(of_g, of_gh, shift, rstd, group * positions)
    for i in tl.range(0, group, flatten=True):
        for start in tl.range(0, positions, BLOCK, num_stages=STAGES):
            at, mask = i * positions + start + c, inside(start, positions, BLOCK, EVEN)
            x = wide(tl.load(x_ptr + at, mask=mask, other=0.0))
            dy = wide(tl.load(dy_ptr + at, mask=mask, other=0.0))
            w = wide(tl.load(w_ptr + channel + i)) if w_ptr is not None else 1.0
            dx = w * rstd * dy + slope * (x - mean) + offset
            tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def group_gradients_whole(
    x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, sum_ptr, product_ptr, dx_ptr, groups, group,
    positions, CHANNELS: tl.constexpr, POSITIONS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`group_gradients` of a group that is held in registers, in the type that it has in memory."""
    pid = tl.program_id(0).to(tl.int64)
    start = pid * group * positions
    at, mask = group_tile(group, positions, CHANNELS, POSITIONS, EVEN)
    x = tl.load(x_ptr + start + at, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + start + at, mask=mask, other=0.0)
    mean, rstd = tl.load(mean_ptr + pid), tl.load(rstd_ptr + pid)
    shift = tl.load(mean_ptr + tl.num_programs(0) + pid)
    total, product = tl.reduce((wide(dy), wide(dy) * (wide(x) - mean)), 1, add_both)
    c = tl.arange(0, CHANNELS)
    inside_group = c < group
    tl.store(sum_ptr + pid * group + c, total, mask=inside_group)
    tl.store(product_ptr + pid * group + c, product, mask=inside_group)
    channel = (pid % groups) * group
    scale = tl.full((CHANNELS,), 1, total.dtype)
    if w_ptr is not None:
        scale = wide(tl.load(w_ptr + channel + c, mask=inside_group, other=0.0))
    slope, offset = coefficients(
        tl.sum(total * scale, 0), tl.sum(product * scale, 0), shift, rstd, group * positions
    )
    dx = (scale * rstd)[:, None] * wide(dy) + slope * (wide(x) - mean) + offset
    tl.store(dx_ptr + start + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def coefficients(of_g, of_gh, shift, rstd, count):
    """(slope, offset) of dx = w * rstd * dy + slope * (x - mean) + offset, from the sums of
    g = w * dy and g * (x - mean): dx = rstd * (g - mean(g) - h * mean(g * h)), where h is
    (x - mean) * rstd - shift."""
    of_gh = of_gh * rstd - shift * of_g
    return -rstd * rstd * (of_gh / count), -rstd * (of_g / count - shift * (of_gh / count))


@tritium.jit
def group_coefficients(
    sum_ptr, product_ptr, w_ptr, mean_ptr, rstd_ptr, factor_ptr, slope_ptr, offset_ptr, groups,
    group, positions, BLOCK: tl.constexpr,
):  # fmt: skip
    """The coefficients that `group_norm_backward` takes, of one group of `group` channels."""
    pid = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < group
    shift, rstd = tl.load(mean_ptr + tl.num_programs(0) + pid), tl.load(rstd_ptr + pid)
    scale = tl.full((BLOCK,), 1, rstd.dtype)
    if w_ptr is not None:
        w = tl.load(w_ptr + (pid % groups) * group + c, mask=mask, other=0.0)
        scale = w.to(rstd.dtype)
    sums = tl.load(sum_ptr + pid * group + c, mask=mask, other=0.0)
    products = tl.load(product_ptr + pid * group + c, mask=mask, other=0.0)
    of_g, of_gh = tl.sum(sums * scale, 0), tl.sum(products * scale, 0)
    slope, offset = coefficients(of_g, of_gh, shift, rstd, group * positions)
    tl.store(factor_ptr + pid * group + c, scale * rstd, mask=mask)
    tl.store(slope_ptr + pid, slope)
    tl.store(offset_ptr + pid, offset)


@tritium.jit
def channel_gradients(
    sum_ptr, product_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, batch, channels, group,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dw = sum of dy * h and db = sum of dy over the batch, of some channels; ROWS of the batch are
    loaded at once."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    groups = channels // group
    dw = zeros_like_wide(rstd_ptr, (ROWS, BLOCK))
    db = zeros_like_wide(rstd_ptr, (ROWS, BLOCK))
    for start in range(0, batch, ROWS):
        row = start + tl.arange(0, ROWS).to(tl.int64)[:, None]
        mask = (row < batch) & (c < channels)[None, :]
        sums = tl.load(sum_ptr + row * channels + c[None, :], mask=mask, other=0.0)
        db += sums
        if dw_ptr is not None:
            products = tl.load(product_ptr + row * channels + c[None, :], mask=mask, other=0.0)
            at = row * groups + (c // group)[None, :]
            shift = tl.load(mean_ptr + batch * groups + at, mask=mask, other=0.0)
            dw += products * tl.load(rstd_ptr + at, mask=mask, other=0.0) - sums * shift
    if dw_ptr is not None:
        tl.store(dw_ptr + c, tl.sum(dw, 0).to(dw_ptr.dtype.element_ty), mask=c < channels)
    if db_ptr is not None:
        tl.store(db_ptr + c, tl.sum(db, 0).to(db_ptr.dtype.element_ty), mask=c < channels)


@tritium.jit
def group_norm_backward(
    x_ptr, dy_ptr, mean_ptr, factor_ptr, slope_ptr, offset_ptr, dx_ptr, group, positions,
    BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """dx = factor[channel] * dy + slope[group] * (x - mean[group]) + offset[group]."""
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
    offset = tl.load(offset_ptr + row // group)
    dx = factor * dy + slope * (x - tl.load(mean_ptr + row // group)) + offset
    tl.store(dx_ptr + row * positions + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)
