"""Matrix products with any strides, many batches, epilogues, K split among programs, and tiles
whose sums programs share (stream-K)."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.activation import activate
from tritium_kernels.dense.kernels.common import wide


@tritium.jit
def tile_of(pid, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """(row, column) of a tile: GROUP rows of tiles are done together, so that caches hold B."""
    down = tl.cdiv(m, BLOCK_M)
    across = tl.cdiv(n, BLOCK_N)
    group = pid // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    inside = pid % (GROUP * across)
    return group * GROUP + inside % height, inside // height


@tritium.jit
def index(i, LARGE: tl.constexpr):
    """int64 where products with a stride may not fit in int32."""
    return i.to(tl.int64) if LARGE else i


@tritium.jit
def epilogue(
    acc, b, rows, columns, m, n, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr, inner_ptr,
    bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n, KIND: tl.constexpr,
):  # fmt: skip
    """activation(acc * scales + bias) + residual; what the activation takes goes to `inner`."""
    r, c = rows[:, None], columns[None, :]
    mask = (r < m) & (c < n)
    if a_scale_ptr is not None:
        scale = tl.load(a_scale_ptr + rows * as_m, mask=rows < m, other=0.0)
        acc = acc.to(tl.float32) * scale.to(tl.float32)[:, None]
    if b_scale_ptr is not None:
        scale = tl.load(b_scale_ptr + columns * bs_n, mask=columns < n, other=0.0)
        acc = acc.to(tl.float32) * scale.to(tl.float32)[None, :]
    if bias_ptr is not None:
        acc += wide(tl.load(bias_ptr + columns * bias_stride, mask=columns < n, other=0.0))[None, :]
    if KIND is not None:
        if inner_ptr is not None:
            places = inner_ptr + b * ib + r * im + c * i_n
            tl.store(places, acc.to(inner_ptr.dtype.element_ty), mask=mask)
        acc = activate(acc, KIND)
    if residual_ptr is not None:
        acc += wide(tl.load(residual_ptr + b * rb + r * rm + c * rn, mask=mask, other=0.0))
    return acc


@tritium.jit
def matmul(
    a_ptr, b_ptr, y_ptr, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr, inner_ptr,
    m, n, k, ab, am, ak, bb, bk, bn, yb, ym, yn, bias_stride, as_m, bs_n,
    rb, rm, rn, ib, im, i_n,
    KIND: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, LARGE: tl.constexpr,
    SPLIT_K: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of A @ B. With SPLIT_K > 1, y is (SPLIT_K, batch, m, n): parts of the sum over k."""
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    pid = tl.program_id(0)
    part = tl.program_id(1)
    b = (pid // tiles).to(tl.int64)
    tile_m, tile_n = tile_of(pid % tiles, m, n, BLOCK_M, BLOCK_N, GROUP)
    rows = index(tile_m * BLOCK_M + tl.arange(0, BLOCK_M), LARGE)
    columns = index(tile_n * BLOCK_N + tl.arange(0, BLOCK_N), LARGE)
    first = part * BLOCK_K
    inner = index(first + tl.arange(0, BLOCK_K), LARGE)
    # Rows past the end read others again: loads need no mask for them. A remainder keeps what is
    # known of neighbours; without one, all is known.
    a_rows = rows if EVEN_M else rows % m
    b_columns = columns if EVEN_N else columns % n
    a_ptrs = a_ptr + b * ab + a_rows[:, None] * am + inner[None, :] * ak
    b_ptrs = b_ptr + b * bb + inner[:, None] * bk + b_columns[None, :] * bn
    step_a = index(ak * 0 + BLOCK_K * SPLIT_K, LARGE) * ak
    step_b = index(bk * 0 + BLOCK_K * SPLIT_K, LARGE) * bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), ACC)
    for start in tl.range(first, k, BLOCK_K * SPLIT_K, num_stages=STAGES):
        if EVEN_K:
            x = tl.load(a_ptrs)
            w = tl.load(b_ptrs)
        else:
            left = k - start
            x = tl.load(a_ptrs, mask=tl.arange(0, BLOCK_K)[None, :] < left, other=0)
            w = tl.load(b_ptrs, mask=tl.arange(0, BLOCK_K)[:, None] < left, other=0)
        acc = tl.dot(x, w, acc, input_precision=PRECISION, out_dtype=ACC)
        a_ptrs += step_a
        b_ptrs += step_b
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    if SPLIT_K > 1:
        b += part * (tl.num_programs(0) // tiles).to(tl.int64)
    else:
        acc = epilogue(
            acc, b, rows, columns, m, n, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr,
            inner_ptr, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n, KIND,
        )  # fmt: skip
    places = y_ptr + b * yb + rows[:, None] * ym + columns[None, :] * yn
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(places, acc.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def matrix_at(source, b, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
              TRANSPOSED: tl.constexpr):  # fmt: skip
    """ROWS x COLUMNS of matrix b of a descriptor of matrices, or of TRANSPOSED ones."""
    if TRANSPOSED:
        return source.load([b, column, row]).reshape(COLUMNS, ROWS).T
    else:
        return source.load([b, row, column]).reshape(ROWS, COLUMNS)


@tritium.jit
def matmul_blocks(
    x, w, y, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr, inner_ptr,
    count, m, n, k, yb, ym, yn, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n,
    KIND: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, GROUP: tl.constexpr,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr, APART: tl.constexpr,
    HALVES: tl.constexpr,
):  # fmt: skip
    """Every `num_programs`-th of the first `count` tiles of A @ B, whose operands are descriptors
    of batches of matrices (see `matrix_at`); y is such a descriptor or a pointer. APART: a warp of
    its own loads. HALVES: y's descriptor has blocks of half of a tile's columns."""
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), count, tl.num_programs(0), warp_specialize=APART):
        b = tile // tiles
        tile_m, tile_n = tile_of(tile % tiles, m, n, BLOCK_M, BLOCK_N, GROUP)
        i, j = tile_m * BLOCK_M, tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), ACC)
        for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
            left = matrix_at(x, b, i, start, BLOCK_M, BLOCK_K, A_TRANSPOSED)
            right = matrix_at(w, b, start, j, BLOCK_K, BLOCK_N, B_TRANSPOSED)
            acc = tl.dot(left, right, acc, input_precision=PRECISION, out_dtype=ACC)
        rows = (i + tl.arange(0, BLOCK_M)).to(tl.int64)
        if HALVES:
            parts = acc.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
        else:
            parts = (acc,)
        WIDE: tl.constexpr = BLOCK_N // len(parts)
        for p in tl.static_range(len(parts)):
            columns = (j + p * WIDE + tl.arange(0, WIDE)).to(tl.int64)
            part = epilogue(
                parts[p], b.to(tl.int64), rows, columns, m, n, bias_ptr, a_scale_ptr, b_scale_ptr,
                residual_ptr, inner_ptr, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n, KIND,
            )  # fmt: skip
            if isinstance(y, tl.tensor_descriptor):
                y.store([b, i, j + p * WIDE], part.to(y.dtype).reshape(1, BLOCK_M, WIDE))
            else:
                places = y + b.to(tl.int64) * yb + rows[:, None] * ym + columns[None, :] * yn
                mask = (rows[:, None] < m) & (columns[None, :] < n)
                tl.store(places, part.to(y.dtype.element_ty), mask=mask)


