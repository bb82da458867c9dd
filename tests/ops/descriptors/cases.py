"""Kernels that make descriptors, and what they should do: for tests without a GPU and with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import tritium
import tritium.language as tl

DTYPES = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64,
    "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2,
}  # fmt: skip


@dataclass
class Case:
    """A launch: arguments in the kernel's order, arrays among them, and the arrays' contents
    afterwards; `maps` that the kernel makes (0 where it goes through pointers)."""

    kernel: Any
    arguments: dict[str, Any]
    want: dict[str, np.ndarray]
    maps: int
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, ...] = (1,)
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    tolerance: float = 0.0


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy whose first element has an address that descriptors take."""
    room = np.zeros(values.nbytes + 16, np.uint8)
    copy = room[-room.ctypes.data % 16 :][: values.nbytes].view(values.dtype)
    copy.reshape(values.shape)[...] = values
    return copy.reshape(values.shape)


def type_name(array: np.ndarray) -> str:
    """The name of an array's element type in a signature."""
    return next(name for name, dtype in DTYPES.items() if array.dtype == np.dtype(dtype))


def numbers(shape: Sequence[int], dtype: str = "fp32", low: int = -9) -> np.ndarray:
    """Small integers, none of them zero."""
    generator = np.random.default_rng(sum(shape) + len(dtype))
    low = 1 if dtype[0] == "u" else low
    values = generator.integers(low, 10, tuple(shape))
    return aligned(np.where(values == 0, 7, values).astype(DTYPES[dtype]))


def block_of(tensor: np.ndarray, at: Sequence[int], block: Sequence[int], fill: Any) -> np.ndarray:
    """A block of a tensor, `fill` beyond its bounds."""
    found = np.full(block, fill, tensor.dtype)
    bounds = zip(at, block, tensor.shape, strict=True)
    inside = [range(max(a, 0), min(a + b, n)) for a, b, n in bounds]
    if all(len(r) for r in inside):
        to = tuple(slice(r.start - a, r.stop - a) for r, a in zip(inside, at, strict=True))
        found[to] = tensor[tuple(slice(r.start, r.stop) for r in inside)]
    return found


def put_block(tensor: np.ndarray, at: Sequence[int], values: np.ndarray, how: Any = None) -> None:
    """Write a block to a tensor (or combine it with `how`), nothing beyond its bounds."""
    places = list(zip(at, values.shape, tensor.shape, strict=True))
    written = tensor[tuple(slice(max(a, 0), max(a + n, 0)) for a, n, _ in places)]
    inside = values[tuple(slice(max(-a, 0), max(size - a, 0)) for a, _, size in places)]
    written[...] = inside if how is None else how(written, inside)


# Blocks of every rank and type, over all edges


@tritium.jit
def copy_block(x, o, A, B, C, D, E, i, j, RANK: tl.constexpr, BLOCK: tl.constexpr,
               PADDING: tl.constexpr, STEP: tl.constexpr):  # fmt: skip
    if RANK == 1:
        s = tl.make_tensor_descriptor(x, [E], [1], BLOCK, PADDING)
        t = tl.make_tensor_descriptor(o, [E], [1], BLOCK)
        t.store([j * STEP], s.load([i * STEP]))
    elif RANK == 2:
        s = tl.make_tensor_descriptor(x, [D, E], [E, 1], BLOCK, PADDING)
        t = tl.make_tensor_descriptor(o, [D, E], [E, 1], BLOCK)
        t.store([j, j * STEP], s.load([i, i * STEP]))
    elif RANK == 3:
        s = tl.make_tensor_descriptor(x, [C, D, E], [D * E, E, 1], BLOCK, PADDING)
        t = tl.make_tensor_descriptor(o, [C, D, E], [D * E, E, 1], BLOCK)
        t.store([j, j, j * STEP], s.load([i, i, i * STEP]))
    elif RANK == 4:
        s = tl.make_tensor_descriptor(x, [B, C, D, E], [C * D * E, D * E, E, 1], BLOCK, PADDING)
        t = tl.make_tensor_descriptor(o, [B, C, D, E], [C * D * E, D * E, E, 1], BLOCK)
        t.store([j, j, j, j * STEP], s.load([i, i, i, i * STEP]))
    else:
        strides = [B * C * D * E, C * D * E, D * E, E, 1]
        s = tl.make_tensor_descriptor(x, [A, B, C, D, E], strides, BLOCK, PADDING)
        t = tl.make_tensor_descriptor(o, [A, B, C, D, E], strides, BLOCK)
        t.store([j, j, j, j, j * STEP], s.load([i, i, i, i, i * STEP]))


