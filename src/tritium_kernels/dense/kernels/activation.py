"""Activation functions by name, their derivatives, and gated products of two halves."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, tile, wide

ACTIVATIONS = ("relu", "relu2", "sigmoid", "silu", "tanh", "gelu", "gelu_tanh")


@tritium.jit
def logistic(x):
    return 1 / (1 + tl.exp(-x))


@tritium.jit
def hyperbolic_tangent(x):
    """1 - 2 / (exp(2x) + 1): right at both ends, where the exponential is 0 or infinite."""
    return 1 - 2 / (tl.exp(2 * x) + 1)


@tritium.jit
def gelu_inner(x):
    return 0.7978845608028654 * (x + 0.044715 * x * x * x)


@tritium.jit
def activate(x, KIND: tl.constexpr):
    if KIND == "relu":
        return tl.where(x < 0, 0.0, x)
    elif KIND == "relu2":
        return tl.where(x < 0, 0.0, x * x)
    elif KIND == "sigmoid":
        return logistic(x)
    elif KIND == "silu":
        return x * logistic(x)
    elif KIND == "tanh":
        return hyperbolic_tangent(x)
    elif KIND == "gelu":
        return 0.5 * x * (1 + tl.erf(0.7071067811865476 * x))
    else:
        tl.static_assert(KIND == "gelu_tanh", "an activation of ACTIVATIONS")
        return 0.5 * x * (1 + hyperbolic_tangent(gelu_inner(x)))


@tritium.jit
def derivative(x, KIND: tl.constexpr):
    """The derivative of `activate` at x."""
    if KIND == "relu":
        return tl.where(x > 0, 1.0, 0.0)
    elif KIND == "relu2":
        return tl.where(x > 0, 2 * x, 0.0)
    elif KIND == "sigmoid":
        s = logistic(x)
        return s * (1 - s)
    elif KIND == "silu":
        s = logistic(x)
        return s * (1 + x * (1 - s))
    elif KIND == "tanh":
        t = hyperbolic_tangent(x)
        return 1 - t * t
    elif KIND == "gelu":
        density = 0.3989422804014327 * tl.exp(-0.5 * x * x)
        return 0.5 * (1 + tl.erf(0.7071067811865476 * x)) + x * density
    else:
        t = hyperbolic_tangent(gelu_inner(x))
        inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner


@tritium.jit
def tile_of_program(columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """(first row, first column) of a program, all on one axis of the grid."""
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0)
    return (pid // across) * ROWS, (pid % across) * BLOCK


@tritium.jit
def gated_forward(
    gate_ptr, up_ptr, y_ptr, rows, columns, gate_stride, up_stride, y_stride,
    KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """activation(gate) * up."""
    row, start = tile_of_program(columns, ROWS, BLOCK)
    offsets, mask = tile(row, rows, start, columns, gate_stride, ROWS, BLOCK, EVEN)
    gate = wide(tl.load(gate_ptr + offsets, mask=mask, other=0.0))
    offsets, mask = tile(row, rows, start, columns, up_stride, ROWS, BLOCK, EVEN)
    up = wide(tl.load(up_ptr + offsets, mask=mask, other=0.0))
    offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK, EVEN)
    y = activate(gate, KIND) * up
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def gated_backward(
    gate_ptr, up_ptr, dy_ptr, dgate_ptr, dup_ptr, rows, columns,
    gate_stride, up_stride, dy_stride, dgate_stride, dup_stride,
    KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row, start = tile_of_program(columns, ROWS, BLOCK)
    offsets, mask = tile(row, rows, start, columns, gate_stride, ROWS, BLOCK, EVEN)
    gate = wide(tl.load(gate_ptr + offsets, mask=mask, other=0.0))
    offsets, mask = tile(row, rows, start, columns, up_stride, ROWS, BLOCK, EVEN)
    up = wide(tl.load(up_ptr + offsets, mask=mask, other=0.0))
    offsets, mask = tile(row, rows, start, columns, dy_stride, ROWS, BLOCK, EVEN)
    dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
    dgate = dy * up * derivative(gate, KIND)
    dup = dy * activate(gate, KIND)
    offsets, mask = tile(row, rows, start, columns, dgate_stride, ROWS, BLOCK, EVEN)
    tl.store(dgate_ptr + offsets, dgate.to(dgate_ptr.dtype.element_ty), mask=mask)
    offsets, mask = tile(row, rows, start, columns, dup_stride, ROWS, BLOCK, EVEN)
    tl.store(dup_ptr + offsets, dup.to(dup_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def activation_backward(
    x_ptr, dy_ptr, dx_ptr, n, KIND: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr
):
    """dy * derivative(x) of contiguous elements."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    at = start + tl.arange(0, BLOCK)
    mask = inside(start, n, BLOCK, EVEN)
    x = wide(tl.load(x_ptr + at, mask=mask, other=0.0))
    dy = wide(tl.load(dy_ptr + at, mask=mask, other=0.0))
    dx = dy * derivative(x, KIND)
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)
