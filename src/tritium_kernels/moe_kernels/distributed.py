"""Rows written into the memory of other processes."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def has_expert(words_ptr, expert):
    """True if an expert's bit is set; -1 is no expert."""
    at = tl.maximum(expert, 0)
    word = tl.load(words_ptr + at // 32)
    return (expert >= 0) & (((word >> (at % 32)) & 1) != 0)


@tritium.jit
def dispatch(
    src_ptr, row_stride, column_stride, peers_ptr, words_ptr, words_stride, expert_ptr, order_ptr,
    first_token, columns, ACT: tl.constexpr, SHARDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write a token's row to the place of each of its experts, on the process that has it."""
    token = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(src_ptr + token * row_stride + j * column_stride, mask=j < columns)
    for a in tl.static_range(ACT):
        at = (first_token + token) * ACT + a
        expert = tl.load(expert_ptr + at).to(tl.int32)
        place = tl.load(order_ptr + at).to(tl.int64)
        for shard in tl.static_range(SHARDS):
            here = has_expert(words_ptr + shard * words_stride, expert) & (place >= 0)
            base = tl.load(peers_ptr + shard).to(tl.pointer_type(src_ptr.dtype.element_ty))
            tl.store(base + place * columns + j, x, mask=here & (j < columns))


@tritium.jit
def combine(
    src_ptr, row_stride, column_stride, peers_ptr, words_ptr, expert_ptr, order_ptr, share, columns,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write an expert's row to its token's process, if the expert is on this one."""
    row = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(order_ptr + row).to(tl.int64)
    expert = tl.load(expert_ptr + tl.maximum(at, 0)).to(tl.int32)
    here = has_expert(words_ptr, expert) & (at >= 0)
    mask = here & (j < columns)
    x = tl.load(src_ptr + row * row_stride + j * column_stride, mask=mask)
    at = tl.maximum(at, 0)
    base = tl.load(peers_ptr + at // share).to(tl.pointer_type(src_ptr.dtype.element_ty))
    tl.store(base + at % share * columns + j, x, mask=mask)