def copying(
    dtype: str, shape: Sequence[int], block: Sequence[int], i: int, j: int, padding: str = "zero",
    maps: int = 2, step: int = 0,
) -> Case:  # fmt: skip
    """Copy the block at (i, i, ..., i * step) to (j, j, ..., j * step); a step is 16 bytes unless
    another is given."""
    rank, x, o = len(shape), numbers(shape, dtype), numbers(shape, dtype)
    step = step or 16 // x.itemsize
    fill = np.nan if padding == "nan" else 0
    want = o.copy()
    taken = block_of(x, [*[i] * (rank - 1), i * step], block, fill)
    put_block(want, [*[j] * (rank - 1), j * step], taken)
    sizes = dict(zip("ABCDE", [1] * (5 - rank) + list(shape), strict=True))
    return Case(
        copy_block, {"x": x, "o": o, **sizes, "i": i, "j": j}, {"o": want}, maps,
        {"RANK": rank, "BLOCK": tuple(block), "PADDING": padding, "STEP": step},
    )  # fmt: skip


SHAPES = {
    1: ((112,), (64,)), 2: ((20, 48), (16, 32)), 3: ((6, 10, 32), (4, 8, 16)),
    4: ((3, 6, 5, 16), (2, 4, 4, 16)), 5: ((3, 2, 3, 6, 32), (2, 1, 2, 4, 32)),
}  # fmt: skip


def copies() -> Iterator[tuple[str, Case]]:
    """Every rank over both edges; every type; NaN beyond the bounds; boxes of several copies; what
    does not begin at multiples of 16 bytes."""
    for rank, (shape, block) in SHAPES.items():
        for i, j in ((-2, 3), (3, 0), (0, 1)):
            yield f"rank {rank}, {i} to {j}", copying("fp16", shape, block, i, j)
    for dtype in DTYPES:
        yield dtype, copying(dtype, (20, 64), (16, 32), -3, 3)
    for dtype in ("fp16", "bf16", "fp32", "fp64"):
        yield f"{dtype}, nan", copying(dtype, (20, 64), (16, 32), 5, 0, "nan")
    yield "a row", copying("fp32", (4, 512), (1, 512), 1, 2)
    yield "many rows", copying("i16", (600, 16), (512, 8), 1, 2)
    yield "256 wide", copying("fp32", (8, 512), (4, 256), 1, 2)
    yield "1024 elements", copying("fp32", (2000,), (1024,), 5, 247)
    yield "fp8, nan", copying("fp8e5", (20, 64), (16, 32), 5, 0, "nan", maps=1)
    yield "not aligned", copying("fp32", (20, 64), (16, 32), -3, 7, maps=0, step=1)


# Descriptors in loops, branches and functions


@tritium.jit
def exchanged(a, b, o, N, n):
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    e = tl.make_tensor_descriptor(b, [N], [1], [64])
    acc = tl.zeros([64], tl.float32)
    for i in range(n):
        acc += d.load([i * 64])
        d, e = e, d
    tl.store(o + tl.arange(0, 64), acc)


@tritium.jit(noinline=True)
def load_from(d, i):
    return d.load([i * 64])


@tritium.jit
def given_to_a_function(a, b, o, N, n):
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    tl.store(o + tl.arange(0, 64), load_from(d, n) + load_from(d, 0))


@tritium.jit(noinline=True)
def load_at(d, start):
    return d.load([start])


@tritium.jit
def places_given_to_a_function(a, b, o, N, n):
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    e = tl.make_tensor_descriptor(b, [N], [1], [64])
    tl.store(o + tl.arange(0, 64), load_at(d, n * 64) + load_at(e, n * 32))


@tritium.jit(noinline=True)
def sum_of_rows(base, N, n):
    acc = tl.zeros([64], tl.float32)
    for i in range(n):
        d = tl.make_tensor_descriptor(base + 64 * i, [N - 64 * i], [1], [64])
        acc += d.load([0])
    return acc


