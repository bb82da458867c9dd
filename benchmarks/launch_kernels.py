"""Kernels that do nothing, to measure what launching them costs."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def three(x, y, out, n, BLOCK: tl.constexpr):
    pass


@tritium.jit
def nineteen(
    a, b, c, d, e, f, g, n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, BLOCK: tl.constexpr
):
    pass


@tritium.jit
def mixed(
    a, b, c, d, e, n0, n1, x0, n2, n3, pair, flag, none, large,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, C3: tl.constexpr, C4: tl.constexpr,
):  # fmt: skip
    pass


@tritium.jit
def described(x, y, out, n, BLOCK: tl.constexpr):
    pass


@tritium.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask), tl.load(y_ptr + offsets, mask)
    tl.store(out_ptr + offsets, x + y, mask)
