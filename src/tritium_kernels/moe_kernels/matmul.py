"""Products of a ragged or batched matrix with a matrix for each slice: rows gathered and scattered,
MX operands and results, scales, functions of the result, sums in parts, persistent programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tritium
import tritium.language as tl
from tritium_kernels.meta import takes
from tritium_kernels.moe_kernels.flexpoint import float_to_flex, load_scale
from tritium_kernels.moe_kernels.layouts import (
    load_scale_words,
    load_words,
    mxfp4_to_bf16_triton,
    swizzle_act_mx_scale_bw_store_ptr,
    unswizzle_mx_scale_bw,
    unswizzle_mx_scale_cdna4,
    unswizzle_mx_scale_gfx1250,
    unswizzle_mxfp4_scale_hopper,
    widen_half,
)
from tritium_kernels.moe_kernels.mxfp import block_of, from_scale


class Matrix(NamedTuple):
    """An operand: memory, strides of batches, rows and columns; the same of its scales, along k.

    `flex`: its factor, one or, with `flex_z` 1, one for each batch.
    """

    ptr: Any
    z: Any
    row: Any
    column: Any
    scale: Any
    scale_z: Any
    scale_row: Any
    scale_k: Any
    flex: Any
    flex_z: Any


class Result(NamedTuple):
    """The result: memory, strides of parts of the sum, batches, rows and columns; the same of its
    MX scales; its flexpoint scales; and of the matrix `acc` that is added to products."""

    ptr: Any
    part: Any
    z: Any
    row: Any
    column: Any
    scale: Any
    scale_z: Any
    scale_row: Any
    scale_column: Any
    expected: Any
    actual: Any
    checksum: Any
    flex_z: Any
    acc: Any
    acc_z: Any
    acc_row: Any
    acc_column: Any
    acc_flex: Any


class Rows(NamedTuple):
    """The source and the target of each row of the product, and factors of its bias and result."""

    gather: Any
    scatter: Any
    betas: Any
    gammas: Any


class Slices(NamedTuple):
    """Rows and first row of each slice, the slice of each block; its first block of scales, of a
    or the result; where slices of k begin in b, None: where they do in a."""

    sizes: Any
    offsets: Any
    schedule: Any
    scale_blocks: Any
    b_offsets: Any


class Bias(NamedTuple):
    ptr: Any
    z: Any
    column: Any


class Part(NamedTuple):
    """Rows of a tile: their numbers in the slice, which of them are inside of it and of the result,
    their places among the rows of all slices, sources, which of these exist, and targets."""

    i: Any
    inside: Any
    place: Any
    source: Any
    exists: Any
    target: Any


class Size(NamedTuple):
    """Batches, rows, columns, elements along k, of a and of b, tiles along m."""

    z: Any
    m: Any
    n: Any
    k: Any
    k_of_b: Any
    tiles_m: Any


class Comm(NamedTuple):
    """Addresses of the processes' results (None: there is one), and the part of a row to write."""

    handles: Any
    part: Any


@dataclass(frozen=True)
class Form:
    """The facts for which a kernel is compiled.

    Attributes:
        n: columns of a tile that make one of the result.
        ragged_k: slices are parts of the sum over k.
        persistent: programs compute tiles until there are none left.
        a_format, b_format: of scaled products; None: elements are numbers.
        a_pack, b_pack, out_pack: elements of a byte, of a and b along k.
        b_across: bytes of b hold two columns.
        a_desc, b_desc: 0: read through pointers; 1: by a descriptor; 2: k is its other dimension.
        a_swizzled: a's scales lie as Blackwell reads them.
        b_layout, b_scale_layout: names of layouts; None: strides say it all.
        tile_k, tile_n: of a layout in tiles.
        swap: (b.T @ a.T).T is computed.
        halves: b is widened in two halves along k.
        skip_rows: rows past the end of a slice are not read from a.
        tail_m: rows that a tile has beside `block_m` where no more are left of the slice; 0: none.
        even_n: tiles have no columns past the last.
        saturate: results are cut off at the largest number of their type.
        mx: the result has MX scales; `mx_blocks`: as Blackwell reads them, in blocks of the rows of
            a "BATCH" or of "SLICES"; None: by strides.
        shards: processes of a group that get the result.
        index: the type of offsets.
    """

    n: int
    ragged_k: bool
    persistent: bool
    split_k: int
    group_m: int
    xcds: int
    subtile: int
    a_format: str | None
    b_format: str | None
    a_pack: int
    b_pack: int
    out_pack: int
    b_across: bool
    a_desc: int
    b_desc: int
    a_swizzled: bool
    b_layout: str | None
    b_scale_layout: str | None
    tile_k: int
    tile_n: int
    cache: str
    precision: str
    imprecise: int | None
    swap: bool
    halves: bool
    skip_rows: bool
    tail_m: int
    even_n: bool
    saturate: bool
    mx: bool
    mx_blocks: str | None
    shards: int
    index: Any
    block_m: int
    block_n: int
    block_k: int
    stages: int