@tritium.jit
def made_in_a_function(a, b, o, N, n):
    tl.store(o + tl.arange(0, 64), sum_of_rows(a, N, n) - sum_of_rows(b, N, n))


@tritium.jit(noinline=True)
def make(a, N):
    return tl.make_tensor_descriptor(a, [N], [1], [64])


@tritium.jit
def returned(a, b, o, N, n):
    d, e = make(a, N), make(b, N)
    tl.store(o + tl.arange(0, 64), d.load([0]) - e.load([64]))


@tritium.jit
def make_inlined(a, N):
    return tl.make_tensor_descriptor(a, [N], [1], [64])


@tritium.jit
def returned_inlined(a, b, o, N, n):
    d, e = make_inlined(a, N), make_inlined(b, N)
    tl.store(o + tl.arange(0, 64), d.load([0]) - e.load([64]))


@tritium.jit
def chosen(a, b, o, N, n):
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    if n > 2:
        d = tl.make_tensor_descriptor(b, [N - 1], [1], [64])
    tl.store(o + tl.arange(0, 64), d.load([448]))


@tritium.jit
def remade(a, b, o, N, n):
    acc = tl.zeros([64], tl.float32)
    for i in range(n):
        d = tl.make_tensor_descriptor(a + 64 * i, [N], [1], [64])
        acc += d.load([64])
    tl.store(o + tl.arange(0, 64), acc)


@tritium.jit
def renewed(a, b, o, N, n):
    acc = tl.zeros([64], tl.float32)
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    for i in range(n):
        if i % 2 == 1:
            d = tl.make_tensor_descriptor(b + 64 * i, [N], [1], [64])
        acc += d.load([0])
    tl.store(o + tl.arange(0, 64), acc)


@tritium.jit
def renewed_while(a, b, o, N, n):
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    i = 0
    acc = tl.zeros([64], tl.float32)
    while i < n:
        acc += d.load([i * 64])
        if i == 1:
            d = tl.make_tensor_descriptor(b, [N], [1], [64])
        else:
            acc += 1
        i += 1
    tl.store(o + tl.arange(0, 64), acc)


@tritium.jit
def one_before(a, b, o, N, n):
    acc = tl.zeros([64], tl.float32)
    d = tl.make_tensor_descriptor(a, [N], [1], [64])
    for i in range(n):
        e = tl.make_tensor_descriptor(b + 64 * i, [N], [1], [64])
        acc += d.load([0]) + 2 * e.load([0])
        d = e
    tl.store(o + tl.arange(0, 64), acc)


@tritium.jit
def stored_in_turn(a, b, o, N, n):
    for i in range(n):
        d = tl.make_tensor_descriptor(o + 64 * i, [64], [1], [64])
        s = tl.make_tensor_descriptor(a + 64 * (n - i), [64], [1], [64])
        d.store([0], s.load([0]))


@tritium.jit
def loaded_after_a_store(a, b, o, N, n):
    d = tl.make_tensor_descriptor(o, [N], [1], [64])
    e = tl.make_tensor_descriptor(a, [N], [1], [64])
    d.store([0], e.load([0]))
    for i in range(n):
        f = tl.make_tensor_descriptor(o, [N], [1], [64])
        d.store([64 * i + 64], f.load([64 * i]) + e.load([64 * i + 64]))
        f.atomic_add([64 * i], f.load([64 * i + 64]))


@tritium.jit
def stored_by_threads(a, b, o, N, n):
    d = tl.make_tensor_descriptor(o, [N], [1], [64])
    e = tl.make_tensor_descriptor(a, [N], [1], [64])
    at = o + tl.arange(0, 64)
    tl.store(at, tl.load(b + tl.arange(0, 64)))
    tl.debug_barrier()
    d.store([0], d.load([0]) + e.load([4 * n]))
    tl.debug_barrier()
    tl.store(at, tl.load(at) * 2)


