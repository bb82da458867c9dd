"""Regenerates the `.ttir` files beside this script with the reference compiler.

    python generate.py        (in an environment where `import triton` is Triton 3.6)

Every kernel is compiled for two stages: `NAME.source.ttir` as the frontend emits it and
`NAME.ttir` after the reference's passes on this dialect. No GPU is needed. Directories are removed
from source locations, so that the files do not depend on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.language.extra import libdevice

HERE = Path(__file__).parent
KERNELS: list[tuple[str, object, dict[str, str], dict[str, object], dict[str, object]]] = []


def case(signature: str, aligned: str = "", options: dict | None = None, **constants):
    """Compile the kernel that follows with `name:type` arguments and these constants."""

    def register(function):
        types = dict(item.split(":") for item in signature.split())
        types |= dict.fromkeys(constants, "constexpr")
        names = list(function.arg_names)
        types = {name: types[name] for name in names}
        attrs = {(names.index(a),): [["tt.divisibility", 16]] for a in aligned.split()}
        KERNELS.append((function.__name__, function, types, constants, attrs, options or {}))
        return function

    return register


@case("x:*fp32 y:*fp32 out:*fp32 n:i32", "x y out", BLOCK=128)
@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a = tl.load(x + offsets, mask=mask)
    b = tl.load(y + offsets, mask=mask, other=0.0)
    tl.store(out + offsets, a + b, mask=mask)


@case("out:*fp32 x:*fp32 stride:i32 rows:i32 columns:i32", "out x", BLOCK=64)
@triton.jit
def softmax(out, x, stride, rows, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0)
    for row in tl.range(start, rows, tl.num_programs(0), num_stages=4):
        column = tl.arange(0, BLOCK)
        mask = column < columns
        value = tl.load(x + row * stride + column, mask=mask, other=-float("inf"))
        shifted = value - tl.max(value, axis=0)
        numerator = tl.exp(shifted)
        denominator = tl.sum(numerator, axis=0)
        tl.store(out + row * stride + column, numerator / denominator, mask=mask)


@case("x:*fp32 out:*fp32 w:*fp32 b:*fp32 mean:*fp32 rstd:*fp32 n:i32 eps:fp32", "x out", BLOCK=64)
@triton.jit
def layer_norm(x, out, w, b, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * n
    out += row * n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + column, mask=column < n, other=0.0).to(tl.float32)
    center = tl.sum(total, axis=0) / n
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + column, mask=column < n, other=0.0).to(tl.float32)
        value = tl.where(column < n, value - center, 0.0)
        square += value * value
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    tl.store(mean + row, center)
    tl.store(rstd + row, scale)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < n
        weight = tl.load(w + column, mask=mask)
        bias = tl.load(b + column, mask=mask)
        value = tl.load(x + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + column, (value - center) * scale * weight + bias, mask=mask)


@case("dw:*fp32 dy:*fp32 locks:*i32 n:i32", "dw dy locks", GROUP=4, BLOCK=32)
@triton.jit
def lock_accumulate(dw, dy, locks, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < n
    part = tl.load(dy + row * n + column, mask=mask, other=0.0)
    group = row % GROUP
    lock = locks + group
    count = locks + GROUP + group
    target = dw + group * n + column
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(target, mask=mask)
    tl.store(target, part, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@case(
    "a:*fp16 b:*fp16 c:*fp16 M:i32 N:i32 K:i32 am:i32 ak:i32 bk:i32 bn:i32 cm:i32 cn:i32",
    "a b c", BM=32, BN=32, BK=16, GROUP=2, ACTIVATE=True,
)  # fmt: skip
@triton.jit
def matmul(a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATE: tl.constexpr):  # fmt: skip
    pid = tl.program_id(axis=0)
    rows = tl.cdiv(M, BM)
    columns = tl.cdiv(N, BN)
    in_group = GROUP * columns
    group = pid // in_group
    first = group * GROUP
    size = min(rows - first, GROUP)
    row = first + ((pid % in_group) % size)
    column = (pid % in_group) // size
    tl.assume(row >= 0)
    om = (row * BM + tl.arange(0, BM)) % M
    on = (column * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    pa = a + (om[:, None] * am + ok[None, :] * ak)
    pb = b + (ok[:, None] * bk + on[None, :] * bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(pa, mask=ok[None, :] < K - k * BK, other=0.0)
        right = tl.load(pb, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        pa += BK * ak
        pb += BK * bk
    if ACTIVATE:
        acc = leaky(acc)
    om = row * BM + tl.arange(0, BM)
    on = column * BN + tl.arange(0, BN)
    pc = c + cm * om[:, None] + cn * on[None, :]
    tl.store(pc, acc.to(tl.float16), mask=(om[:, None] < M) & (on[None, :] < N))


@case(
    "q:*fp32 k:*fp32 v:*fp32 out:*fp32 lse:*fp32 n:i32 scale:fp32", "q k v out",
    BM=16, BN=16, D=16,
)  # fmt: skip
@triton.jit
def attention(q, k, v, out, lse, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0) * BM
    om = start + tl.arange(0, BM)
    on = tl.arange(0, BN)
    od = tl.arange(0, D)
    query = tl.load(q + om[:, None] * D + od[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    norm = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for j in tl.range(0, start + BM, BN):
        at = j + on
        key = tl.load(k + at[:, None] * D + od[None, :])
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * (scale * 1.44269504)
        score = tl.where(om[:, None] >= at[None, :], score, -1.0e6)
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.math.exp2(score - new[:, None])
        alpha = tl.math.exp2(top - new)
        norm = norm * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        value = tl.load(v + at[:, None] * D + od[None, :])
        acc = tl.dot(p, value, acc, input_precision="ieee")
        top = new
    acc = acc / norm[:, None]
    tl.store(out + om[:, None] * D + od[None, :], acc)
    tl.store(lse + om, top + tl.math.log2(norm))


@case("x:*i32 out:*i32 n:i32 limit:i32")
@triton.jit
def control_flow(x, out, n, limit):
    pid = tl.program_id(0)
    if pid >= n:
        return
    value = tl.load(x + pid)
    steps = 0
    while (value != 1) & (steps < limit):
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    if steps == limit:
        tl.store(out + pid, -1)
    elif steps > 10:
        tl.store(out + pid, steps * 100)
    else:
        tl.store(out + pid, steps)


@triton.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    share = count_b / count
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@case("x:*fp32 out:*fp32 index:*i32", N=32, M=8)
@triton.jit
def reductions(x, out, index, N: tl.constexpr, M: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + offsets)
    mean, m2, count = tl.reduce(
        (value, tl.zeros_like(value), tl.full([M, N], 1.0, tl.float32)), 1, welford
    )
    top, at = tl.max(value, 1, return_indices=True)
    rows = tl.arange(0, M)
    tl.store(out + rows, mean)
    tl.store(out + M + rows, m2 / count)
    tl.store(out + 2 * M + rows, top)
    tl.store(index + rows, at)
    tl.store(index + M + rows, tl.argmin(value, 1, tie_break_left=False))
    tl.store(out + 3 * M, tl.sum(value))
    whole = value.to(tl.int32)
    tl.store(index + 2 * M + rows, tl.xor_sum(whole, 1))
    tl.store(index + 3 * M + tl.arange(0, N), tl.min(whole, 0))


@triton.jit
def recurrence(a, b, c, d):
    return a * c, c * b + d


@case("x:*fp32 out:*fp32", N=16, M=4)
@triton.jit
def scans(x, out, N: tl.constexpr, M: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + offsets)
    size: tl.constexpr = M * N
    tl.store(out + offsets, tl.cumsum(value, 1))
    tl.store(out + size + offsets, tl.cumprod(value, 0, reverse=True))
    _, state = tl.associative_scan((value * 0.5, value), 1, recurrence)
    tl.store(out + 2 * size + offsets, state)


@case("x:*fp32 out:*fp32", N=4, M=2)
@triton.jit
def sorting(x, out, N: tl.constexpr, M: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + offsets)
    tl.store(out + offsets, tl.sort(value, dim=1, descending=True))
    tl.store(out + M * N + offsets, tl.flip(value, 1))


@case("x:*i32 src:*fp32 out:*i32 gathered:*fp32", N=64, BINS=16)
@triton.jit
def histogram_gather(x, src, out, gathered, N: tl.constexpr, BINS: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, BINS), tl.histogram(value, BINS))
    masked = tl.histogram(value, BINS, mask=value < 8)
    tl.store(out + BINS + tl.arange(0, BINS), masked)
    table = tl.load(src + tl.arange(0, BINS))
    tl.store(gathered + tl.arange(0, N), tl.gather(table, value, 0))


@case("x:*fp32 y:*fp32 out:*fp32", N=16)
@triton.jit
def join_split(x, y, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    a = tl.load(x + offsets)
    b = tl.load(y + offsets)
    joined = tl.join(a, b)
    tl.store(out + offsets[:, None] * 2 + tl.arange(0, 2)[None, :], joined)
    even, odd = tl.split(tl.reshape(tl.interleave(a, b), (N, 2)))
    tl.store(out + 2 * N + offsets, even - odd)
    both = tl.cat(a, b, can_reorder=True)
    tl.store(out + 3 * N, tl.sum(both))
    cube = tl.reshape(a, (2, 2, N // 4)).permute(2, 0, 1)
    tl.store(out + 4 * N + offsets, tl.ravel(cube))


@case("x:*fp32 f:*fp32 i:*i32 u:*u32 old:*i32 h:*fp16", N=16)
@triton.jit
def atomics(x, f, i, u, old, h, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    whole = value.to(tl.int32)
    mask = offsets % 2 == 0
    tl.store(old + offsets, tl.atomic_add(i + offsets % 4, whole, mask=mask, sem="relaxed"))
    tl.atomic_add(f, tl.sum(value), sem="release", scope="sys")
    tl.atomic_max(f + 1 + offsets % 2, value)
    tl.atomic_min(f + 3, -1.5)
    tl.atomic_max(i + 4 + offsets * 0, whole)
    tl.atomic_min(u + offsets % 2, whole.to(tl.uint32, bitcast=True))
    tl.atomic_max(u + 2, 7)
    tl.atomic_and(i + 5, 12)
    tl.atomic_or(i + 6 + offsets * 0, whole, mask=mask)
    tl.atomic_xor(i + 7 + offsets * 0, whole, sem="acquire", scope="cta")
    tl.store(old + N + offsets, tl.atomic_xchg(i + 8 + offsets % 4, whole))
    tl.store(old + 2 * N + offsets, tl.atomic_cas(i + 12 + offsets % 4, whole * 0, whole))
    tl.atomic_add(h + offsets, value.to(tl.float16))


@case("a:*fp16 b:*fp16 M:i32 N:i32 stride:i32", "a b", BM=16, BN=16)
@triton.jit
def block_pointers(a, b, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(a, (M, N), (stride, 1), (0, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(b, (M, N), (stride, 1), (0, 0), (BM, BN), (1, 0))
    for _ in range(0, tl.cdiv(N, BN)):
        value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, value * 2, boundary_check=(0, 1), cache_modifier=".cg")
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@case("a:*fp32 b:*fp32 M:i32 N:i32", "a b M N", BM=8, BN=16)
@triton.jit
def descriptors(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(b, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        value = source.load([row, column])
        target.store([row, column], value + 1.0)
    target.atomic_add([0, 0], tl.full([BM, BN], 1.0, tl.float32))


@case("a:*fp32 b:*fp32 rows:*i32 M:i32 N:i32", "a b M N", K=8, BN=16)
@triton.jit
def descriptor_rows(a, b, rows, M, N, K: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [1, BN])
    target = tl.make_tensor_descriptor(b, [M, N], [N, 1], [1, BN])
    index = tl.load(rows + tl.arange(0, K))
    target.scatter(source.gather(index, 0), index, BN)


@case("x:*fp32 n:i32", options={"debug": True}, N=8)
@triton.jit
def print_assert(x, n, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    tl.device_print("value", value, n)
    tl.device_print("hex", n, hex=True)
    tl.device_assert(value >= 0, "negative")
    tl.device_assert(n > 0, "empty")
    tl.store(x + tl.arange(0, N), value + n)


@triton.jit(noinline=True)
def square_and_cube(x, y):
    return x * x, x * x * x + y


@case("x:*fp32 out:*fp32 k:i32", N=16)
@triton.jit
def noinline_call(x, out, k, N: tl.constexpr):
    offsets = tl.arange(0, N)
    square, cube = square_and_cube(tl.load(x), k)
    tl.store(out + offsets, tl.load(x + offsets) * square + cube)


@case("x:*fp32 b:*bf16 h:*fp16 i:*i8 e5:*fp8e5 e4:*fp8e4nv l:*i64 u:*u8 d:*fp64", N=16)
@triton.jit
def casts(x, b, h, i, e5, e4, l, u, d, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    tl.store(b + offsets, value.to(tl.bfloat16))
    tl.store(h + offsets, value.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(i + offsets, value.to(tl.int8))
    tl.store(e5 + offsets, value.to(tl.float8e5))
    tl.store(e4 + offsets, value.to(tl.float8e4nv))
    tl.store(l + offsets, value.to(tl.int32, bitcast=True).to(tl.int64) >> 3)
    tl.store(u + offsets, value.to(tl.uint8))
    back = tl.load(e5 + offsets).to(tl.float32) + tl.load(e4 + offsets).to(tl.float32)
    back += tl.load(b + offsets).to(tl.float32) + tl.load(h + offsets)
    back += tl.load(i + offsets) + tl.load(u + offsets).to(tl.float32)
    tl.store(d + offsets, back.to(tl.float64))
    tl.store(l + N + offsets, (x + offsets).to(tl.int64) - x.to(tl.int64))


@case("a:*u8 sa:*u8 b:*u8 sb:*u8 c:*fp32", "a b c", M=32, N=32, K=64)
@triton.jit
def dot_scaled(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    om = tl.arange(0, M)
    on = tl.arange(0, N)
    half = tl.arange(0, K // 2)
    scale = tl.arange(0, K // 32)
    left = tl.load(a + om[:, None] * (K // 2) + half[None, :])
    right = tl.load(b + tl.arange(0, K)[:, None] * N + on[None, :]).to(tl.float8e5, bitcast=True)
    left_scale = tl.load(sa + om[:, None] * (K // 32) + scale[None, :])
    right_scale = tl.load(sb + on[:, None] * (K // 32) + scale[None, :])
    acc = tl.dot_scaled(left, left_scale, "e2m1", right, right_scale, "e5m2")
    tl.store(c + om[:, None] * N + on[None, :], acc)


@triton.jit
def branchy(x, y):
    if x > y:
        first = x * 2
        second = y
    else:
        first = y
        second = x - 1
    return first, second


@case("x:*fp32 y:*fp32 out:*fp32", N=16)
@triton.jit
def map_elementwise(x, y, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    a = tl.load(x + offsets)
    first, second = tl.map_elementwise(branchy, a, tl.load(y + offsets))
    tl.store(out + offsets, first)
    tl.store(out + N + offsets, second)


@case("x:*i32 out:*i32", N=16)
@triton.jit
def inline_asm(x, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    text: tl.constexpr = "shf.l.wrap.b32 $0, $1, $2, 5;"
    rotated = tl.inline_asm_elementwise(text, "=r,r,r", [value, value], tl.int32, True, 1)
    tl.store(out + offsets, rotated)


@case("x:*fp32 out:*fp32", N=16)
@triton.jit
def library(x, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    tl.store(out + offsets, libdevice.asin(value))
    tl.store(out + N + offsets, libdevice.pow(value, value))


@case("x:*fp32 out:*fp32", N=16)
@triton.jit
def mathematics(x, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    v = tl.load(x + offsets)
    tl.store(out + offsets, tl.exp(v) + tl.exp2(v) + tl.log(v) + tl.log2(v))
    tl.store(out + N + offsets, tl.sin(v) + tl.cos(v) + tl.erf(v))
    tl.store(out + 2 * N + offsets, tl.sqrt(v) + tl.sqrt_rn(v) + tl.rsqrt(v))
    tl.store(out + 3 * N + offsets, tl.floor(v) + tl.ceil(v) + tl.abs(-v))
    tl.store(out + 4 * N + offsets, tl.fma(v, v, v) + tl.div_rn(v, v + 1) + tl.fdiv(v, v + 2))
    tl.store(out + 5 * N + offsets, tl.clamp(v, 0.5, 1.5) + tl.minimum(v, 1.0))
    lowest = tl.maximum(v, 1.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + 6 * N + offsets, lowest + tl.sigmoid(v))
    whole = v.to(tl.int32)
    tl.store(out + 7 * N + offsets, tl.umulhi(whole, whole) + tl.abs(whole) // (whole + 1))


@case("out:*fp32 seed:i32", N=64)
@triton.jit
def random_numbers(out, seed, N: tl.constexpr):
    offsets = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + offsets, tl.rand(seed, offsets))


@case("p:*i64 k:i32", N=4)
@triton.jit
def indirect_pointers(p, k, N: tl.constexpr):
    addresses = tl.load(p + tl.arange(0, N))
    rows = addresses.to(tl.pointer_type(tl.float32))
    value = tl.load(rows + k, cache_modifier=".cg", volatile=True)
    tl.store(rows, value, eviction_policy="evict_first")


@case("x:*fp32 out:*fp32 n:i32", "x", N=16)
@triton.jit
def hints(x, out, n, N: tl.constexpr):
    offsets = tl.multiple_of(tl.max_contiguous(tl.arange(0, N) + n * N, N), N)
    acc = tl.zeros([N], tl.float32)
    for i in tl.range(0, n, loop_unroll_factor=2, flatten=True, warp_specialize=False):
        for j in tl.static_range(2):
            acc += tl.load(x + i * 2 + j)
    tl.store(out + offsets - n * N, acc)


def scrub(text: str) -> str:
    """Remove directories from file names in locations."""
    return re.sub(r'loc\("(?:[^"]*/)([^"/]+\.py)"', r'loc("\1"', text)


def compile_to_ttir(source: ASTSource, given: dict[str, object]) -> tuple[str, str]:
    """The text of both stages. Later stages are not run: some need hardware newer than sm_90."""
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options(given)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    generators, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(target, options, generators, modules, context)
    before = str(module)
    stages: dict[str, Callable] = {}
    backend.add_stages(stages, options, source.language)
    return before, str(stages["ttir"](module, {}))


def main() -> None:
    """Write all files."""
    for name, function, types, constants, attrs, options in KERNELS:
        before, after = compile_to_ttir(ASTSource(function, types, constants, attrs), options)
        (HERE / f"{name}.source.ttir").write_text(scrub(before))
        (HERE / f"{name}.ttir").write_text(scrub(after))


if __name__ == "__main__":
    main()