@tritium.jit
def load_tile(ptrs, k, left, ACROSS: tl.constexpr, CACHE: tl.constexpr):
    """A tile whose elements from `left` on along k are 0."""
    if ACROSS:
        return tl.load(ptrs, mask=k[None, :] < left, other=0, cache_modifier=CACHE)
    else:
        return tl.load(ptrs, mask=k[:, None] < left, other=0, cache_modifier=CACHE)


@tritium.jit
def ordered(pid, total, tiles_m, tiles_n, GROUP_M: tl.constexpr, XCDS: tl.constexpr):
    """(batch and part, tile along m, tile along n) of a program: neighbours on one die, and in
    groups of rows that share what they read of b."""
    if XCDS > 1:
        tall = total % XCDS
        tall = tl.where(tall == 0, XCDS, tall)
        most = tl.cdiv(total, XCDS)
        die = pid % XCDS
        before = tl.where(die < tall, die * most, tall * most + (die - tall) * (most - 1))
        pid = before + pid // XCDS
    plane = pid // (tiles_m * tiles_n)
    pid = pid % (tiles_m * tiles_n)
    if GROUP_M == 1:
        return plane, pid // tiles_n, pid % tiles_n
    else:
        group = pid // (GROUP_M * tiles_n)
        height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
        within = pid % (GROUP_M * tiles_n)
        return plane, group * GROUP_M + within % height, within // height