_FLOWS: dict[Any, tuple[int, Callable[..., Any]]] = {
    exchanged: (2, lambda a, b: a[0] + b[1] + a[2]),
    given_to_a_function: (1, lambda a, b: a[3] + a[0]),
    places_given_to_a_function: (2, lambda a, b: a[3] + b.reshape(-1)[96:160]),
    made_in_a_function: (1, lambda a, b: (a - b)[:3].sum(0)),
    returned: (0, lambda a, b: a[0] - b[1]),
    returned_inlined: (2, lambda a, b: a[0] - b[1]),
    chosen: (2, lambda a, b: np.append(b[7, :63], 0)),
    remade: (1, lambda a, b: a[1] + a[2] + a[3]),
    renewed: (2, lambda a, b: a[0] + b[1] + b[1]),
    renewed_while: (2, lambda a, b: a[0] + a[1] + b[2] + 2),
    one_before: (0, lambda a, b: a[0] + 3 * b[0] + 3 * b[1] + 2 * b[2]),
    loaded_after_a_store: (2, lambda a, b: _running(a)),
    stored_by_threads: (1, lambda a, b: 2 * (b[0] + a.reshape(-1)[12:76])),
    stored_in_turn: (2, lambda a, b: np.concatenate([a[3], a[2], a[1]])),
}


def _running(a: np.ndarray) -> np.ndarray:
    totals = a[:4].cumsum(0)
    totals[:3] += totals[1:].copy()
    return totals.reshape(-1)


def flows() -> Iterator[tuple[str, Case]]:
    """Descriptors in loops, branches and functions."""
    for kernel, (maps, expected) in _FLOWS.items():
        a, b = numbers((8, 64)), numbers((8, 64), low=-7)
        want = expected(a, b).astype(np.float32)
        arguments = {"a": a, "b": b, "o": numbers(want.shape), "N": 512, "n": 3}
        yield kernel.__name__, Case(kernel, arguments, {"o": want}, maps)


# Sums and the like


@tritium.jit
def combine_blocks(x, o, M, N, KIND: tl.constexpr):
    s = tl.make_tensor_descriptor(x, [M, N], [N, 1], [8, 32])
    t = tl.make_tensor_descriptor(o, [M, N], [N, 1], [8, 32])
    value = s.load([0, 0])
    if KIND == "add":
        t.atomic_add([3, 16], value)
    elif KIND == "min":
        t.atomic_min([3, 16], value)
    elif KIND == "max":
        t.atomic_max([3, 16], value)
    elif KIND == "and":
        t.atomic_and([3, 16], value)
    elif KIND == "or":
        t.atomic_or([3, 16], value)
    else:
        t.atomic_xor([3, 16], value)


_ADDED = ("u32", "i32", "u64", "fp32", "fp16", "bf16")
_ORDERED = ("u32", "i32", "u64", "i64", "fp16", "bf16")
_WORDS = ("u32", "i32", "u64", "i64")
KINDS: dict[str, tuple[tuple[str, ...], Any]] = {
    "add": (_ADDED, np.add), "min": (_ORDERED, np.minimum), "max": (_ORDERED, np.maximum),
    "and": (_WORDS, np.bitwise_and), "or": (_WORDS, np.bitwise_or), "xor": (_WORDS, np.bitwise_xor),
}  # fmt: skip


def sums() -> Iterator[tuple[str, Case]]:
    """Every kind with every type that it takes, over the edges, by four programs at once."""
    for kind, (dtypes, function) in KINDS.items():
        for dtype in dtypes:
            x, o = numbers((8, 48), dtype), numbers((8, 48), dtype)
            if dtype[0] == "u":  # such that signed numbers would be ordered otherwise
                x[::2] = np.iinfo(x.dtype).max - x[::2]
            want = o.copy()
            for _ in range(4):
                with np.errstate(all="ignore"):
                    put_block(want, (3, 16), x[:8, :32], function)
            arguments = {"x": x, "o": o, "M": 8, "N": 48}
            yield f"{kind} {dtype}", Case(
                combine_blocks, arguments, {"o": want}, 2, {"KIND": kind}, (4,)
            )


# What the copy engine does not serve, and products


@tritium.jit
def rows_at(x, o, index, M, N):
    rows = tl.load(index + tl.arange(0, 8))
    s = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, 16])
    t = tl.make_tensor_descriptor(o, [M, N], [N, 1], [1, 16])
    t.scatter(s.gather(rows, 4), rows, 16)
    t.store([0, 0], s.load([0, 0]))


@tritium.jit
def odd_strides(x, o, M):
    s = tl.make_tensor_descriptor(x, [M, 33], [33, 1], [8, 32])
    t = tl.make_tensor_descriptor(o, [M, 36], [36, 1], [8, 32])
    t.store([1, 4], s.load([1, 1]))


