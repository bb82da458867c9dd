"""Loads, stores, atomics, block pointers, tensor descriptors."""

import itertools

import numpy as np
import pytest

from tests.conformance.support import DTYPES, FLOATS, INTEGERS, build, run, samples
from tests.support.device import device, native, to_gpu

WAYS = ("native", "interpreted")


def both(source, args, grid=(1,), **names):
    """The arrays after a launch, the same both ways."""
    found, other = (run(build(source, **names), args, grid, way) for way in WAYS)
    for name, array in found.items():
        as_bytes = [np.ascontiguousarray(a).view(np.uint8) for a in (array, other[name])]
        np.testing.assert_array_equal(*as_bytes, err_msg=name)
    return found


MASKED = """
def kernel(x, o, n, k):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    keep = (i < n) & (i % k != 1)
    tl.store(o + i, tl.load(x + i, keep, other=OTHER), mask=i < n - 1)
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["int1", *INTEGERS, *FLOATS, "float8e5"])
def test_masks(name):
    """Elements that a mask excludes are `other`; memory that a store's mask excludes stays."""
    x, n = samples(name, 37, 1), 37
    out = np.full(40, 1).astype(DTYPES[name])
    found = both(MASKED.replace("OTHER", "0"), {"x": x, "o": out, "n": n, "k": 3}, (3,))["o"]
    i = np.arange(40)
    expected = out.copy()
    expected[: n - 1] = np.where(i[:n] % 3 != 1, x, np.zeros(1, x.dtype))[: n - 1]
    np.testing.assert_array_equal(found.astype(float), expected.astype(float))


def test_masked_lanes_touch_no_memory():
    """Their addresses may be anything."""
    source = """
def kernel(x, o):
    i = tl.arange(0, 8)
    far = tl.where(i < 4, i.to(tl.int64), 1 << 40)
    v = tl.load(x + far, i < 4, other=-1)
    tl.store(o + far, v, i < 4)
    tl.store(o + 4, tl.sum(v))
    tl.atomic_add(o + far, 1, i < 2)
"""
    found = both(source, {"x": np.arange(4, dtype=np.int32), "o": np.zeros(8, np.int32)})["o"]
    assert found.tolist() == [1, 2, 2, 3, 2, 0, 0, 0]


def test_values_are_cast_and_broadcast():
    source = """
def kernel(o, h, b, s):
    i = tl.arange(0, 4)
    tl.store(o + i, 2.75)
    tl.store(h + i[:, None] * 4 + i[None, :], i[:, None])
    tl.store(b + i, i)
    tl.store(s, i.sum(0) + 0.5)
"""
    found = both(source, {"o": np.zeros(4, np.int8), "h": np.zeros((4, 4), np.float16),
                          "b": np.zeros(4, bool), "s": np.zeros(1, np.float64)})  # fmt: skip
    assert found["o"].tolist() == [2] * 4 and found["s"].tolist() == [6.5]
    assert found["h"].tolist() == [[i] * 4 for i in range(4)]
    assert found["b"].tolist() == [False, True, True, True]


def test_options_change_nothing():
    loads = [".ca", ".cg", ".cs", ".cv", ""]
    stores = [".wb", ".cg", ".cs", ".wt", ""]
    lines = []
    for i, (a, b) in enumerate(itertools.product(loads, stores)):
        policy = ("evict_first", "evict_last", "")[i % 3]
        lines.append(f"    v = tl.load(x + i, cache_modifier='{a}', eviction_policy='{policy}', "
                     f"volatile={i % 2 == 0})")  # fmt: skip
        lines.append(
            f"    tl.store(o + {i * 8} + i, v, cache_modifier='{b}', eviction_policy='{policy}')"
        )
    source = "def kernel(x, o):\n    i = tl.arange(0, 8)\n" + "\n".join(lines) + "\n"
    x = np.arange(8, dtype=np.float32)
    found = both(source, {"x": x, "o": np.zeros(200, np.float32)})["o"]
    np.testing.assert_array_equal(found.reshape(25, 8), np.tile(x, (25, 1)))


