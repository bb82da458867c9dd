"""Rotary position embedding of (batch, head, position, element) with any strides."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import wide


@tritium.jit
def rope(
    x_ptr, cos_ptr, sin_ptr, y_ptr, heads, length, half, d,
    xb, xh, xl, yb, yh, yl, cb, cl, sb, sl, sign,
    INTERLEAVED: tl.constexpr, REST: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """(a, b) of each pair becomes (a cos - b sin, a sin + b cos); elements after the pairs stay."""
    across = tl.cdiv(length, ROWS)
    pid = tl.program_id(0)
    head = pid // across
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    rows = (pid % across) * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
    x_ptr += b * xb + h * xh + rows * xl
    y_ptr += b * yb + h * yh + rows * yl
    j = tl.arange(0, HALF)[None, :]
    mask = (rows < length) & (j < half)
    cos = wide(tl.load(cos_ptr + b * cb + rows * cl + j, mask=mask, other=1.0))
    sin = wide(tl.load(sin_ptr + b * sb + rows * sl + j, mask=mask, other=0.0)) * sign
    kind: tl.constexpr = y_ptr.dtype.element_ty
    if INTERLEAVED:
        k = tl.arange(0, 2 * HALF)[None, :]
        inside = (rows < length) & (k < 2 * half)
        pairs = wide(tl.load(x_ptr + k, mask=inside, other=0.0))
        first, second = tl.split(tl.reshape(pairs, (ROWS, HALF, 2)))
        both = tl.join(first * cos - second * sin, first * sin + second * cos)
        tl.store(y_ptr + k, tl.reshape(both, (ROWS, 2 * HALF)).to(kind), mask=inside)
    else:
        first = wide(tl.load(x_ptr + j, mask=mask, other=0.0))
        second = wide(tl.load(x_ptr + half + j, mask=mask, other=0.0))
        tl.store(y_ptr + j, (first * cos - second * sin).to(kind), mask=mask)
        tl.store(y_ptr + half + j, (first * sin + second * cos).to(kind), mask=mask)
    if REST > 0:
        k = 2 * half + tl.arange(0, REST)[None, :]
        inside = (rows < length) & (k < d)
        tl.store(y_ptr + k, tl.load(x_ptr + k, mask=inside), mask=inside)