@tritium.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            PROGRAMS: tl.constexpr):  # fmt: skip
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, PROGRAMS):
        i, j = tile // columns * BM, tile % columns * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(left.load([i, k]), right.load([j, k]).T, acc)
        out.store([i, j], acc.to(tl.float16))


@tritium.jit
def product_of_heads(a, b, c, d, M, N, K, HEADS: tl.constexpr, BM: tl.constexpr,
                     BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    left = tl.make_tensor_descriptor(
        a, [2, HEADS, M, K], [HEADS * M * K, M * K, K, 1], [1, 1, BM, BK]
    )
    right = tl.make_tensor_descriptor(
        b, [2, HEADS, N, K], [HEADS * N * K, N * K, K, 1], [1, 1, BN, BK]
    )
    shape, block = [2, HEADS, M, N], [1, 1, BM, BN]
    out = tl.make_tensor_descriptor(c, shape, [HEADS * M * N, M * N, N, 1], block)
    sums = tl.make_tensor_descriptor(d, shape, [HEADS * M * N, M * N, N, 1], block)
    batch, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    for i in range(0, M, BM):
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            x = left.load([batch, head, i, k]).reshape(BM, BK)
            y = right.load([batch, head, 0, k]).reshape(BN, BK)
            acc = tl.dot(x, y.T, acc)
        out.store([batch, head, i, 0], acc.to(tl.float16).reshape(1, 1, BM, BN))
        sums.atomic_add([batch, head, i, 0], acc.reshape(1, 1, BM, BN))


@tritium.jit
def before_the_first_row(x, o, N):
    s = tl.make_tensor_descriptor(x, [N, 64], [64, 1], [8, 32])
    t = tl.make_tensor_descriptor(o, [N, 64], [64, 1], [8, 32])
    t.store([-3, 16], s.load([-3, 16]))


def others() -> Iterator[tuple[str, Case]]:
    """Descriptors that go through pointers, and a persistent product."""
    x, o = numbers((20, 48), "i32"), numbers((20, 48), "i32")
    index = aligned(np.array([3, 1, 19, 0, 7, 5, 30, 2], np.int32))
    want = o.copy()
    for row in index:
        put_block(want, (row, 16), block_of(x, (row, 4), (1, 16), 0))
    want[0, :16] = x[0, :16]
    arguments = {"x": x, "o": o, "index": index, "M": 20, "N": 48}
    yield "rows", Case(rows_at, arguments, {"o": want}, 0)
    x, o = numbers((20, 33)), numbers((20, 36))
    want = o.copy()
    want[1:9, 4:36] = x[1:9, 1:33]
    yield "odd strides", Case(odd_strides, {"x": x, "o": o, "M": 20}, {"o": want}, 1)
    x, o = numbers((20, 64)), numbers((20, 64))
    want = o.copy()
    want[:5, 16:48] = x[:5, 16:48]
    yield "stored before the first row", Case(
        before_the_first_row, {"x": x, "o": o, "N": 20}, {"o": want}, 1
    )
    a, b = numbers((72, 80), "fp16", -2), numbers((104, 80), "fp16", -2)
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    yield "product", Case(
        product, {"a": a, "b": b, "c": numbers(want.shape, "fp16"), "M": 72, "N": 104, "K": 80},
        {"c": want}, 3, {"BM": 64, "BN": 64, "BK": 32, "PROGRAMS": 3}, (3,), {"num_stages": 3},
        1e-3,
    )  # fmt: skip
    a, b = numbers((2, 3, 72, 80), "fp16", -2), numbers((2, 3, 48, 80), "fp16", -2)
    exact = np.einsum("zhmk,zhnk->zhmn", a.astype(np.float32), b.astype(np.float32))
    c, d = numbers(exact.shape, "fp16"), numbers(exact.shape)
    yield "product of heads", Case(
        product_of_heads, {"a": a, "b": b, "c": c, "d": d, "M": 72, "N": 48, "K": 80},
        {"c": exact.astype(np.float16), "d": d + exact}, 4,
        {"HEADS": 3, "BM": 64, "BN": 64, "BK": 32}, (6,), {"num_stages": 3}, 1e-3,
    )  # fmt: skip


def cases() -> dict[str, Case]:
    """All cases by name."""
    return dict([*copies(), *flows(), *sums(), *others()])
