"""The kernels of `ops_cpu`: each does one op of the language to blocks, and little else."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def rows(x, out, OP: tl.constexpr, N: tl.constexpr):
    """out[p] = OP(row p), or a row of results (scans, sort)."""
    pid = tl.program_id(0)
    value = OP(tl.load(x + pid * N + tl.arange(0, N)), 0)
    if len(value.shape) == 0:
        tl.store(out + pid, value)
    else:
        tl.store(out + pid * N + tl.arange(0, N), value)


@tritium.jit
def tiles(x, out, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """OP along AXIS of each tile [M, N]."""
    pid = tl.program_id(0)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = OP(tl.load(x + pid * M * N + at), AXIS)
    if len(value.shape) == 2:
        tl.store(out + pid * M * N + at, value)
    else:
        K: tl.constexpr = N if AXIS == 0 else M
        tl.store(out + pid * K + tl.arange(0, K), value)


@tritium.jit
def larger(a, b):
    return tl.maximum(a, b)


@tritium.jit
def larger_with_index(a, i, b, j):
    keep = a >= b
    return tl.where(keep, a, b), tl.where(keep, i, j)


@tritium.jit
def recurrence(a, x, b, y):
    """Two steps of s = a * s + x in one."""
    return a * b, x * b + y


@tritium.jit
def running_max(x, axis: tl.constexpr):
    return tl.associative_scan(x, axis, larger)


@tritium.jit
def running_max_index(x, axis: tl.constexpr):
    index = tl.arange(0, x.shape[-1])
    if len(x.shape) == 2:
        index = tl.broadcast_to(index[None, :], x.shape)
    return tl.associative_scan((x, index), axis, larger_with_index)[1]


@tritium.jit
def decayed_sum(x, axis: tl.constexpr):
    return tl.associative_scan((tl.full(x.shape, 0.5, tl.float32), x), axis, recurrence)[1]


@tritium.jit
def sort_rows(x, axis: tl.constexpr):
    return tl.sort(x)


@tritium.jit
def flip_rows(x, axis: tl.constexpr):
    return tl.flip(x)


@tritium.jit
def top(x, out, K: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    value = tl.topk(tl.load(x + pid * N + tl.arange(0, N)), K)
    tl.store(out + pid * K + tl.arange(0, K), value)


@tritium.jit
def gather_rows(x, index, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), 0))


@tritium.jit
def gather_tiles(x, index, out, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@tritium.jit
def gather_memory(x, index, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + tl.load(index + at)))


@tritium.jit
def scatter_memory(x, index, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + tl.load(index + at), tl.load(x + at))


@tritium.jit
def count(x, out, BINS: tl.constexpr, N: tl.constexpr):
    value = tl.histogram(tl.load(x + tl.arange(0, N)), BINS)
    tl.store(out + tl.arange(0, BINS), value)


@tritium.jit
def transpose(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    """By `tl.trans`: both accesses run along their rows."""
    r, c = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    tile = tl.trans(tl.load(x + r[:, None] * columns + c[None, :]))
    tl.store(out + c[:, None] * rows + r[None, :], tile)


@tritium.jit
def transpose_by_addresses(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    """The store goes down the columns."""
    r, c = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    tile = tl.load(x + r[:, None] * columns + c[None, :])
    tl.store(out + c[None, :] * rows + r[:, None], tile)


@tritium.jit
def permute(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """[A, B, C] to [C, A, B], one tile a program."""
    base = tl.program_id(0) * A * B * C
    tile = tl.reshape(tl.load(x + base + tl.arange(0, A * B * C)), [A, B, C])
    tile = tl.reshape(tl.permute(tile, (2, 0, 1)), [A * B * C])
    tl.store(out + base + tl.arange(0, A * B * C), tile)


@tritium.jit
def interleave(x, y, out, N: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * N + tl.arange(0, N)
    both = tl.interleave(tl.load(x + at), tl.load(y + at))
    tl.store(out + pid * 2 * N + tl.arange(0, 2 * N), both)


@tritium.jit
def deinterleave(x, y, out, N: tl.constexpr):
    """Takes apart what `interleave` puts together."""
    pid = tl.program_id(0)
    at = pid * N + tl.arange(0, N)
    both = tl.load(out + pid * 2 * N + tl.arange(0, 2 * N))
    even, odd = tl.split(tl.reshape(both, [N, 2]))
    tl.store(x + at, even)
    tl.store(y + at, odd)


@tritium.jit
def cast(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


@tritium.jit
def atomic(out, index, x, OP: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    OP(out + tl.load(index + at), tl.load(x + at), scope=SCOPE)


@tritium.jit
def atomic_block(out, x, OP: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    """Consecutive addresses: what the parts of a product split along K are added by."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    OP(out + at, tl.load(x + at), scope=SCOPE)


@tritium.jit
def atomic_one(out, x, OP: tl.constexpr, N: tl.constexpr):
    """Every element goes to one address."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    OP(out + tl.zeros([N], tl.int32), tl.load(x + at))


@tritium.jit
def atomic_old(out, index, x, old, OP: tl.constexpr, N: tl.constexpr):
    """The old values are wanted."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(old + at, OP(out + tl.load(index + at), tl.load(x + at)))


@tritium.jit
def compare_and_swap(out, index, expected, x, old, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    new = tl.load(x + at)
    tl.store(old + at, tl.atomic_cas(out + tl.load(index + at), tl.load(expected + at), new))