@tritium.jit
def finish(
    parts_ptr, y_ptr, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr, inner_ptr,
    batch, m, n, yb, ym, yn, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n,
    KIND: tl.constexpr, ACC: tl.constexpr, SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Sum the parts, in order, and apply the epilogue."""
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    pid = tl.program_id(0)
    b = (pid // tiles).to(tl.int64)
    tile_m, tile_n = tile_of(pid % tiles, m, n, BLOCK_M, BLOCK_N, 1)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    acc = tl.zeros((BLOCK_M, BLOCK_N), ACC)
    for part in tl.static_range(SPLIT_K):
        places = ((b + part * batch) * m + rows[:, None]) * n + columns[None, :]
        acc += tl.load(parts_ptr + places, mask=mask, other=0)
    acc = epilogue(
        acc, b, rows, columns, m, n, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr,
        inner_ptr, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n, KIND,
    )  # fmt: skip
    places = y_ptr + b * yb + rows[:, None] * ym + columns[None, :] * yn
    tl.store(places, acc.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def part_at(
    source, b, row, column, rows, columns, stride_b, stride_row, stride_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """`matrix_at` of a descriptor, or of a pointer to matrices (rows, columns) with these strides;
    0 past their ends."""
    if isinstance(source, tl.tensor_descriptor):
        return matrix_at(source, b, row, column, ROWS, COLUMNS, TRANSPOSED)
    else:
        i = (row + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        j = (column + tl.arange(0, COLUMNS)).to(tl.int64)[None, :]
        places = source + b.to(tl.int64) * stride_b + i * stride_row + j * stride_column
        return tl.load(places, mask=(i < rows) & (j < columns), other=0)


@tritium.jit
def share(program, programs, steps):
    """(the first of `steps` that a program does, how many): all do as many, the first ones one
    more."""
    most = steps // programs
    more = steps % programs
    return program * most + tl.minimum(program, more), most + (program < more).to(tl.int32)


@tritium.jit
def owner(step, programs, steps):
    """The program whose share a step is in."""
    most = steps // programs
    edge = steps % programs * (most + 1)
    behind = steps % programs + (step - edge) // tl.maximum(most, 1)
    return tl.where(step < edge, step // (most + 1), behind)


@tritium.jit
def matmul_shared(
    x, w, pieces_ptr, first_tile, count, m, n, k, ab, am, ak, bb, bk, bn,
    PRECISION: tl.constexpr, ACC: tl.constexpr, GROUP: tl.constexpr, A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Sums over parts of k of `count` tiles, which all programs share evenly.

    Tiles are fewer than programs, or as many: a program has parts of one tile, or of two that
    follow each other. pieces: (programs, 2, BLOCK_M, BLOCK_N).
    """
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    per_tile = tl.cdiv(k, BLOCK_K)
    program = tl.program_id(0)
    at, left = share(program, tl.num_programs(0), count * per_tile)
    for piece in tl.range(0, 2):
        tile = first_tile + at // per_tile
        first = at % per_tile
        length = tl.minimum(left, per_tile - first)
        b = tile // tiles
        tile_m, tile_n = tile_of(tile % tiles, m, n, BLOCK_M, BLOCK_N, GROUP)
        i, j = tile_m * BLOCK_M, tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), ACC)
        for step in tl.range(first, first + length, num_stages=STAGES):
            start = step * BLOCK_K
            u = part_at(x, b, i, start, m, k, ab, am, ak, BLOCK_M, BLOCK_K, A_TRANSPOSED)
            v = part_at(w, b, start, j, k, n, bb, bk, bn, BLOCK_K, BLOCK_N, B_TRANSPOSED)
            acc = tl.dot(u, v, acc, input_precision=PRECISION, out_dtype=ACC)
        if length > 0:
            slot = (2 * program + piece).to(tl.int64) * (BLOCK_M * BLOCK_N)
            rows = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N
            tl.store(pieces_ptr + slot + rows + tl.arange(0, BLOCK_N)[None, :], acc)
        at += length
        left -= length


