"""Configurations of matrix products, and their launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

import tritium.language as tl
from tritium_kernels.dense.kernels import matmul as kernels
from tritium_kernels.launching import descriptors
from tritium_kernels.launching.descriptors import blocks_of
from tritium_kernels.launching.launch import (
    cdiv,
    constant,
    device_class,
    on,
    power_of_two,
    processors,
)


@dataclass(frozen=True)
class Blocks:
    """Tile sizes of a product, warps and stages of the pipeline of its loop.

    Attributes:
        split_k: parts of every sum over k.
        alone: the stages where no program has two tiles, so that nothing is stored beside loads, or
            tiles are stored in halves; None for as many.
        sharers: programs that share the sums of the tiles that are left over when each has as many
            whole ones as the others (stream-K); 0: none do.
        halves: descriptors store each half of a tile's columns for itself, so that there is shared
            memory for the next tile's blocks and registers for what is added; programs that have
            more than one tile load by a warp of its own.
    """

    m: int
    n: int
    k: int
    warps: int
    stages: int
    split_k: int = 1
    alone: int | None = None
    sharers: int = 0
    halves: bool = False


#: By the class of device, then bytes of an element: products with many rows.
LARGE = {
    "cpu": {size: Blocks(64, 64, 128, 4, 1) for size in (1, 2, 4, 8)},
    "hopper": {
        1: Blocks(128, 256, 128, 8, 3, alone=4, halves=True),
        2: Blocks(128, 256, 64, 8, 3, alone=4, halves=True),
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

LOW = Blocks(64, 128, 128, 4, 4)
"""Hopper's tiles of 16-bit products of few columns and long sums: of half the rows and in longer
steps, so that processors have a tile each and no sums are left to add."""

MOST_SPLITS = 16

SHARING = 4096
"""Bytes along k whose product takes as long as sums that programs share take to be stored, read and
added up, of a tile in each program."""


LONG = 8192
"""Bytes along k from which on a processor reads faster than it computes tiles of 64 columns."""

COPIES = 160 << 10
"""Bytes of shared memory for the blocks of thin products that are on their way."""


def _narrow(blocks: Blocks, idle: Callable[[Blocks], bool]) -> Blocks:
    """Thin blocks of which there are enough for all processors, so that no sums are left to add:
    half as wide, with as many stages as keep memory busy; those of 64 rows in shorter steps."""
    while blocks.n > 32 and idle(blocks):
        blocks = replace(blocks, n=blocks.n // 2)
    if blocks.m > 32:
        blocks = replace(blocks, k=blocks.k // 2)
    return replace(blocks, stages=min(6, COPIES // (2 * blocks.k * (blocks.m + blocks.n))))


@lru_cache(maxsize=4096)
def choose(device: torch.device, dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Blocks:
    """The configuration of a product. Where tiles are fewer than processors, K is split or sums are
    shared; where they are more and sums are long, those of the tiles that come last are shared."""
    kind = device_class(device)
    size = dtype.itemsize
    if kind == "cpu":
        most = LARGE[kind][size] if m > 16 else THIN[kind]
        # What is past the ends of small matrices would be computed too.
        return replace(
            most, m=min(most.m, power_of_two(m)), n=min(most.n, max(16, power_of_two(n))),
            k=min(most.k, max(16, power_of_two(k))),
        )  # fmt: skip
    thin = m <= 64 and size <= 2
    blocks = THIN[kind] if thin else LARGE[kind][size]
    if thin:
        blocks = replace(blocks, m=max(16, power_of_two(m)))
    count = processors(device)

    def tiles_of(blocks: Blocks) -> int:
        return batch * cdiv(m, blocks.m) * cdiv(n, blocks.n)

    if thin and kind == "hopper":
        blocks = _narrow(blocks, lambda b: 2 * tiles_of(b) <= count)
    # Few columns and long sums: K is split, as each of several narrow tiles would read A again.
    long = kind == "hopper" and k * size >= LONG
    # A narrower tile loads more for each product: only where many processors would stay idle, or
    # half of it would be past the end.
    while not thin and blocks.n > 64 and (4 * tiles_of(blocks) < 3 * count or n <= blocks.n // 2):
        if long and blocks.n // 2 < n:
            break
        warps = 4 if blocks.n <= 128 else blocks.warps
        blocks = replace(blocks, n=blocks.n // 2, warps=warps, halves=False)
    if long and not thin and blocks.n == LOW.n and tiles_of(LOW) <= count and size == 2:
        blocks = LOW
    tiles = tiles_of(blocks)
    splits = 1
    while splits < MOST_SPLITS and 2 * splits * tiles <= count and k >= 4 * splits * blocks.k:
        splits *= 2
    stages = blocks.alone if blocks.alone is not None and tiles <= count else blocks.stages
    blocks = replace(blocks, split_k=splits, stages=stages)
    # What programs do one after the other, in elements along k.
    alike = cdiv(tiles, count) * k / splits
    shared = tiles * k / count + SHARING / size
    if splits > 1:
        alike += SHARING / size
    if tiles % count and k >= 8 * blocks.k and shared < 0.8 * alike:
        return replace(blocks, split_k=1, sharers=count)
    return blocks


Strides = tuple[int, ...]
"""Elements from batch to batch, row to row, column to column."""


def _is_large(rows: int, columns: int, strides: Strides) -> bool:
    """True if an offset in a matrix may not fit in int32."""
    # A tile reaches past the end of a matrix by less than a block.
    return (rows + 512) * strides[1] + (columns + 512) * strides[2] >= 1 << 31


Described = tuple[Any, bool]
"""An operand's descriptor, and whether it is of the transposed matrices."""


