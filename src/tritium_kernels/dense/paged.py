"""Decoding: attention of one query for each sequence to keys and values that stand in pages."""

from __future__ import annotations

import torch
from torch import Tensor

from tritium_kernels.dense.attention import DTYPES
from tritium_kernels.dense.attention_launch import MOST_DIMENSIONS, UNLIMITED, with_unit_stride
from tritium_kernels.dense.kernels import paged as kernels
from tritium_kernels.errors import (
    INDICES,
    LONGEST,
    check_integer,
    check_like,
    check_number,
    check_operand,
    check_rank,
    check_same_dtype,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.launch import cdiv, device_class, on, power_of_two, processors
from tritium_kernels.launching.operators import autocast, operator

BLOCKS = {"cpu": (64, 4, 1, 1), "hopper": (32, 2, 3, 4), "gpu": (32, 4, 3, 32)}
"""Keys of a step, counted for each head, warps, stages and the most rows of queries whose heads'
keys are in one tile, by the class of device."""

MOST_SPLITS = 64


def _heads(kv_heads: int, group: int, block: int, most_rows: int) -> int:
    """Heads of keys in one tile: a power of two that divides them."""
    heads = 1
    while kv_heads % (2 * heads) == 0 and 2 * heads * group <= most_rows and 2 * heads <= block:
        heads *= 2
    return heads


def _splits(device: torch.device, programs: int, most_keys: int, block: int) -> int:
    """Programs that share a sequence: two for each processor, of eight steps or more."""
    wanted = cdiv((1 if device.type == "cpu" else 2) * processors(device), programs)
    useful = max(1, most_keys // (8 * block))
    return min(power_of_two(wanted), power_of_two(useful), MOST_SPLITS)


def _check_pages(table: Tensor, lengths: Tensor, pages: int, rows: int) -> None:
    """Sequences are no longer than their pages, which exist: looks at the numbers themselves."""
    op, most = "paged_attention", table.shape[1] * rows
    low, high = (int(end) for end in lengths.aminmax())
    if low < 0 or high > most:
        found = f"has {low if low < 0 else high}"
        raise refuse(op, "lengths", found, f"0 to {most}, the rows of a sequence's pages")
    first = torch.arange(table.shape[1]) * rows
    used = table[first[None] < lengths[:, None]]
    if used.numel():
        low, high = (int(end) for end in used.aminmax())
        if low < 0 or high >= pages:
            found = f"has {low if low < 0 else high}"
            raise refuse(op, "table", found, f"0 to {pages - 1}, the pages")


@operator("paged_attention")
def paged_attention_op(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor, scale: float,
    left: int,
) -> Tensor:  # fmt: skip
    batch, heads, d = q.shape
    page, kv_heads, dv = v_pages.shape[1:]
    o = torch.empty((batch, heads, dv), dtype=q.dtype, device=q.device)
    if o.numel() == 0:
        return o
    if q.device.type == "cpu":
        _check_pages(table, lengths, k_pages.shape[0], page)
    q, k_pages, v_pages, table = map(with_unit_stride, (q, k_pages, v_pages, table))
    block, warps, stages, most_rows = BLOCKS[device_class(q.device)]
    group, dvp = heads // kv_heads, max(16, power_of_two(dv))
    each = _heads(kv_heads, group, block, most_rows)
    programs = batch * kv_heads // each
    splits = _splits(q.device, programs, table.shape[1] * page, block // each)
    acc = torch.empty((batch * heads * splits, dv), dtype=torch.float32, device=q.device)
    lse = torch.empty(batch * heads * splits, dtype=torch.float32, device=q.device)
    # Instructions of GPUs multiply 16 rows at least.
    rows = max(1 if q.device.type == "cpu" else 16, power_of_two(each * group))
    with on("paged_attention", "q", q):
        kernels.paged_part[(programs * splits,)](
            q, k_pages, v_pages, table, lengths.contiguous(), acc, lse, scale, kv_heads,
            left, *q.stride()[:2], *k_pages.stride()[:3], *v_pages.stride()[:3], table.stride(0),
            PAGE=page, GROUP=group, ROWS=rows, HEADS=each, SPLITS=splits,
            LEFT=left != UNLIMITED, D=d, DV=dv, DP=max(16, power_of_two(d)), DVP=dvp,
            BLOCK_N=block, STAGES=stages, num_warps=warps,
        )  # fmt: skip
        kernels.paged_sum[(batch * heads,)](
            acc, lse, o, heads, *o.stride()[:2], SPLITS=splits, DV=dv, DVP=dvp
        )
    return o


@paged_attention_op.register_fake
def _(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor, scale: float,
    left: int,
) -> Tensor:  # fmt: skip
    return torch.empty((*q.shape[:2], v_pages.shape[-1]), dtype=q.dtype, device=q.device)


def paged_attention(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor,
    scale: float | None = None, window: int | None = None,
) -> Tensor:  # fmt: skip
    """Attention of each sequence's last token to all of its keys; no gradient.

    Args:
        q: (batch, heads, d).
        k_pages, v_pages: (pages, rows of a page, kv_heads, d) and (..., d of v), any strides.
        table: int32 or int64 (batch, pages of a sequence): which pages hold a sequence's keys, in
            order. Entries past a sequence's length are not read.
        lengths: int32 or int64 (batch,): keys of each sequence; 0 gives zeros.
        window: earlier keys that the token sees besides its own; all if not given.
    """
    op = "paged_attention"
    q, k_pages, v_pages = autocast(q, k_pages, v_pages)
    check_tensor(op, "q", q, DTYPES)
    check_rank(op, "q", q, (3,))
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        check_tensor(op, name, pages, DTYPES)
        check_rank(op, name, pages, (4,))
        check_like(op, name, pages, "q", q)
        check_same_dtype(op, name, pages, "q", q)
        if not 1 <= pages.shape[-1] <= MOST_DIMENSIONS:
            found = f"has {pages.shape[-1]} elements in a head"
            raise refuse(op, name, found, f"1 to {MOST_DIMENSIONS}")
    if k_pages.shape[-1] != q.shape[-1] or k_pages.shape[:-1] != v_pages.shape[:-1]:
        accepted = f"{(*v_pages.shape[:-1], q.shape[-1])}"
        raise refuse(op, "k_pages", f"has shape {tuple(k_pages.shape)}", accepted)
    kv_heads = k_pages.shape[2]
    if not kv_heads or q.shape[1] % kv_heads:
        accepted = f"a number that divides q's, {q.shape[1]}"
        raise refuse(op, "k_pages", f"has {kv_heads} heads", accepted)
    check_tensor(op, "table", table, INDICES)
    check_rank(op, "table", table, (2,))
    check_operand(op, "table", table, (q.shape[0], table.shape[1]), "q", q, INDICES)
    check_operand(op, "lengths", lengths, (q.shape[0],), "q", q, INDICES)
    if window is not None:
        check_integer(op, "window", window, 0, LONGEST, f"0 to {LONGEST}, or None")
    if scale is not None:
        check_number(op, "scale", scale, "a number, or None")
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    left = UNLIMITED if window is None else window
    return paged_attention_op(q, k_pages, v_pages, table, lengths, scale, left)