def test_scalars_and_pointers_in_memory():
    source = """
def kernel(table, o, x):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.int32))
    tl.store(o + tl.program_id(0), tl.load(p) + tl.load(p + 1))
    q = x.to(tl.int64) + 4
    tl.store(o + 2 + tl.program_id(0), tl.load(q.to(tl.pointer_type(tl.int32))))
"""
    x = np.int32([5, 6, 7])
    out = np.zeros(4, np.int32)
    held = to_gpu(x) if device == "cuda" else x
    address = held.data_ptr() if device == "cuda" else x.ctypes.data
    # Natively alone: interpreted programs reach their own arguments only.
    native(build(source))[(2,)](np.array([address, address + 4], np.int64), out, held)
    assert out.tolist() == [11, 13, 6, 6]


# Atomics

KINDS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
ATOMIC = """
def kernel(x, p, o, MASK: tl.constexpr):
    i = tl.arange(0, 16)
    old = tl.atomic_KIND(p + i, tl.load(x + i), MODE)
    tl.store(o + i, old, MODE)
"""
WORDS = ("int32", "uint32", "int64", "uint64")


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in KINDS for n in WORDS]
    + [(k, n) for k in ("max", "min") for n in ("float32", "float64")]
    + [("add", n) for n in FLOATS],
)
def test_atomics(kind, name):
    x, p = samples(name, 16, 1), samples(name, 16, 2)
    if name in FLOATS:  # the order of NaN in a float's extremes is not specified
        x, p = (
            np.nan_to_num(v.astype(float), nan=1, posinf=9, neginf=-9).astype(DTYPES[name])
            for v in (x, p)
        )
    keep = np.arange(16) % 3 != 0
    source = ATOMIC.replace("KIND", kind).replace("MODE", "mask=i % 3 != 0")
    out = np.zeros(16, DTYPES[name])
    found = both(source, {"x": x, "p": p, "o": out, "MASK": True})
    with np.errstate(all="ignore"):
        changed = KINDS[kind](p, x)
    np.testing.assert_array_equal(
        found["p"].astype(float), np.where(keep, changed, p).astype(float)
    )
    np.testing.assert_array_equal(found["o"].astype(float), np.where(keep, p, out).astype(float))


@pytest.mark.parametrize("name", ["int32", "uint64", "float32", "float64"])
def test_exchange_and_compare(name):
    source = """
def kernel(x, p, o, q):
    i = tl.arange(0, 16)
    tl.store(o + i, tl.atomic_xchg(p + i, tl.load(x + i), sem='acquire', scope='cta'))
    tl.store(o + 16 + i, tl.atomic_cas(q + i, tl.load(x + i), tl.full([16], 7, x.dtype.element_ty)))
    tl.store(o + 32, tl.atomic_xchg(p, tl.load(x + 1), sem='relaxed', scope='sys'))
"""
    x, p = np.arange(16).astype(name), np.arange(16, 32).astype(name)
    q = np.where(np.arange(16) % 2, x, 100).astype(name)
    found = both(source, {"x": x, "p": p, "o": np.zeros(33, name), "q": q})
    np.testing.assert_array_equal(found["o"], [*p, *q, x[0]])
    np.testing.assert_array_equal(found["p"], [x[1], *x[1:]])
    np.testing.assert_array_equal(found["q"], np.where(np.arange(16) % 2, 7, 100))


CONTENTION = """
def kernel(c, h, f, m, lock, plain, seen):
    pid = tl.program_id(0)
    ticket = tl.atomic_add(c, 1)
    tl.store(seen + ticket, 1)
    i = tl.arange(0, 32)
    tl.atomic_add(h + i % 4, 1)
    tl.atomic_add(f + i % 8, 0.5)
    tl.atomic_max(m, pid)
    tl.atomic_min(m + 1, -pid)
    tl.atomic_or(m + 2, 1 << (pid % 31))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(plain, tl.load(plain, volatile=True) + 1)
    tl.atomic_xchg(lock, 0)
"""


def test_contention():
    """Thousands of programs on the same addresses; each ticket is given once; a spin lock."""
    programs = 4000
    args = {"c": np.zeros(1, np.int32), "h": np.zeros(4, np.int32), "f": np.zeros(8, np.float32),
            "m": np.zeros(3, np.int32), "lock": np.zeros(1, np.int32),
            "plain": np.zeros(1, np.int32), "seen": np.zeros(programs, np.int32)}  # fmt: skip
    found = run(build(CONTENTION), args, (programs,))
    assert found["c"].tolist() == [programs] and found["seen"].all()
    assert found["h"].tolist() == [8 * programs] * 4
    assert found["f"].tolist() == [2.0 * programs] * 8
    assert found["m"].tolist() == [programs - 1, 1 - programs, 2**31 - 1]
    assert found["plain"].tolist() == [programs]