def _sum_dtype(a: Tensor) -> torch.dtype:
    """The type of sums of products."""
    if not a.dtype.is_floating_point:
        return torch.int32
    return torch.float64 if a.dtype == torch.float64 else torch.float32


_LANGUAGE = {torch.int32: tl.int32, torch.float32: tl.float32, torch.float64: tl.float64}


def _described(a: Tensor, b: Tensor, blocks: Blocks) -> tuple[Described, Described] | None:
    """Descriptors of both operands, if the device's engine can read them."""
    if a.shape[1] < blocks.m:
        return None
    left = blocks_of(a, blocks.m, blocks.k)
    right = blocks_of(b, blocks.k, blocks.n)
    if left is None or right is None or (b.itemsize == 1 and not right[1]):
        return None  # tensor cores take 8-bit elements of B along K only
    return left, right


def _launch_blocks(
    operands: tuple[Described, Described], y: Tensor, blocks: Blocks, tiles: int,
    after: tuple[object, ...], sizes: tuple[int, int, int], options: dict[str, object],
) -> None:  # fmt: skip
    """Launch the kernel that takes descriptors, for `tiles` tiles."""
    (left, right), extra, strides = operands, after[:5], after[5:]
    programs = min(tiles, processors(y.device))
    out = blocks_of(y, blocks.m, blocks.n // (1 + blocks.halves)) if y.itemsize <= 2 else None
    if out is not None and out[1]:
        out = None
    halves = blocks.halves and out is not None
    if halves:
        options = {**options, "STAGES": blocks.alone or blocks.stages}
    kernels.matmul_blocks[(programs,)](
        left[0], right[0], y if out is None else out[0], *extra, tiles, *sizes, *y.stride(),
        *strides, A_TRANSPOSED=left[1], B_TRANSPOSED=right[1], APART=halves and tiles > programs,
        HALVES=halves, **options,
    )  # fmt: skip


def _launch_shared(
    a: Tensor, b: Tensor, y: Tensor, blocks: Blocks, tiles: range,
    operands: tuple[Described, Described] | None, after: tuple[object, ...],
    options: dict[str, object],
) -> None:  # fmt: skip
    """Launch the kernels of tiles whose sums programs share."""
    m, k, n = *a.shape[1:], b.shape[2]
    programs, shape = blocks.sharers, (2 * blocks.sharers, blocks.m, blocks.n)
    pieces = torch.empty(shape, dtype=_sum_dtype(a), device=y.device)
    (left, left_turned), (right, right_turned) = operands or ((a, False), (b, False))
    same = {name: options[name] for name in ("ACC", "GROUP", "BLOCK_M", "BLOCK_N", "BLOCK_K")}
    kernels.matmul_shared[(programs,)](
        left, right, pieces, tiles.start, len(tiles), m, n, k, *a.stride(), *b.stride(),
        PRECISION=options["PRECISION"], A_TRANSPOSED=left_turned, B_TRANSPOSED=right_turned,
        STAGES=blocks.alone or blocks.stages, num_warps=blocks.warps, **same,
    )  # fmt: skip
    rows = min(16, blocks.m)
    extra, strides = after[:5], after[5:]
    kernels.finish_shared[(len(tiles) * (blocks.m // rows),)](
        pieces, y, *extra, tiles.start, len(tiles), programs, m, n, k, *y.stride(), *strides,
        KIND=options["KIND"], ROWS=rows, **same,
    )  # fmt: skip


def _launch_tiles(
    a: Tensor, b: Tensor, y: Tensor, blocks: Blocks, tiles: int, after: tuple[object, ...],
    options: dict[str, object],
) -> None:  # fmt: skip
    """Launch the kernel that reads operands through pointers, for `tiles` tiles."""
    (batch, m, k), n = a.shape, b.shape[2]
    extra, strides = after[:5], after[5:]
    split = blocks.split_k > 1
    parts = y
    if split:
        shape = (blocks.split_k * batch, m, n)
        parts = torch.empty(shape, dtype=_sum_dtype(a), device=y.device)
    kernels.matmul[tiles, blocks.split_k](
        a, b, parts, *extra, m, n, k, *a.stride(), *b.stride(), *parts.stride(), *strides,
        **_sizes_known(blocks, m, n, k, a.stride(), b.stride()), **options,
    )  # fmt: skip
    if split:
        kernels.finish[batch * cdiv(m, 16) * cdiv(n, 128),](
            parts, y, *extra, batch, m, n, *y.stride(), *strides, KIND=options["KIND"],
            ACC=options["ACC"], SPLIT_K=blocks.split_k, BLOCK_M=16, BLOCK_N=128,
        )  # fmt: skip


def _sizes_known(
    blocks: Blocks, m: int, n: int, k: int, a_strides: Strides, b_strides: Strides
) -> dict[str, object]:
    """The constants of the kernel of pointers that follow from the sizes."""
    return {
        "LARGE": _is_large(m, k, a_strides) or _is_large(k, n, b_strides),
        "SPLIT_K": blocks.split_k, "EVEN_M": m % blocks.m == 0, "EVEN_N": n % blocks.n == 0,
        "EVEN_K": k % (blocks.k * blocks.split_k) == 0,
    }  # fmt: skip


@lru_cache(maxsize=4096)
def _options(
    blocks: Blocks, activation: str | None, precision: str, sums: torch.dtype
) -> dict[str, object]:
    """The constants that all kernels of products have."""
    return {
        "KIND": constant(activation), "PRECISION": constant(precision), "ACC": _LANGUAGE[sums],
        "GROUP": 8, "BLOCK_M": blocks.m, "BLOCK_N": blocks.n, "BLOCK_K": blocks.k,
        "STAGES": blocks.stages, "num_warps": blocks.warps,
    }  # fmt: skip


def _added_strides(extra: Sequence[Tensor | None]) -> tuple[int, ...]:
    """The strides of (bias, a_scale, b_scale, residual, inner) as kernels take them."""
    for tensor in extra:
        if tensor is not None:
            break
    else:
        return _NOTHING_ADDED
    vectors, matrices = extra[:3], extra[3:]
    return (
        *(t.stride(0) if t is not None else 0 for t in vectors),
        *(s for t in matrices for s in (t.stride() if t is not None else (0, 0, 0))),
    )


_NOTHING_ADDED = (0,) * 9


Sizes = tuple[int, int, int, int]
"""batch, m, n, k."""


@lru_cache(maxsize=4096)
def _constants(
    blocks: Blocks, sums: torch.dtype, sizes: Sizes, a_strides: Strides, b_strides: Strides,
    activation: str | None, precision: str,
) -> dict[str, object]:  # fmt: skip
    """The constants of the kernel of pointers."""
    known = _sizes_known(blocks, *sizes[1:], a_strides, b_strides)
    return {**known, **_options(blocks, activation, precision, sums)}


def launch_plain(
    a: Tensor, b: Tensor, y: Tensor, extra: tuple[Tensor | None, ...], sizes: Sizes,
    a_strides: Strides, b_strides: Strides, activation: str | None, precision: str,
) -> bool:  # fmt: skip
    """`launch` by the kernel of pointers alone, for tensors of any rank that are such matrices: no
    views are made of them, and what follows from the sizes is known from the call before. False
    where another kernel is needed.

    extra: (bias, a_scale, b_scale, residual, inner). y, residual and inner are contiguous.
    """
    batch, m, n, k = sizes
    if device_class(a.device) in descriptors.COPY_ENGINES:
        return False
    blocks = choose(a.device, a.dtype, batch, m, n, k)
    if blocks.split_k > 1 or blocks.sharers:
        return False
    options = _constants(blocks, _sum_dtype(a), sizes, a_strides, b_strides, activation, precision)
    added = _NOTHING_ADDED
    if any(t is not None for t in extra):
        vectors = (t.stride(0) if t is not None else 0 for t in extra[:3])
        matrices = (s for t in extra[3:] for s in ((m * n, n, 1) if t is not None else (0, 0, 0)))
        added = (*vectors, *matrices)
    with on("matmul", "a", a):
        kernels.matmul[batch * cdiv(m, blocks.m) * cdiv(n, blocks.n), 1](
            a, b, y, *extra, m, n, k, *a_strides, *b_strides, m * n, n, 1, *added, **options
        )
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
    extra = (bias, a_scale, b_scale, residual, inner)
    after = (*extra, *_added_strides(extra))
    tiles = batch * cdiv(m, blocks.m) * cdiv(n, blocks.n)
    operands = _described(a, b, blocks)
    if operands is not None and blocks.split_k > 1:  # programs that share all tiles, evenly
        blocks = replace(blocks, split_k=1, sharers=blocks.split_k * tiles)
    whole = tiles - tiles % blocks.sharers if blocks.sharers else tiles
    options = _options(blocks, activation, precision, _sum_dtype(a))
    with on("matmul", "a", a):
        if whole < tiles:
            _launch_shared(a, b, y, blocks, range(whole, tiles), operands, after, options)
        if operands is None and whole:
            _launch_tiles(a, b, y, blocks, whole, after, options)
        elif operands is not None and whole:
            _launch_blocks(operands, y, blocks, whole, after, (m, n, k), options)


def launch_matrices(
    a: Tensor, b: Tensor, y: Tensor, bias: Tensor | None = None, residual: Tensor | None = None
) -> None:
    """y = a @ b + bias + residual, of matrices; y and residual are contiguous."""
    (m, k), n = a.shape, b.shape[1]
    extra = (bias, None, None, residual, None)
    strides = (0, *a.stride()), (0, *b.stride())
    if y.numel() and not launch_plain(a, b, y, extra, (1, m, n, k), *strides, None, "ieee"):
        added = None if residual is None else residual[None]
        launch(a[None], b[None], y[None], bias, residual=added)