@tritium.jit
def finish_shared(
    pieces_ptr, y_ptr, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr, inner_ptr,
    first_tile, count, programs, m, n, k, yb, ym, yn, bias_stride, as_m, bs_n, rb, rm, rn, ib, im,
    i_n, KIND: tl.constexpr, ACC: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Sum the pieces of ROWS rows of a tile, in the order of k, and apply the epilogue."""
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    per_tile = tl.cdiv(k, BLOCK_K)
    steps = count * per_tile
    number = tl.program_id(0) // (BLOCK_M // ROWS)
    row = tl.program_id(0) % (BLOCK_M // ROWS) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_N)
    first = owner(number * per_tile, programs, steps)
    last = owner(number * per_tile + per_tile - 1, programs, steps)
    acc = tl.zeros((ROWS, BLOCK_N), ACC)
    for program in range(first, last + 1):
        at, _ = share(program, programs, steps)
        piece = (at // per_tile != number).to(tl.int64)  # the tile before is the program's first
        slot = (2 * program + piece) * (BLOCK_M * BLOCK_N)
        acc += tl.load(pieces_ptr + slot + row[:, None] * BLOCK_N + column[None, :])
    tile = first_tile + number
    tile_m, tile_n = tile_of(tile % tiles, m, n, BLOCK_M, BLOCK_N, GROUP)
    b = (tile // tiles).to(tl.int64)
    rows = (tile_m * BLOCK_M + row).to(tl.int64)
    columns = (tile_n * BLOCK_N + column).to(tl.int64)
    acc = epilogue(
        acc, b, rows, columns, m, n, bias_ptr, a_scale_ptr, b_scale_ptr, residual_ptr,
        inner_ptr, bias_stride, as_m, bs_n, rb, rm, rn, ib, im, i_n, KIND,
    )  # fmt: skip
    places = y_ptr + b * yb + rows[:, None] * ym + columns[None, :] * yn
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(places, acc.to(y_ptr.dtype.element_ty), mask=mask)
