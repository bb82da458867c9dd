"""Atomic operations on blocks of consecutive addresses, sixteen bytes at a time."""

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

from tests.support.agreement import run_all
from tests.support.launching import tl
from tritium.native.host import host, is_x86
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu

WIDE = is_x86() and host().has("cx16")


def rows(x, out, old, first, stride, low, high, OP: tl.constexpr, SCOPE: tl.constexpr,
         SEM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    keep = (j >= low) & (j < high)
    value = tl.load(x + i * N + j)
    held = OP(out + first + i * stride + j, value, mask=keep, scope=SCOPE, sem=SEM)
    tl.store(old + i * N + j, held, mask=keep)


def whole(x, out, first, OP: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    OP(out + first + i, tl.load(x + i), scope=SCOPE)


INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
BITWISE = (tl.atomic_and, tl.atomic_or, tl.atomic_xor)
ORDERED = (tl.atomic_max, tl.atomic_min)
CASES = [(op, d) for op in (*BITWISE, *ORDERED, tl.atomic_add, tl.atomic_xchg) for d in INTEGERS]
CASES += [(op, d) for op in ORDERED for d in (np.float32, np.float64)]
CASES += [(tl.atomic_add, d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
CASES += [(tl.atomic_xchg, d) for d in (np.float32, np.float64)]
SEMANTICS = ("acq_rel", "relaxed", "acquire", "release")


def numbers(dtype, count, seed):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    return (rng.standard_normal(count) * 8).astype(dtype)


@pytest.mark.every(8)
@pytest.mark.covering(1)
@pytest.mark.parametrize("scope", ["gpu", "cta"])
@pytest.mark.parametrize(
    ("op", "dtype"), CASES, ids=[f"{o.__name__}-{np.dtype(d).name}" for o, d in CASES]
)
def test_rows(op, dtype, scope):
    """Every alignment of the first row, rows that begin anywhere, and ranges of active elements."""
    x, out = numbers(dtype, 128, 1), numbers(dtype, 300, 2)
    sem = SEMANTICS[CASES.index((op, dtype)) % 4]
    for first, stride, low, high in ((2, 37, 0, 33), (3, 71, 3, 30), (5, 66, 7, 7)):
        arguments = {"x": x, "out": out, "old": np.zeros(128, dtype), "first": first,
                     "stride": stride, "low": low, "high": high, "OP": op, "SCOPE": scope,
                     "SEM": sem, "M": 4, "N": 32}  # fmt: skip
        run_all(rows, (1,), **arguments)


def scattered(x, index, out, old, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index + i)
    keep = at >= 0
    tl.store(old + i, OP(out + at.to(tl.int64) * keep - (at < 0) * (1 << 40), tl.load(x + i), keep))
    OP(out + at, tl.load(x + i) // 2, keep)


@pytest.mark.covering(1)
@pytest.mark.parametrize("op", [*BITWISE, *ORDERED], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.__name__)
def test_elements_that_are_only_looked_at(op, dtype):
    """Indices at random, many of them twice in a chunk, some masked and in no memory at all; chunks
    of which nothing changes, something, or all."""
    rng = np.random.default_rng(7)
    index = rng.integers(-8, 40, 128).astype(np.int32)
    settled = np.full(128, 5, dtype), np.full(40, 5, dtype)
    for x, out in ((numbers(dtype, 128, 1), numbers(dtype, 40, 2)), settled):
        out[:3] = np.iinfo(dtype).max, np.iinfo(dtype).min, 0
        index[32:48] %= 3
        run_all(scattered, (1,), x=x, index=index, out=out, old=np.zeros(128, dtype), OP=op, N=128)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("size", [2, 4, 256])
def test_sizes(size, dtype):
    """Blocks of less than sixteen bytes, of one chunk, of many."""
    for first in (2, 3):
        out = numbers(dtype, size + 8, 3)
        run_all(whole, (1,), x=numbers(dtype, size, 4), out=out, first=first, OP=tl.atomic_add,
                SCOPE="gpu", N=size)  # fmt: skip


def test_numbers_that_are_no_numbers():
    """The exchange compares bits: a NaN in memory does not keep it from succeeding."""
    out = np.float32([np.nan, -0.0, np.inf, 1, -np.inf, 0.0, np.nan, 2])
    x = np.float32([1, -0.0, 1, np.nan, np.inf, -0.0, np.nan, 3])
    JITFunction(whole)[(1,)](x, out, 0, tl.atomic_add, "gpu", 8)
    expected = np.float32([np.nan, -0.0, np.inf, np.nan, np.nan, 0.0, np.nan, 5])
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out[[1, 5]]), [True, False])


@pytest.mark.skipif(not WIDE, reason="wants the processor's exchange of 16 bytes")
def test_one_exchange_for_sixteen_bytes():
    x = np.zeros(64, np.float32)
    text = JITFunction(whole)[(1,)](x, x.copy(), 0, tl.atomic_add, "gpu", 64).asm["llir"]
    assert text.count("cmpxchg ptr") == text.count("to i128") // 2 == 5  # four: an aligned chunk
    assert text.count("atomicrmw fadd") == 1  # where an element is left over


def test_no_lock_within_a_program():
    """A program is one thread's work: `scope="cta"` takes ordinary loads and stores."""
    x = np.zeros(64, np.int32)
    for op in (tl.atomic_add, tl.atomic_max, tl.atomic_xchg):
        text = JITFunction(whole)[(1,)](x, x.copy(), 0, op, "cta", 64).asm["llir"]
        assert not any(word in text for word in ("atomicrmw", "cmpxchg", "fence", "load atomic"))


def guarded(count, dtype):
    """So many elements between inaccessible pages, at the end of the one or the start."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    memory = mmap.mmap(-1, 3 * page)
    data = np.frombuffer(memory, np.uint8)
    for number in (0, 2):
        place = ctypes.c_void_p(data.ctypes.data + number * page)
        assert libc.mprotect(place, ctypes.c_size_t(page), 0) == 0
    whole = data[page : 2 * page].view(dtype)
    return whole[-count:], whole[:count], memory


@pytest.mark.covering(1)
@pytest.mark.parametrize("scope", ["gpu", "cta"])
@pytest.mark.parametrize("op", [tl.atomic_add, tl.atomic_max], ids=lambda f: f.__name__)
def test_masked_elements_do_not_touch_memory(op, scope):
    """Neither behind the array nor before it, wherever its end lies within sixteen bytes."""
    kernel, x = JITFunction(rows)[(1,)], np.arange(1, 33).astype(np.float32)
    for count in (1, 2, 3, 4, 5, 7, 8, 13, 16, 21):
        last, first, memory = guarded(count, np.float32)
        old = np.zeros(32, np.float32)
        last[:] = 0
        kernel(x, last, old, 0, 0, 0, count, op, scope, "acq_rel", 1, 32)
        np.testing.assert_array_equal(last, x[:count])
        first[:] = 0
        kernel(x, first, old, count - 32, 0, 32 - count, 32, op, scope, "acq_rel", 1, 32)
        np.testing.assert_array_equal(first, x[32 - count :])
        kernel(x, first, old, 1 << 20, 0, 0, 0, op, scope, "acq_rel", 1, 32)
        del memory


def hammer(out, old, seen, extreme, one, times, W: tl.constexpr, N: tl.constexpr):
    """Blocks at every alignment, elements by index and single numbers, on the same addresses."""
    pid = tl.program_id(0)
    for turn in range(times):
        first = (pid * 7 + turn * 3) % 16
        j = tl.arange(0, W)
        v = j.to(out.dtype.element_ty) * 0 + 1
        held = tl.atomic_add(out + first + j, v)
        tl.store(old + (pid * times + turn) * W + j, held)
        tl.atomic_add(out + first + j, v, mask=(j + turn) % 5 != 0)
        tl.atomic_add(out + (j * 5 + pid) % N, v)
        tl.atomic_add(out + pid % N, one)
        tl.atomic_max(extreme + first + j, pid * times + turn)
        tl.atomic_max(seen + first + tl.arange(0, 2 * W), pid, mask=tl.arange(0, 2 * W) < W)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "dtype", [np.int32, np.float32, np.int64, np.float64], ids=lambda d: d.__name__
)
def test_contention(dtype):
    """Threads hammer overlapping blocks: no addition is lost, no number is handed out twice."""
    programs, times, width, size = 400, 16, 16, 32
    out, old = np.zeros(size, dtype), np.zeros(programs * times * width, dtype)
    seen, extreme = np.zeros(64, np.int32), np.zeros(64, np.int32)
    kernel = JITFunction(hammer)
    kernel[(programs,)](out, old, seen, extreme, 1, times, width, size)
    expected, newest, last = (np.zeros(count, np.int64) for count in (size, 64, 64))
    j = np.arange(width)
    by_place = [[] for _ in range(size)]
    for pid in range(programs):
        for turn in range(times):
            first = (pid * 7 + turn * 3) % 16
            np.add.at(expected, first + j, 1 + ((j + turn) % 5 != 0))
            np.add.at(expected, (j * 5 + pid) % size, 1)
            expected[pid % size] += 1
            newest[first + j] = np.maximum(newest[first + j], pid * times + turn)
            last[first + j] = np.maximum(last[first + j], pid)
            for lane in range(width):
                by_place[first + lane].append((pid * times + turn) * width + lane)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(extreme, newest)
    np.testing.assert_array_equal(seen, last)
    for places in by_place:
        tickets = old[places]
        assert len(np.unique(tickets)) == len(tickets)


def halves(out, times, N: tl.constexpr):
    """Sixteen-bit floats by eight, and one by one, in the same sixteen bytes."""
    pid = tl.program_id(0)
    j = tl.arange(0, N)
    for turn in range(times):
        tl.atomic_add(out + (pid + turn) % 8 + j, (j * 0 + 1).to(tl.float16))
        tl.atomic_add(out + (pid + turn) % 8 + j, (j * 0 + 1).to(tl.float16), mask=j % 2 == 0)


def test_contention_of_halves():
    programs, times, size = 64, 8, 16
    out = np.zeros(32, np.float16)
    JITFunction(halves)[(programs,)](out, times, size)
    expected = np.zeros(32)
    j = np.arange(size)
    for pid in range(programs):
        for turn in range(times):
            np.add.at(expected, (pid + turn) % 8 + j, 1 + (j % 2 == 0))
    assert expected.max() < 2048  # all of these numbers exist as halves
    np.testing.assert_array_equal(out, expected)