# Block pointers

BLOCKS = """
def kernel(x, o, rows, columns, dy, dx):
    p = tl.make_block_ptr(x, (rows, columns), (columns, 1), (dy, 0), (4, 8), (1, 0))
    p = tl.advance(p, (0, dx))
    v = tl.load(p, boundary_check=CHECK, padding_option='PADDING')
    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(o + i, v)
    q = tl.make_block_ptr(o + 32, (rows, columns), (columns, 1), (dy, dx), (4, 8), (1, 0))
    tl.store(q, v, boundary_check=CHECK)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("padding", ["zero", "nan", ""])
@pytest.mark.parametrize("check", ["(0, 1)", "(0,)", "(1,)", "()"])
def test_block_pointers(check, padding):
    if padding == "nan" and check == "()":
        padding = "zero"
    rows, columns = 6, 13
    dy, dx = (3 if "0" in check else 1), (7 if "1" in check else 2)
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    source = BLOCKS.replace("CHECK", check).replace("PADDING", padding)
    out = np.full(32 + rows * columns, -9, np.float32)
    args = {"x": x, "o": out, "rows": rows, "columns": columns, "dy": dy, "dx": dx}
    found = both(source, args)["o"]
    block = np.full((4, 8), np.nan if padding == "nan" else 0, np.float32)
    inside = x[dy : dy + 4, dx : dx + 8]
    block[: inside.shape[0], : inside.shape[1]] = inside
    if padding or check == "()":
        np.testing.assert_array_equal(found[:32].reshape(4, 8), block)
    target = np.full((rows, columns), -9, np.float32)
    target[dy : dy + 4, dx : dx + 8] = inside
    np.testing.assert_array_equal(found[32:].reshape(rows, columns), target)


@pytest.mark.parametrize("name", ["int8", "int32", "float16", "bfloat16", "float64"])
def test_block_pointers_in_loops(name):
    """Advanced along both axes, transposed strides, a scalar sum of all blocks."""
    source = """
def kernel(x, o, K):
    p = tl.make_block_ptr(x, (8, K), (1, 8), (0, 0), (8, 4), (0, 1))
    acc = tl.zeros((8, 4), tl.float32)
    for k in range(0, tl.cdiv(K, 4)):
        acc += tl.load(p, boundary_check=(1,), padding_option='zero').to(tl.float32)
        p = tl.advance(p, (0, 4))
    tl.store(tl.make_block_ptr(o, (8, 4), (4, 1), (0, 0), (8, 4), (1, 0)), acc)
"""
    x = np.random.default_rng(0).integers(-8, 8, (14, 8)).astype(DTYPES[name])
    found = both(source, {"x": x, "o": np.zeros((8, 4), np.float32), "K": 14})["o"]
    whole = np.zeros((16, 8))
    whole[:14] = x.astype(float)
    np.testing.assert_array_equal(found, whole.reshape(4, 4, 8).sum(0).T)


# Descriptors


def descriptor_kernel(rank):
    names = ", ".join(f"n{i}" for i in range(rank))
    strides = ", ".join(f"s{i}" for i in range(rank - 1)) + (", 1" if rank > 1 else "1")
    offsets = ", ".join(f"d{i}" for i in range(rank))
    extra = [f"n{i}" for i in range(rank)] + [f"s{i}" for i in range(rank - 1)]
    extra += [f"d{i}" for i in range(rank)]
    return f"""
def kernel(x, o, {", ".join(extra)}, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [{names}], [{strides}], BLOCK)
    b = tl.make_tensor_descriptor(o, shape=[{names}], strides=[{strides}], block_shape=BLOCK)
    v = a.load([{offsets}])
    b.store([{offsets}], v + 1)
    tl.store_tensor_descriptor(b, [{offsets}], tl.load_tensor_descriptor(b, [{offsets}]) * 2)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["int32", "float16", "uint8"])
