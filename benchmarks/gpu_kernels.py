"""The kernels of the GPU benchmarks. `load("triton")` gives the same ones compiled by Triton."""

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import tritium
import tritium.language as tl


@tritium.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y for n elements, BLOCK to a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@tritium.jit
def softmax(out_ptr, x_ptr, x_stride, out_stride, n_rows, n_columns, BLOCK: tl.constexpr):
    """Softmax of each row; a program does every `num_programs`-th one."""
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, 0), mask=mask)


@tritium.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Keep each element with probability 1 - p, divided by that; which ones the seed tells."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@tritium.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, a_m, a_k, b_k, b_n, c_m, c_n,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr = None,
):  # fmt: skip
    """c = a @ b with strides `a_m`, ...; tiles in groups of GROUP rows, for the second-level
    cache."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + pid % (GROUP * tiles_n) % rows
    tile_n = pid % (GROUP * tiles_n) // rows
    m = (tile_m * BM + tl.arange(0, BM)) % M
    n = (tile_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * a_m + k[None, :] * a_k
    b_ptrs = b_ptr + k[:, None] * b_k + n[None, :] * b_n
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - i * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptrs += BK * a_k
        b_ptrs += BK * b_k
    m = tile_m * BM + tl.arange(0, BM)
    n = tile_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + c_m * m[:, None] + c_n * n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def layer_norm(
    x_ptr, out_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, columns, eps, BLOCK: tl.constexpr
):
    """Each row brought to mean 0 and variance 1, then * w + b; a program a row, in three passes."""
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / columns
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
        x = tl.where(at < columns, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, 0) / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        w = tl.load(w_ptr + at, mask=mask)
        b = tl.load(b_ptr + at, mask=mask)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, (x - mean) * rstd * w + b, mask=mask)


@tritium.jit
def layer_norm_rows(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradient of a row; its part of those of w and b goes to one of GROUPS sums, under a lock. A
    sum's second word of `lock_ptr` tells whether something was written to it before."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    x = tl.load(x_ptr + row * stride + at, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + at, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    centred = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(centred * wdy, 0) / columns
    c2 = tl.sum(wdy, 0) / columns
    tl.store(dx_ptr + row * stride + at, (wdy - (centred * c1 + c2)) * rstd, mask=mask)
    group = row % GROUPS
    lock_ptr += group
    count_ptr = lock_ptr + GROUPS
    dw = (dy * centred).to(w_ptr.dtype.element_ty)
    db = dy.to(w_ptr.dtype.element_ty)
    dw_ptrs = dw_ptr + group * columns + at
    db_ptrs = db_ptr + group * columns + at
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptrs, mask=mask)
        db += tl.load(db_ptrs, mask=mask)
    tl.store(dw_ptrs, dw, mask=mask)
    tl.store(db_ptrs, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@tritium.jit
def layer_norm_sums(
    dw_ptr, db_ptr, final_dw_ptr, final_db_ptr, groups, columns,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Add up the GROUPS sums."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    dw = tl.zeros((BM, BN), tl.float32)
    db = tl.zeros((BM, BN), tl.float32)
    for start in range(0, groups, BM):
        m = start + tl.arange(0, BM)
        mask = (m[:, None] < groups) & (n[None, :] < columns)
        at = m[:, None] * columns + n[None, :]
        dw += tl.load(dw_ptr + at, mask=mask, other=0.0)
        db += tl.load(db_ptr + at, mask=mask, other=0.0)
    tl.store(final_dw_ptr + n, tl.sum(dw, 0), mask=n < columns)
    tl.store(final_db_ptr + n, tl.sum(db, 0), mask=n < columns)


@tritium.jit
def _attend(
    acc, total, top, q, k_desc, v_desc, row, m, scale, low, high,
    BN: tl.constexpr, MASKED: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """The keys `low` to `high` added to one block of queries (Dao, "FlashAttention-2", 2023).
    `scale` is positive: it multiplies the maximum of a row, and each score in the subtraction."""
    for start in tl.range(low, high, BN, warp_specialize=SPLIT):
        k = k_desc.load([row + start, 0]).T
        scores = tl.dot(q, k)
        if MASKED:
            n = start + tl.arange(0, BN)
            scores = tl.where(m[:, None] >= n[None, :], scores, -1.0e6)
        now = tl.maximum(top, tl.max(scores, 1) * scale)
        p = tl.math.exp2(scores * scale - now[:, None])
        shrink = tl.math.exp2(top - now)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = v_desc.load([row + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = now
    return acc, total, top


@tritium.jit
def matmul_blocks(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    SPLIT: tl.constexpr = False,
):  # fmt: skip
    """c = a @ b.T through descriptors, one tile a program."""
    tile, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = tile // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    m = (group * GROUP + tile % (GROUP * tiles_n) % rows) * BM
    n = tile % (GROUP * tiles_n) // rows * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(tl.cdiv(K, BK), warp_specialize=SPLIT):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    c.store([m, n], acc.to(tl.float16))


@tritium.jit
def persistent(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    SUBTILE: tl.constexpr, SPLIT: tl.constexpr = False,
):  # fmt: skip
    """c = a @ b.T through descriptors; a program goes on to every `num_programs`-th tile."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tiles = tiles_m * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=SPLIT):
        group = tile // (GROUP * tiles_n)
        rows = min(tiles_m - group * GROUP, GROUP)
        m = (group * GROUP + tile % (GROUP * tiles_n) % rows) * BM
        n = tile % (GROUP * tiles_n) // rows * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        if SUBTILE:
            left, right = acc.reshape(BM, 2, BN // 2).permute(0, 2, 1).split()
            c.store([m, n], left.to(tl.float16))
            c.store([m, n + BN // 2], right.to(tl.float16))
        else:
            c.store([m, n], acc.to(tl.float16))


@tritium.jit
def persistent_made(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, SUBTILE: tl.constexpr, SPLIT: tl.constexpr = False,
):  # fmt: skip
    """The same with descriptors that the kernel makes."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN // 2 if SUBTILE else BN])
    persistent(a, b, c, M, N, K, BM, BN, BK, GROUP, SUBTILE, SPLIT)


@tritium.jit
def attention(
    q_desc, k_desc, v_desc, out_desc, top_ptr, length, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
    SPLIT: tl.constexpr = False,
):  # fmt: skip
    """softmax(q @ k.T * scale) @ v for one block of BM queries of one head, and the logarithm (base
    2) of each row's sum for the backward pass. The heads are one after the other in the rows."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    row = head * length
    m = block * BM + tl.arange(0, BM)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale *= 1.4426950408889634
    q = q_desc.load([row + block * BM, 0])
    if CAUSAL:
        acc, total, top = _attend(
            acc, total, top, q, k_desc, v_desc, row, m, scale, 0, block * BM, BN, False, SPLIT
        )
        acc, total, top = _attend(
            acc, total, top, q, k_desc, v_desc, row, m, scale,
            block * BM, (block + 1) * BM, BN, True, SPLIT,
        )  # fmt: skip
    else:
        acc, total, top = _attend(
            acc, total, top, q, k_desc, v_desc, row, m, scale, 0, length, BN, False, SPLIT
        )
    tl.store(top_ptr + row + m, top + tl.math.log2(total))
    out_desc.store([row + block * BM, 0], (acc / total[:, None]).to(tl.float16))


_folders: list[tempfile.TemporaryDirectory[str]] = []
"""Of modules whose source is read until the process ends."""


def load(name: str, file: str = __file__) -> ModuleType:
    """This module (or that of another file) with its kernels decorated by another package:
    "triton"."""
    if name == "tritium":
        return sys.modules[__name__]
    text = Path(file).read_text().replace("tritium", name)
    folder = tempfile.TemporaryDirectory(prefix="gpu-kernels-")
    _folders.append(folder)
    path = Path(folder.name) / f"{Path(file).stem}_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
