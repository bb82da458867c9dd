"""Tutorial 05: layer normalization, forward and backward.

    y = (x - mean) * rstd * w + b        rstd = 1 / sqrt(variance + eps), for each row of x

The forward pass is like softmax: one program a row. The backward pass has a new difficulty. The
gradient of x stays within a row, but those of w and b are sums over *all* rows, and programs of
one launch run in no particular order.
"""

from __future__ import annotations

import argparse

import numpy as np
from arrays import empty, fetch, on_gpu, place, zeros

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# Forward
#
# Rows may be longer than a block, so each sum is a loop over blocks. The mean and the reciprocal of
# the standard deviation are kept: the backward pass needs them.


@triton.jit
def forward_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
        # Beyond the row x was loaded as 0, and 0 - mean would count.
        centred = tl.where(offsets < columns, x - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)

    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        w = tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
        b = tl.load(b_ptr + offsets, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * w + b
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


# ---------------------------------------------------------------------------------------------
# Backward, first kernel
#
# With h = (x - mean) * rstd and g = w * dy, differentiating the formula above gives for each row
#
#     dx = rstd * (g - mean(g) - h * mean(g * h))
#
# and the row's part of dw is dy * h, of db is dy. Adding every row's part to one array would make
# all programs wait for each other. So there are GROUPS arrays: row r adds to array r % GROUPS,
# whose lock it holds meanwhile. Only rows of one group ever wait for each other.
#
# A lock is an integer, 0 when free. `atomic_cas` sets it to 1 only if it was 0, and returns what
# was there: the loop ends when this program is the one that changed it. `atomic_xchg` gives it
# back. The barrier makes sure that all of the block's stores were made before that.


@triton.jit
def backward_rows_kernel(
    dx_ptr, dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr,
    partial_dw_ptr, partial_db_ptr, locks_ptr,
    stride, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)

    h = tl.where(mask, (x - mean) * rstd, 0.0)
    g = w * dy
    mean_g = tl.sum(g, axis=0) / columns
    mean_gh = tl.sum(g * h, axis=0) / columns
    dx = rstd * (g - mean_g - h * mean_gh)
    tl.store(dx_ptr + row * stride + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)

    group = row % GROUPS
    dw_ptrs = partial_dw_ptr + group * columns + offsets
    db_ptrs = partial_db_ptr + group * columns + offsets
    lock_ptr = locks_ptr + group
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(dw_ptrs, tl.load(dw_ptrs, mask=mask) + dy * h, mask=mask)
    tl.store(db_ptrs, tl.load(db_ptrs, mask=mask) + dy, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


# ---------------------------------------------------------------------------------------------
# Backward, second kernel: a sum over the GROUPS arrays, one block of columns a program.


@triton.jit
def backward_sum_kernel(
    partial_dw_ptr, partial_db_ptr, dw_ptr, db_ptr, groups, columns,
    BLOCK_G: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    offsets = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    dw = tl.zeros((BLOCK_G, BLOCK_C), dtype=tl.float32)
    db = tl.zeros((BLOCK_G, BLOCK_C), dtype=tl.float32)
    for start in range(0, groups, BLOCK_G):
        group = start + tl.arange(0, BLOCK_G)
        mask = (group < groups)[:, None] & (offsets < columns)[None, :]
        where = group[:, None] * columns + offsets[None, :]
        dw += tl.load(partial_dw_ptr + where, mask=mask, other=0.0)
        db += tl.load(partial_db_ptr + where, mask=mask, other=0.0)
    tl.store(dw_ptr + offsets, tl.sum(dw, axis=0).to(dw_ptr.dtype.element_ty), offsets < columns)
    tl.store(db_ptr + offsets, tl.sum(db, axis=0).to(db_ptr.dtype.element_ty), offsets < columns)


# ---------------------------------------------------------------------------------------------
# Launching them


def forward(x, w, b, eps: float = 1e-5):
    """(y, mean, rstd) for a matrix x of which each row is normalized; its rows lie one after the
    other."""
    rows, columns = x.shape
    y = empty(x.shape, x)
    mean, rstd = (zeros((rows,), x, "float32") for _ in range(2))
    block = min(triton.next_power_of_2(columns), 4096)
    forward_kernel[(rows,)](x, w, b, y, mean, rstd, columns, columns, eps, BLOCK=block)
    return y, mean, rstd


def backward(dy, x, w, mean, rstd):
    """(dx, dw, db): the gradients, from that of y and what the forward pass kept."""
    rows, columns = x.shape
    dx, dw, db = empty(x.shape, x), empty(w.shape, w), empty(w.shape, w)
    groups = min(rows, 64 if columns > 8192 else 128 if columns > 1024 else 256)
    locks = zeros((groups,), x, "int32")
    partial_dw, partial_db = (zeros((groups, columns), x, "float32") for _ in range(2))
    backward_rows_kernel[(rows,)](
        *(dx, dy, x, w, mean, rstd, partial_dw, partial_db, locks, columns, columns),
        GROUPS=groups,
        BLOCK=triton.next_power_of_2(columns),
    )
    grid = (triton.cdiv(columns, 128),)
    backward_sum_kernel[grid](
        partial_dw, partial_db, dw, db, groups, columns, BLOCK_G=32, BLOCK_C=128
    )
    return dx, dw, db


# ---------------------------------------------------------------------------------------------
# For torch: an autograd function that calls the two.


def make_layer_norm():
    """`layer_norm(x, weight, bias, eps)` for torch tensors, with gradients."""
    import torch

    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias, eps):
            x = x.contiguous()
            y, mean, rstd = forward(x, weight, bias, eps)
            ctx.save_for_backward(x, weight, mean, rstd)
            return y

        @staticmethod
        def backward(ctx, dy):
            return *backward(dy.contiguous(), *ctx.saved_tensors), None

    return LayerNorm.apply


# ---------------------------------------------------------------------------------------------
# Checking them against the formulas in float64


def exact(x, w, b, dy, eps: float = 1e-5):
    """(y, dx, dw, db) in float64."""
    x, w, b, dy = (a.astype(np.float64) for a in (x, w, b, dy))
    centred = x - x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + eps)
    h, g = centred * rstd, w * dy
    mean_gh = np.mean(g * h, axis=1, keepdims=True)
    dx = rstd * (g - g.mean(axis=1, keepdims=True) - h * mean_gh)
    return h * w + b, dx, np.sum(dy * h, axis=0), np.sum(dy, axis=0)


def check(rows: int = 1151, columns: int = 777) -> dict[str, float]:
    """The largest difference from float64, for the result and each gradient."""
    rng = np.random.default_rng(0)
    x, dy = rng.standard_normal((2, rows, columns), dtype=np.float32)
    w, b = rng.random((2, columns), dtype=np.float32)
    right = exact(x, w, b, dy)
    x, dy, w, b = map(place, (x, dy, w, b))
    y, mean, rstd = forward(x, w, b)
    found = (y, *backward(dy, x, w, mean, rstd))
    pairs = zip(("y", "dx", "dw", "db"), found, right, strict=True)
    return {name: float(np.max(np.abs(fetch(got) - want))) for name, got, want in pairs}


def numpy_forward(x, w, b, eps: float = 1e-5):
    """The forward pass by array operations."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + eps) * w + b


def library_forward(x, w, b):
    """torch's layer norm on a GPU, array operations on a CPU."""
    if not on_gpu():
        return numpy_forward(x, w, b)
    import torch

    return torch.nn.functional.layer_norm(x, w.shape, w, b)


ROWS = 4096 if on_gpu() else 2048


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["columns"],
        x_vals=[256, 512, 1024, 2048, 4096],
        line_arg="provider",
        line_vals=["tritium", "library", "tritium-backward"],
        line_names=[
            "Tritium forward",
            f"{'torch' if on_gpu() else 'NumPy'} forward",
            "Tritium backward",
        ],
        xlabel=f"columns ({ROWS} rows)",
        ylabel="GB/s",
        plot_name="layer-norm",
        args={"rows": ROWS},
    )
)
def benchmark(rows, columns, provider):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    w, b = rng.random((2, columns), dtype=np.float32)
    x, w, b = map(place, (x, w, b))
    _, mean, rstd = forward(x, w, b)
    run, arrays = {
        "tritium": (lambda: forward(x, w, b), 2),
        "library": (lambda: library_forward(x, w, b), 2),
        "tritium-backward": (lambda: backward(x, x, w, mean, rstd), 3),
    }[provider]
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: arrays * x.nbytes / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Layer norm: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for name, value in check().items():
        print(f"{name}: largest difference from float64 {value:.2e}")
    benchmark.run(print_data=True, save_path=arguments.save)