def test_descriptors(name, rank, outside):
    shape = (3, 5, 4, 6, 32)[-rank:]
    block = (2, 2, 4, 2, 16)[-rank:]
    offsets = tuple(n - b + (1 if outside else 0) for n, b in zip(shape, block, strict=True))
    x = np.random.default_rng(0).integers(0, 50, shape).astype(DTYPES[name])
    args = {"x": x, "o": np.zeros_like(x)}
    strides = [s // x.itemsize for s in x.strides[:-1]]
    args |= {f"n{i}": n for i, n in enumerate(shape)} | {f"s{i}": s for i, s in enumerate(strides)}
    args |= {f"d{i}": d for i, d in enumerate(offsets)} | {"BLOCK": list(block)}
    found = both(descriptor_kernel(rank), args)["o"]
    expected = np.zeros_like(x)
    at = tuple(slice(d, d + b) for d, b in zip(offsets, block, strict=True))
    expected[at] = (x[at] + 1) * 2
    np.testing.assert_array_equal(found, expected)


def test_descriptors_gather_scatter_and_combine():
    source = """
def kernel(x, o, r, rows, columns):
    d = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [1, 8])
    e = tl.make_tensor_descriptor(o, [rows, columns], [columns, 1], [1, 8])
    index = tl.load(r + tl.arange(0, 8))
    v = d.gather(index, 4)
    e.scatter(v + 1, index, 4)
    tl.debug_barrier()  # accesses of different threads have no order of their own
    f = tl.make_tensor_descriptor(o, [rows, columns], [columns, 1], [8, 8])
    f.atomic_add([0, 8], tl.full([8, 8], 3, tl.int32))
    tl.debug_barrier()
    f.atomic_max([0, 4], tl.full([8, 8], 20, tl.int32))
"""
    rows, columns = 10, 12
    x = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    r = np.int32([3, 9, 1, 0, 7, 5, 2, 30])
    found = both(source, {"x": x, "o": np.zeros_like(x), "r": r, "rows": rows, "columns": columns})
    expected = np.zeros_like(x)
    expected[r[:7], 4:12] = x[r[:7], 4:12] + 1
    expected[:8, 8:12] += 3
    expected[:8, 4:12] = np.maximum(expected[:8, 4:12], 20)
    np.testing.assert_array_equal(found["o"], expected)


NEGATIVE = """
def kernel(x, o, n):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(o + i, tl.load(x + 16 + (i - START) % 16))
"""


@pytest.mark.parametrize("start", ["16", "n"])
def test_addresses_of_remainders_of_negative_numbers(start):
    """They do not grow with the numbers, nor are they valid offsets by themselves."""
    x = np.arange(64, dtype=np.float32)
    args = {"x": x, "o": np.zeros(2048, np.float32), "n": 16}
    found = both(NEGATIVE.replace("START", start), args, (2,))["o"]
    np.testing.assert_array_equal(found, x[16 + np.fmod(np.arange(2048) - 16, 16)])


@pytest.mark.parametrize("through", ["pointers", "a block"])
def test_loops_that_read_what_they_write(through):
    """`num_stages` starts loads ahead, but none before the stores that come first: each row is the
    reverse of the one before plus one, turned again, by threads that read what others wrote."""
    stores = {"pointers": "tl.store(x + (i + 1) * 32 + j, {})", "a block": "tl.store(b, {})"}
    source = f"""
def kernel(x, n):
    j = tl.arange(0, 32)
    b = tl.make_block_ptr(x + 32, (32 * n,), (1,), (0,), (32,), (0,))
    for i in tl.range(0, n, num_stages=3):
        row = tl.load(x + i * 32 + 31 - j)
        tl.debug_barrier()
        {stores[through].format("row + 1")}
        tl.debug_barrier()
        turned = tl.load(x + i * 32 + 63 - j)
        tl.debug_barrier()
        {stores[through].format("turned")}
        tl.debug_barrier()
        b = tl.advance(b, (32,))
"""
    x = np.zeros((9, 32), np.int32)
    x[0] = np.arange(32)
    found = both(source, {"x": x.ravel(), "n": 8})["x"]
    np.testing.assert_array_equal(found.reshape(9, 32), np.arange(32) + np.arange(9)[:, None])
