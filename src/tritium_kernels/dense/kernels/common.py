"""Functions that several kernels call."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def wide(x):
    """float64 stays; every other type is computed in float32."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@tritium.jit
def zeros_like_wide(ptr, SHAPE: tl.constexpr):
    """Zeros of the type in which elements behind `ptr` are computed."""
    return tl.zeros(SHAPE, tl.float64 if ptr.dtype.element_ty == tl.float64 else tl.float32)


@tritium.jit
def tile(
    row, rows, start, columns, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    EVEN: tl.constexpr = False,
):  # fmt: skip
    """(offsets, mask) of ROWS rows from `row` on, BLOCK columns from `start` on.

    EVEN: all of them exist; a mask that is always true costs nothing.
    """
    r = row.to(tl.int64) + tl.arange(0, ROWS)[:, None]
    c = start + tl.arange(0, BLOCK)[None, :]
    if EVEN:
        return r * stride + c, tl.full((ROWS, BLOCK), True, tl.int1)
    else:
        return r * stride + c, (r < rows) & (c < columns)


@tritium.jit
def inside(start, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """The mask of the BLOCK columns from `start` on that exist."""
    if EVEN:
        return tl.full((BLOCK,), True, tl.int1)
    else:
        return start + tl.arange(0, BLOCK) < columns