@tritium.jit
def load_b_scale(b, z, start, k, n, tile_n, column, F: tl.constexpr):
    """Scales of a tile of b: (block_n, block_k / block), for Hopper's layout the other way, or
    words of four, (block_k / 128, block_n), where b is in Hopper's layout too."""
    SIZE: tl.constexpr = block_of(b.scale)
    SCALES: tl.constexpr = F.block_k // SIZE
    if F.b_scale_layout == "HOPPER_SCALE":
        row = start // 128 + tl.arange(0, SCALES // 4)
        at = tile_n * F.block_n + tl.arange(0, F.block_n)
        words = (b.scale + z * b.scale_z).to(tl.pointer_type(tl.uint32), bitcast=True)
        mask = (row < tl.cdiv(k, 128))[:, None] & (at < n)[None, :]
        places = words + row[:, None].to(tl.int64) * (b.scale_row // 4) + at[None, :]
        x = tl.load(places, mask=mask, other=0x7F7F7F7F)  # words, not bytes, are copied ahead
        if F.b_layout == "HOPPER_VALUE":
            return x
        x = (x[:, :, None] >> (8 * tl.arange(0, 4).to(tl.uint32))[None, None, :]).to(tl.uint8)
        return unswizzle_mxfp4_scale_hopper(tl.reshape(x, (SCALES // 4, 4 * F.block_n)), 0, 8)
    elif F.b_scale_layout is not None:
        ROWS: tl.constexpr = 32 if F.b_scale_layout == "CDNA4_SCALE" else 128
        row = tile_n * (F.block_n // ROWS) + tl.arange(0, F.block_n // ROWS)
        at = start // SIZE * ROWS + tl.arange(0, SCALES * ROWS)
        mask = (row < tl.cdiv(n, ROWS))[:, None] & (at < b.scale_row)[None, :]
        places = b.scale + z * b.scale_z + row[:, None].to(tl.int64) * b.scale_row + at[None, :]
        x = tl.load(places, mask=mask, other=0)
        if F.b_scale_layout == "BLACKWELL_SCALE":
            return unswizzle_mx_scale_bw(x)
        elif F.b_scale_layout == "CDNA4_SCALE":
            return unswizzle_mx_scale_cdna4(x, F.block_n, SCALES)
        else:
            return unswizzle_mx_scale_gfx1250(x, F.block_n, SCALES)
    else:
        s = start // SIZE + tl.arange(0, SCALES)
        places = b.scale + z * b.scale_z + column[:, None].to(tl.int64) * b.scale_row
        places += s[None, :].to(tl.int64) * b.scale_k
        return tl.load(places, mask=s[None, :] < tl.cdiv(k, SIZE), other=0)


@tritium.jit
def load_a_scale(a, z, start, k, source, scale_block, i, F: tl.constexpr):
    """Scales of a tile of a, (rows, block_k / block)."""
    SIZE: tl.constexpr = block_of(a.scale)
    s = start // SIZE + tl.arange(0, F.block_k // SIZE)
    if F.a_swizzled:
        places = swizzle_act_mx_scale_bw_store_ptr(
            a.scale, i[:, None], s[None, :], scale_block, a.scale_z, a.scale_row, a.scale_k, 1
        )
    else:
        places = a.scale + z * a.scale_z + source[:, None].to(tl.int64) * a.scale_row
        places += s[None, :].to(tl.int64) * a.scale_k
    return tl.load(places, mask=s[None, :] < tl.cdiv(k, SIZE), other=0)


@tritium.jit
def scale_of_part(a, z, start, k, part, scale_block, F: tl.constexpr):
    """The same of the rows of a part, None where a has no scales."""
    if a.scale is None:
        return None
    else:
        source = tl.where(part.exists, part.source, 0)
        return load_a_scale(a, z, start, k, source, scale_block, part.i, F)


@tritium.jit
def scaled(x, scale):
    """bfloat16 of elements, k last, times their scales, if there are any."""
    y = x.to(tl.bfloat16)
    if scale is not None:
        SIZE: tl.constexpr = block_of(scale)
        factor = from_scale(scale).to(tl.bfloat16)
        y = tl.reshape(y, (x.shape[0], x.shape[1] // SIZE, SIZE)) * factor[:, :, None]
        y = tl.reshape(y, x.shape)
    return y


@tritium.jit
def load_a(a_desc, a_ptrs, z, row, part, start, last, F: tl.constexpr):
    """A tile of a, (rows of the part, block_k / pack). With `skip_rows` only rows that are inside
    and exist are read, others are 0: the last tile of a slice may have few."""
    COLUMNS: tl.constexpr = F.block_k // F.a_pack
    if F.a_desc == 1:
        x = a_desc.load([z.to(tl.int32), row, start // F.a_pack])
        return tl.reshape(x, (F.block_m, COLUMNS))
    elif F.a_desc == 2:
        x = a_desc.load([z.to(tl.int32), start // F.a_pack, row])
        return tl.trans(tl.reshape(x, (COLUMNS, F.block_m)))
    else:
        left = tl.cdiv(last - start, F.a_pack)
        if F.skip_rows:
            mask = (part.inside & part.exists)[:, None] & (tl.arange(0, COLUMNS) < left)[None, :]
            return tl.load(a_ptrs, mask=mask, other=0)
        return load_tile(a_ptrs, tl.arange(0, COLUMNS), left, True, "")


@tritium.jit
def load_b(b, b_desc, b_ptrs, z, start, last, first_column, n, F: tl.constexpr):
    """A tile of b, (block_k / pack, block_n); of words (block_k / 128, 16 * block_n) for
    Hopper's."""
    ROWS: tl.constexpr = F.block_k // F.b_pack
    if F.b_layout == "HOPPER_VALUE":
        row = start // 128 + tl.arange(0, F.block_k // 128)
        at = first_column * 16 + tl.arange(0, F.block_n * 16)
        words = (b.ptr + z * b.z).to(tl.pointer_type(tl.uint32), bitcast=True)
        mask = (row < tl.cdiv(last, 128))[:, None] & (at < n * 16)[None, :]
        places = words + row[:, None].to(tl.int64) * (b.row // 4) + at[None, :]
        return tl.load(places, mask=mask, other=0, cache_modifier=F.cache)
    elif F.b_layout == "BLACKWELL_VALUE_SHUFFLED":
        # Strides lead from one of the layout's tiles to the next.
        BYTES: tl.constexpr = F.tile_k // 2
        kb = start // 2 + tl.arange(0, ROWS)
        j = first_column + tl.arange(0, F.block_n)
        places = b.ptr + z * b.z + (kb // BYTES).to(tl.int64)[:, None] * b.row
        places += (j // F.tile_n).to(tl.int64)[None, :] * b.column
        places += (kb % BYTES)[:, None] + (j % F.tile_n)[None, :] * BYTES
        mask = (kb < tl.cdiv(last, 2))[:, None] & (j < n)[None, :]
        return tl.load(places, mask=mask, other=0, cache_modifier=F.cache)
    elif F.b_desc == 1:
        x = b_desc.load([z.to(tl.int32), start // F.b_pack, first_column])
        return tl.reshape(x, (ROWS, F.block_n))
    elif F.b_desc == 2:
        x = b_desc.load([z.to(tl.int32), first_column, start // F.b_pack])
        return tl.trans(tl.reshape(x, (F.block_n, ROWS)))
    else:
        # Slices of k may end within a byte: what is past the end meets zeros of the other operand.
        left = tl.cdiv(last - start, F.b_pack)
        return load_tile(b_ptrs, tl.arange(0, ROWS), left, False, F.cache)


@tritium.jit
def add_product(x, x_scale, w, w_scale, acc, F: tl.constexpr):
    """acc, or its transpose, plus x @ w."""
    if F.b_layout == "HOPPER_VALUE":
        AXIS: tl.constexpr = 1 if F.swap else 0
        if F.b_scale_layout == "HOPPER_SCALE":
            w = mxfp4_to_bf16_triton(w, w_scale, AXIS)
        elif block_of(w_scale) == 32:
            w = mxfp4_to_bf16_triton(w, w_scale if F.swap else tl.trans(w_scale), AXIS)
        else:
            w = scaled(mxfp4_to_bf16_triton(w, None, 1), w_scale)
            w = w if F.swap else tl.trans(w)
        x = scaled(x, x_scale)
    elif F.b_scale_layout == "HOPPER_SCALE":
        w_scale = tl.trans(w_scale)
    if F.b_format is None or F.b_layout == "HOPPER_VALUE":
        if F.swap:
            x, w = w if F.b_layout == "HOPPER_VALUE" else tl.trans(w), tl.trans(x)
        return tl.dot(
            x, w, acc, input_precision=F.precision, max_num_imprecise_acc=F.imprecise
        )
    elif F.swap:
        return tl.dot_scaled(
            tl.trans(w), w_scale, F.b_format, tl.trans(x), x_scale, F.a_format, acc,
            lhs_k_pack=not F.b_across,
        )  # fmt: skip
    else:
        return tl.dot_scaled(
            x, x_scale, F.a_format, w, w_scale, F.b_format, acc, rhs_k_pack=not F.b_across
        )


@tritium.jit
def from_slice_of_k(x, first, stride, scale_stride, WORD: tl.constexpr, BLOCK: tl.constexpr):
    """The part of an operand from element `first` of k on. WORD elements of k are `stride` apart;
    the scales of BLOCK elements `scale_stride` (BLOCK = 0: of as many as share a scale)."""
    scale = x.scale
    if scale is not None:
        SIZE: tl.constexpr = BLOCK if BLOCK else block_of(scale)
        scale += first // SIZE * scale_stride
    return Matrix(
        x.ptr + first // WORD * stride, x.z, x.row, x.column, scale, x.scale_z, x.scale_row,
        x.scale_k, x.flex, x.flex_z,
    )  # fmt: skip


@tritium.jit
def places_in_a(a, part, COLUMNS: tl.constexpr, F: tl.constexpr):
    """The places of the elements of a tile from the first row and step of k on: half the registers
    of as many pointers, and one instruction a pointer in each step."""
    ka = tl.arange(0, COLUMNS)
    rows = tl.where(part.exists, part.source, 0)[:, None].to(F.index) * a.row
    return rows + ka[None, :].to(F.index) * a.column


@tritium.jit
def zeros_for(part, F: tl.constexpr):
    """The sums of a tile before its first product."""
    ROWS: tl.constexpr = part.i.shape[0]
    SHAPE: tl.constexpr = (F.block_n, ROWS) if F.swap else (ROWS, F.block_n)
    return tl.zeros(SHAPE, tl.float32)


@tritium.jit
def product(a, b, a_desc, b_desc, za, zb, parts, scale_block, row, tile_n, n, k, first, last,
            F: tl.constexpr):  # fmt: skip
    """The sums over k from `first` to `last` of the rows of a tile, in one or two parts, that share
    what is read of b: (rows of the part, block_n) of each."""
    j = tile_n * F.block_n + tl.arange(0, F.block_n)
    column = (j if F.even_n else j % n).to(F.index)
    kb = first // F.b_pack + tl.arange(0, F.block_k // F.b_pack)
    a_ptr = a.ptr + za * a.z + (first // F.a_pack).to(F.index) * a.column
    places = places_in_a(a, parts[0], F.block_k // F.a_pack, F)
    b_ptrs = b.ptr + zb * b.z + kb[:, None].to(F.index) * b.row
    if F.b_across:
        pair = tile_n * (F.block_n // 2) + tl.arange(0, F.block_n // 2)
        b_ptrs += (pair % (n // 2)).to(F.index)[None, :] * b.column
    else:
        b_ptrs += column[None, :] * b.column
    PARTS: tl.constexpr = len(parts)
    acc = zeros_for(parts[0], F)
    if PARTS == 2:
        tail_places = places_in_a(a, parts[1], F.block_k // F.a_pack, F)
        tail = zeros_for(parts[1], F)
    for start in tl.range(first, last, F.block_k, num_stages=F.stages):
        x = load_a(a_desc, a_ptr + places, za, row, parts[0], start, last, F)
        if PARTS == 2:
            y = load_a(a_desc, a_ptr + tail_places, za, row, parts[1], start, last, F)
        w = load_b(b, b_desc, b_ptrs, zb, start, last, tile_n * F.block_n, n, F)
        w_scale = None
        if b.scale is not None:
            w_scale = load_b_scale(b, zb, start, k, n, tile_n, column, F)
        x_scale = scale_of_part(a, za, start, k, parts[0], scale_block, F)
        acc = add_product(x, x_scale, w, w_scale, acc, F)
        if PARTS == 2:
            x_scale = scale_of_part(a, za, start, k, parts[1], scale_block, F)
            tail = add_product(y, x_scale, w, w_scale, tail, F)
        a_ptr += (F.block_k // F.a_pack) * a.column
        b_ptrs += (F.block_k // F.b_pack) * b.row
    acc = tl.trans(acc) if F.swap else acc
    if PARTS == 1:
        return (acc,)
    else:
        return acc, tl.trans(tail) if F.swap else tail


@tritium.jit
def load_half(ptr, places, part, left):
    """Half of a tile of a along k, as bfloat16 columns; of rows that are inside and exist."""
    mask = (part.inside & part.exists)[:, None] & (tl.arange(0, places.shape[1]) < left)[None, :]
    return tl.trans(tl.load(ptr + places, mask=mask, other=0).to(tl.bfloat16))


@tritium.jit
def load_half_block(a_desc, z, row, start, F: tl.constexpr):
    """The same of rows that follow each other, by a descriptor: those past the end of a slice are
    others."""
    x = a_desc.load([z.to(tl.int32), row, start])
    return tl.trans(tl.reshape(x, (F.block_m, F.block_k // 2)).to(tl.bfloat16))


@tritium.jit
def product_in_halves(
    a, b, a_desc, za, zb, parts, row, tile_n, n, k, first, last, F: tl.constexpr
):  # fmt: skip
    """The same where b is widened in registers: each half along k while tensor cores multiply the
    one before."""
    HALF: tl.constexpr = F.block_k // 2
    PARTS: tl.constexpr = len(parts)
    a_ptr = a.ptr + za * a.z + first.to(F.index) * a.column
    places = places_in_a(a, parts[0], HALF, F)
    acc = zeros_for(parts[0], F)
    if PARTS == 2:
        tail_places = places_in_a(a, parts[1], HALF, F)
        tail = zeros_for(parts[1], F)
    step = b.row // 4
    words_ptr = (b.ptr + zb * b.z).to(tl.pointer_type(tl.uint32), bitcast=True)
    words_ptr += (first // 128).to(tl.int64) * step
    scale_step = b.scale_row // 4
    scale_ptr = (b.scale + zb * b.scale_z).to(tl.pointer_type(tl.uint32), bitcast=True)
    scale_ptr += (first // 128).to(tl.int64) * scale_step
    for start in tl.range(first, last, F.block_k, num_stages=F.stages):
        middle = a_ptr + HALF * a.column
        left = last - start
        part = parts[0]
        if F.a_desc:
            x = load_half_block(a_desc, za, row, start, F)
            x = x, load_half_block(a_desc, za, row, start + HALF, F)
        else:
            x = load_half(a_ptr, places, part, left), load_half(middle, places, part, left - HALF)
        if PARTS == 2:
            part = parts[1]
            y = load_half(a_ptr, tail_places, part, left)
            y = y, load_half(middle, tail_places, part, left - HALF)
        going = start < last
        words = load_words(words_ptr, going, tile_n, n, 0, F)
        words = words, load_words(words_ptr, going, tile_n, n, 1, F)
        scale = load_scale_words(scale_ptr, going, tile_n, n, F)
        for h in tl.static_range(2):
            w = widen_half(words[h], scale, h == 1)
            acc = tl.dot(w, x[h], acc, max_num_imprecise_acc=F.imprecise)
            if PARTS == 2:
                tail = tl.dot(w, y[h], tail, max_num_imprecise_acc=F.imprecise)
        a_ptr += F.block_k * a.column
        words_ptr += step
        scale_ptr += scale_step
    if PARTS == 1:
        return (tl.trans(acc),)
    else:
        return tl.trans(acc), tl.trans(tail)


@tritium.jit
def finish(
    acc, a, b, y, bias, rows, z, place, target, inside, tile_n, first, n, alpha, acc_scale,
    ACTIVATION, activation_args, F: tl.constexpr,
):  # fmt: skip
    """ACTIVATION(alpha * (acc + bias * betas)) * gammas + `y.acc`.

    The first part of a divided sum has the bias and `y.acc`.
    """
    column = tile_n * F.block_n + tl.arange(0, F.block_n)
    if a.flex is not None:
        acc *= load_scale(a.flex + z * a.flex_z)
    if b.flex is not None:
        acc *= load_scale(b.flex + z * b.flex_z)
    if acc_scale is not None:
        acc *= acc_scale
    if bias.ptr is not None:
        places = bias.ptr + z * bias.z + column.to(F.index) * bias.column
        values = tl.load(places, mask=first & (column < n), other=0.0).to(tl.float32)[None, :]
        if rows.betas is not None:
            values = values * tl.load(rows.betas + place).to(tl.float32)[:, None]
        acc += values
    if alpha is not None:
        acc *= load_scale(alpha) if alpha.dtype.is_ptr() else alpha
    if ACTIVATION is not None:
        acc = ACTIVATION(acc, *activation_args)
    if rows.gammas is not None:
        acc *= tl.load(rows.gammas + place).to(tl.float32)[:, None]
    if y.acc is not None:
        column = tile_n * (F.block_n // F.n) + tl.arange(0, F.block_n // F.n)
        places = y.acc + z * y.acc_z + target[:, None] * y.acc_row
        mask = (inside & first)[:, None] & (column < n // F.n)[None, :]
        places += column[None, :].to(F.index) * y.acc_column
        added = tl.load(places, mask=mask, other=0.0).to(tl.float32)
        acc += added if y.acc_flex is None else added * tl.load(y.acc_flex)
    return acc


@tritium.jit
def store_elsewhere(
    out, y, base_row, row, base_column, column, mask, columns, comm, DESTINATION, destination_args,
    SHARDS: tl.constexpr,
):  # fmt: skip
    """Store a tile to the results of a group of SHARDS processes, into this process's part of each
    row there."""
    shard = None
    if DESTINATION is not None:
        shard, row, column = DESTINATION(base_row, row, base_column, column, *destination_args)
    at = row.to(tl.int64)[:, None] * y.row + comm.part * columns + column[None, :]
    for i in tl.static_range(SHARDS):
        peer = (comm.part + i) % SHARDS
        if shard is not None:
            peer += shard * SHARDS
        if shard is None or len(shard.shape) == 0:
            base = tl.load(comm.handles + peer)
        else:
            peer = tl.broadcast_to(peer, mask.shape)
            base = tl.load(comm.handles + peer, mask=mask, other=0)
        tl.store(base.to(tl.pointer_type(y.ptr.dtype.element_ty)) + at, out, mask=mask)


@tritium.jit
def store_columns(
    out, y, y_ptr, z, base_row, target, inside, scale_row, scale_block, first_column, columns,
    comm, EPILOGUE, epilogue_args, DESTINATION, destination_args, F: tl.constexpr,
):  # fmt: skip
    """Store the columns of a tile from `first_column` on, as what the result holds."""
    WIDTH: tl.constexpr = out.shape[1]
    j = first_column + tl.arange(0, WIDTH)
    mask = inside[:, None] & (j < columns)[None, :]
    if F.mx:
        # Columns past the last have no part in the scale of their block.
        out = tl.where((j < columns)[None, :], out, 0.0)
        if y.expected is not None:
            out /= load_scale(y.expected + z * y.flex_z)
        if takes(EPILOGUE, "mask"):
            out, scale = EPILOGUE(out, mask, *epilogue_args)
        else:
            out, scale = EPILOGUE(out, *epilogue_args)
        SIZE: tl.constexpr = block_of(y.scale)
        s = first_column // SIZE + tl.arange(0, WIDTH // SIZE)
        if F.mx_blocks is not None:
            places = swizzle_act_mx_scale_bw_store_ptr(
                y.scale, scale_row[:, None], s[None, :], scale_block, y.scale_z, y.scale_row,
                y.scale_column, 1,
            )  # fmt: skip
        else:
            places = y.scale + z * y.scale_z + scale_row[:, None] * y.scale_row
            places += s[None, :].to(F.index) * y.scale_column
        tl.store(places, scale, mask=inside[:, None] & (s * SIZE < columns)[None, :])
        j = first_column // F.out_pack + tl.arange(0, WIDTH // F.out_pack)
        mask = inside[:, None] & (j * F.out_pack < columns)[None, :]
    else:
        if EPILOGUE is not None:
            if takes(EPILOGUE, "target_dtype"):
                out = EPILOGUE(out, *epilogue_args, target_dtype=y.ptr.dtype.element_ty)
            else:
                out = EPILOGUE(out, *epilogue_args)
        expected = None if y.expected is None else y.expected + z * y.flex_z
        actual = None if y.actual is None else y.actual + z * y.flex_z
        out = float_to_flex(out, expected, actual, y.checksum, mask, y.ptr, F.saturate)
    out = out.to(y.ptr.dtype.element_ty)
    if comm.handles is not None:
        first = first_column // F.out_pack
        store_elsewhere(out, y, base_row, target, first, j, mask, columns // F.out_pack, comm,
                        DESTINATION, destination_args, F.shards)  # fmt: skip
    else:
        places = y_ptr + z * y.z + target[:, None] * y.row + j[None, :].to(F.index) * y.column
        tl.store(places, out, mask=mask)


@tritium.jit
def halves(x):
    """The left and the right columns of a tile."""
    return tl.split(tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)))


@tritium.jit
def rows_of_part(begin, m, first_row, rows, ROWS: tl.constexpr):
    """ROWS rows from `begin` on of a slice of m rows."""
    i = begin + tl.arange(0, ROWS)
    inside = i < m
    place = first_row + tl.where(inside, i, 0)
    source = place
    if rows.gather is not None:
        source = tl.load(rows.gather + place).to(tl.int32)
    exists = source >= 0  # a row that is gathered from nowhere (-1) is zero
    target = place.to(tl.int64)
    if rows.scatter is not None:
        target = tl.load(rows.scatter + place).to(tl.int64)
    return Part(i, inside & (target >= 0), place, source, exists, target)


@tritium.jit
def compute_parts(
    parts, a, b, y, a_desc, b_desc, bias, rows, za, zb, zy, z, part, row, scale_block, result_block,
    tile_n, n, k, comm, alpha, acc_scale, ACTIVATION, activation_args, EPILOGUE, epilogue_args,
    DESTINATION, destination_args, F: tl.constexpr,
):  # fmt: skip
    """The results of a tile's rows, in one or two parts, of one part of the sum."""
    steps = tl.cdiv(tl.cdiv(k, F.block_k), F.split_k) * F.block_k
    first = part * steps
    last = tl.minimum(k, first + steps)
    if F.halves:
        sums = product_in_halves(
            a, b, a_desc, za, zb, parts, row, tile_n, n, k, first, last, F
        )  # fmt: skip
    else:
        sums = product(
            a, b, a_desc, b_desc, za, zb, parts, scale_block, row, tile_n, n, k, first, last, F
        )
    WIDTH: tl.constexpr = F.block_n // F.n // F.subtile
    y_ptr = y.ptr + part * y.part
    for q in tl.static_range(len(parts)):
        these = parts[q]
        # Scales are those of a batch, or of a slice; results of slices of rows are in one matrix.
        out = sums[q] if F.skip_rows else tl.where(these.exists[:, None], sums[q], 0.0)
        out = finish(
            out, a, b, y, bias, rows, z, these.place, these.target, these.inside, tile_n, part == 0,
            n, alpha, acc_scale, ACTIVATION, activation_args, F,
        )  # fmt: skip
        base_row = None if rows.scatter is not None else row + q * F.block_m
        scale_row = these.i.to(tl.int64) if F.mx_blocks == "SLICES" else these.target
        columns = (out,)
        if F.subtile == 2:
            columns = halves(out)
        elif F.subtile == 4:
            left, right = halves(out)
            columns = halves(left) + halves(right)
        for p in tl.static_range(F.subtile):
            store_columns(columns[p], y, y_ptr, zy, base_row, these.target, these.inside, scale_row,
                          result_block, (tile_n * F.subtile + p) * WIDTH, n // F.n, comm, EPILOGUE,
                          epilogue_args, DESTINATION, destination_args, F)  # fmt: skip


@tritium.jit
def rows_of_slice(z, tile_m, slices, size, F: tl.constexpr):
    """The slice of a tile and the tile's number in it, the slice's first row and its rows, and the
    blocks of scales of a and of y that it begins with."""
    first_row = 0
    m = size.m
    scale_block = z * tl.cdiv(m, 128)
    result_block = scale_block
    if slices.schedule is not None:
        word = tl.load(slices.schedule + tile_m)
        result_block = 0
        z = tl.where(word < 0, 0, word & 0xFFFF)
        tile_m = word >> 16
        first_row = tl.load(slices.offsets + z)
        m = tl.where(word < 0, 0, tl.minimum(tl.load(slices.sizes + z), size.m - first_row))
        if slices.scale_blocks is not None:
            scale_block = tl.load(slices.scale_blocks + z)
            result_block = scale_block if F.mx_blocks == "SLICES" else 0
    return z, tile_m, first_row, m, scale_block, result_block


@tritium.jit
def compute_tile(
    tile, total, a, b, y, a_desc, b_desc, bias, rows, slices, size, comm, alpha, acc_scale,
    ACTIVATION, activation_args, EPILOGUE, epilogue_args, DESTINATION, destination_args,
    F: tl.constexpr,
):  # fmt: skip
    """One tile of one part of the sum."""
    n = size.n
    tiles_n = tl.cdiv(n, F.block_n)
    plane, tile_m, tile_n = ordered(tile, total, size.tiles_m, tiles_n, F.group_m, F.xcds)
    part = plane % F.split_k
    z = plane // F.split_k
    z, tile_m, first_row, m, scale_block, result_block = rows_of_slice(z, tile_m, slices, size, F)
    k = size.k
    if F.ragged_k:
        first_a = tl.load(slices.offsets + z)
        first_b = first_a if slices.b_offsets is None else tl.load(slices.b_offsets + z)
        k = tl.minimum(tl.load(slices.sizes + z), tl.minimum(size.k - first_a,
                                                             size.k_of_b - first_b))  # fmt: skip
        a = from_slice_of_k(a, first_a.to(tl.int64), a.column, a.scale_k, F.a_pack, 0)
        WORDS: tl.constexpr = 128 if F.b_layout == "HOPPER_VALUE" else F.b_pack
        if F.b_scale_layout == "HOPPER_SCALE":
            b = from_slice_of_k(b, first_b.to(tl.int64), b.row, b.scale_row, WORDS, 128)
        else:
            b = from_slice_of_k(b, first_b.to(tl.int64), b.row, b.scale_k, WORDS, 0)
    z = z.to(tl.int64)
    # Slices are in one matrix: rows of a, or columns of a and rows of b.
    za = z * 0 if slices.schedule is not None or F.ragged_k else z
    zb = z * 0 if F.ragged_k else z
    zy = z * 0 if slices.schedule is not None else z
    if m > 0:
        begin = tile_m * F.block_m
        row = first_row + begin
        main = rows_of_part(begin, m, first_row, rows, F.block_m)
        left = m - begin
        if F.tail_m == 0:
            compute_parts(
                (main,), a, b, y, a_desc, b_desc, bias, rows, za, zb, zy, z, part, row, scale_block,
                result_block, tile_n, n, k, comm, alpha, acc_scale, ACTIVATION, activation_args,
                EPILOGUE, epilogue_args, DESTINATION, destination_args, F,
            )  # fmt: skip
        elif (left > F.block_m) & (left <= F.block_m + F.tail_m):
            tail = rows_of_part(begin + F.block_m, m, first_row, rows, F.tail_m)
            compute_parts(
                (main, tail), a, b, y, a_desc, b_desc, bias, rows, za, zb, zy, z, part, row,
                scale_block, result_block, tile_n, n, k, comm, alpha, acc_scale, ACTIVATION,
                activation_args, EPILOGUE, epilogue_args, DESTINATION, destination_args, F,
            )  # fmt: skip
        elif (tile_m == 0) | (left > F.tail_m):
            compute_parts(
                (main,), a, b, y, a_desc, b_desc, bias, rows, za, zb, zy, z, part, row, scale_block,
                result_block, tile_n, n, k, comm, alpha, acc_scale, ACTIVATION, activation_args,
                EPILOGUE, epilogue_args, DESTINATION, destination_args, F,
            )  # fmt: skip


@tritium.jit
def matmul(
    a, b, y, a_desc, b_desc, bias, rows, slices, size, comm, alpha, acc_scale,
    ACTIVATION: tl.constexpr, activation_args, EPILOGUE: tl.constexpr, epilogue_args,
    DESTINATION: tl.constexpr, destination_args, WRITTEN: tl.constexpr, written_args,
    F: tl.constexpr,
):  # fmt: skip
    """Tiles of y = EPILOGUE(ACTIVATION(alpha * (a @ b + bias * betas)) * gammas).

    With a schedule, slices are rows of a. With `ragged_k` they are parts of the sum over k.
    """
    total = size.z * F.split_k * size.tiles_m * tl.cdiv(size.n, F.block_n)
    if F.persistent:
        for tile in tl.range(tl.program_id(0), total, tl.num_programs(0)):
            compute_tile(
                tile, total, a, b, y, a_desc, b_desc, bias, rows, slices, size, comm, alpha,
                acc_scale, ACTIVATION, activation_args, EPILOGUE, epilogue_args, DESTINATION,
                destination_args, F,
            )  # fmt: skip
    else:
        compute_tile(
            tl.program_id(0), total, a, b, y, a_desc, b_desc, bias, rows, slices, size, comm,
            alpha, acc_scale, ACTIVATION, activation_args, EPILOGUE, epilogue_args, DESTINATION,
            destination_args, F,
        )  # fmt: skip
    if WRITTEN is not None:
        WRITTEN(*written_args)
