"""The four kernels that `tritium demo` and the benchmarks run, as one would write them by hand."""

from __future__ import annotations

# Parameters of kernels are untyped: they are whatever the kernel is launched with.
# pyright: basic
from tritium import language as tl
from tritium.runtime.jit import jit


@jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y for `n` elements, `BLOCK` of them a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@jit
def softmax_kernel(x_ptr, out_ptr, row_stride, columns, BLOCK: tl.constexpr):
    """out = softmax(x) along the rows; one row a program, `BLOCK` at least `columns`."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * row_stride + offsets, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * row_stride + offsets, result, mask=mask)


@jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, row_stride, columns, eps, BLOCK: tl.constexpr
):
    """out = (x - mean) / sqrt(var + eps) * weight + bias along the rows; one row a program."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * row_stride + offsets, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    scale = 1.0 / tl.sqrt(variance + eps)
    weight = tl.load(weight_ptr + offsets, mask=mask)
    bias = tl.load(bias_ptr + offsets, mask=mask)
    tl.store(out_ptr + row * row_stride + offsets, centred * scale * weight + bias, mask=mask)


@jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """c = a @ b for row-major matrices whose sizes are multiples of the blocks."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :], acc)
