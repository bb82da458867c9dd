"""Elements of each row whose column has a bit set, moved to the left."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def compaction(
    v_ptr, i_ptr, words_ptr, row_stride, word_stride, out_v_ptr, out_i_ptr, sentinel,
    K: tl.constexpr, KP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, KP)
    index = tl.load(i_ptr + row * K + k, mask=k < K, other=-1).to(tl.int32)
    inside = (k < K) & (index >= 0)
    places = words_ptr + row * row_stride + (index // 32) * word_stride
    word = tl.load(places, mask=inside, other=0)
    keep = inside & (((word >> (index % 32)) & 1) != 0)
    rank = tl.cumsum(keep.to(tl.int32), 0)
    count = tl.sum(keep.to(tl.int32), 0)
    # What is not kept fills the right, in any order: it is the sentinel.
    place = tl.where(keep, rank - 1, count + k - rank)
    v = tl.load(v_ptr + row * K + k, mask=k < K)
    v = tl.where(keep, v, sentinel).to(out_v_ptr.dtype.element_ty)
    tl.store(out_v_ptr + row * K + place, v, mask=k < K)
    index = tl.where(keep, index, sentinel).to(out_i_ptr.dtype.element_ty)
    tl.store(out_i_ptr + row * K + place, index, mask=k < K)
