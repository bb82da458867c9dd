"""Configurations of matrix products, and their launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

import tritium.language as tl
from tritium_kernels.dense.kernels import matmul as kernels
from tritium_kernels.descriptors import blocks_of
from tritium_kernels.launch import cdiv, constant, device_class, on, power_of_two, processors


@dataclass(frozen=True)
class Blocks:
    """Tile sizes of a product, warps and stages of the pipeline of its loop. `alone`: the stages
    where no program has two tiles, so that nothing is stored beside loads; None for as many."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    split_k: int = 1
    alone: int | None = None


#: By the class of device, then bytes of an element: products with many rows.
LARGE = {
    "cpu": {size: Blocks(64, 64, 128, 4, 1) for size in (1, 2, 4, 8)},
    "hopper": {
        1: Blocks(128, 256, 128, 8, 3, alone=4), 2: Blocks(128, 256, 64, 8, 3, alone=4),
        4: Blocks(128, 64, 32, 4, 3), 8: Blocks(32, 32, 16, 4, 2),
    },
    "gpu": {
        1: Blocks(128, 128, 64, 8, 3), 2: Blocks(128, 128, 32, 4, 3),
        4: Blocks(64, 64, 32, 4, 2), 8: Blocks(32, 32, 16, 4, 2),
    },
}  # fmt: skip

#: Products of few rows: each program takes a narrow strip of B, read once.
THIN = {
    "cpu": Blocks(16, 128, 256, 4, 1),
    "hopper": Blocks(16, 64, 256, 4, 3),
    "gpu": Blocks(16, 64, 64, 4, 3),
}

MOST_SPLITS = 16


@lru_cache(maxsize=4096)
def choose(device: torch.device, dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Blocks:
    """The configuration of a product; K is split where tiles are fewer than processors."""
    kind = device_class(device)
    size = dtype.itemsize
    if kind == "cpu":
        return LARGE[kind][size] if m > 16 else replace(THIN[kind], m=power_of_two(m))
    thin = m <= 64 and size <= 2
    blocks = THIN[kind] if thin else LARGE[kind][size]
    if thin:
        blocks = replace(blocks, m=max(16, power_of_two(m)))
    count = processors(device)
    while not thin and blocks.n > 64 and batch * cdiv(m, blocks.m) * cdiv(n, blocks.n) < count:
        blocks = replace(blocks, n=blocks.n // 2, warps=4 if blocks.n <= 128 else blocks.warps)
    tiles = batch * cdiv(m, blocks.m) * cdiv(n, blocks.n)
    splits = 1
    while splits < MOST_SPLITS and 2 * splits * tiles <= count and k >= 4 * splits * blocks.k:
        splits *= 2
    stages = blocks.alone if blocks.alone is not None and tiles <= count else blocks.stages
    return replace(blocks, split_k=splits, stages=stages)


def _is_large(*tensors: Tensor) -> bool:
    """Whether an offset may not fit in int32."""
    for t in tensors:
        (_, rows, columns), (_, down, across) = t.shape, t.stride()
        # A tile reaches past the end of a matrix by less than a block.
        if (rows + 512) * down + (columns + 512) * across >= 1 << 31:
            return True
    return False


def _launch_blocks(
    a: Tensor, b: Tensor, y: Tensor, blocks: Blocks, after: tuple[object, ...],
    options: dict[str, object],
) -> bool:  # fmt: skip
    """Launch the kernel that takes descriptors, if there are some for both operands."""
    if blocks.split_k > 1 or a.shape[1] < blocks.m:
        return False
    left = blocks_of(a, blocks.m, blocks.k)
    right = blocks_of(b, blocks.k, blocks.n)
    if left is None or right is None or (b.itemsize == 1 and not right[1]):
        return False  # tensor cores take 8-bit elements of B along K only
    out = blocks_of(y, blocks.m, blocks.n) if y.itemsize <= 2 else None
    (batch, m, k), n = a.shape, b.shape[2]
    tiles = batch * cdiv(m, blocks.m) * cdiv(n, blocks.n)
    extra, strides = after[:5], after[5:]
    kernels.matmul_blocks[(min(tiles, processors(a.device)),)](
        left[0], right[0], y if out is None or out[1] else out[0], *extra, batch, m, n, k,
        *y.stride(), *strides, A_TRANSPOSED=left[1], B_TRANSPOSED=right[1], **options,
    )  # fmt: skip
    return True


def launch(
    a: Tensor, b: Tensor, y: Tensor, bias: Tensor | None = None, a_scale: Tensor | None = None,
    b_scale: Tensor | None = None, residual: Tensor | None = None, inner: Tensor | None = None,
    activation: str | None = None, precision: str = "ieee",
) -> None:  # fmt: skip
    """y = activation(a @ b * scales + bias) + residual, of (batch, m, k) and (batch, k, n)."""
    batch, m, k = a.shape
    n = b.shape[2]
    if y.numel() == 0:
        return
    blocks = choose(a.device, a.dtype, batch, m, n, k)
    acc = tl.int32 if not a.dtype.is_floating_point else tl.float32
    if a.dtype == torch.float64:
        acc = tl.float64
    extra = (bias, a_scale, b_scale, residual, inner)
    strides = (
        *(t.stride(0) if t is not None else 0 for t in (bias, a_scale, b_scale)),
        *(s for t in (residual, inner) for s in (t.stride() if t is not None else (0, 0, 0))),
    )
    tiles = batch * cdiv(m, blocks.m) * cdiv(n, blocks.n)
    split = blocks.split_k > 1
    parts = y
    if split:
        dtype = torch.int32 if acc is tl.int32 else torch.float32
        parts = torch.empty((blocks.split_k * batch, m, n), dtype=dtype, device=y.device)
    options: dict[str, object] = {
        "KIND": constant(activation), "PRECISION": constant(precision), "ACC": acc, "GROUP": 8,
        "BLOCK_M": blocks.m, "BLOCK_N": blocks.n, "BLOCK_K": blocks.k, "STAGES": blocks.stages,
        "num_warps": blocks.warps,
    }  # fmt: skip
    with on("matmul", "a", a):
        if _launch_blocks(a, b, y, blocks, (*extra, *strides), options):
            return
        kernels.matmul[tiles, blocks.split_k](
            a, b, parts, *extra, m, n, k, *a.stride(), *b.stride(), *parts.stride(), *strides,
            LARGE=_is_large(a, b), SPLIT_K=blocks.split_k,
            EVEN_M=m % blocks.m == 0, EVEN_N=n % blocks.n == 0,
            EVEN_K=k % (blocks.k * blocks.split_k) == 0, **options,
        )  # fmt: skip
        if split:
            kernels.finish[batch * cdiv(m, 16) * cdiv(n, 128),](
                parts, y, *extra, batch, m, n, *y.stride(), *strides,
                KIND=constant(activation), ACC=acc, SPLIT_K=blocks.split_k, BLOCK_M=16, BLOCK_N=128,
            )  # fmt: skip
