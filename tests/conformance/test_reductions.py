"""Reductions, scans, sorting, gathers: every dtype and axis, ties, NaN, tuples."""

import numpy as np
import pytest

from tests.conformance.support import (
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    Batch,
    build,
    run,
    samples,
)

SHAPE = (4, 16)


def narrow(name):
    return DTYPES[name].itemsize < 4


def wide_sum(name):
    """The dtype of a sum: 32 bits at least for integers."""
    if name in FLOATS or not narrow(name):
        return name
    return "int32" if name in SIGNED else "uint32"


def wide_order(name):
    """The dtype of a minimum or maximum: 32 bits at least, signed for all narrow integers."""
    if not narrow(name):
        return name
    return "float32" if name in FLOATS else "int32"


def block(name, seed=1):
    """[4, 16], with equal elements; floats small, so that sums are exact in every order."""
    values = samples(name, 64, seed).reshape(SHAPE)
    if name in FLOATS:
        rng = np.random.default_rng(seed)
        values = (rng.integers(-8, 8, SHAPE) / 4).astype(DTYPES[name])
    values[1] = values[0, ::-1]
    values[:, 3] = values[:, 9]
    return values


def up(array, name):
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[name])


WAYS = ((0, True), (1, False), (None, False))
MORE_WAYS = ((0, False), (1, True), (-2, True), (None, True))
"""Axis, and whether it is kept, which is the same for every dtype."""


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NUMBERS)
def test_reductions(name):
    x = block(name)
    batch = Batch({"x": x})
    for axis, keep in WAYS + (MORE_WAYS if name in ("int32", "float32") else ()):
        options = f"axis={axis}, keep_dims={keep}"
        total, order = wide_sum(name), wide_order(name)
        with np.errstate(all="ignore"):
            wide = up(x, "float64" if name in FLOATS else total)
            expected = wide.sum(axis, keepdims=keep)
            if name not in FLOATS:
                expected = expected.astype(DTYPES[total])
        batch.add(f"tl.sum(x, {options})", total, expected)
        batch.add(f"x.max({options})", order, up(x, order).max(axis, keepdims=keep))
        batch.add(f"tl.min(x, {options})", order, up(x, order).min(axis, keepdims=keep))
        flat = x.astype(np.float64) if name in FLOATS else x
        batch.add(f"tl.argmax(x, {options})", "int32", flat.argmax(axis, keepdims=keep))
        batch.add(f"tl.argmin(x, {options})", "int32", flat.argmin(axis, keepdims=keep))
        if name in INTEGERS:
            xor = np.bitwise_xor.reduce(x, axis, keepdims=keep)
            batch.add(f"tl.xor_sum(x, {options})", name, xor)
            either = np.bitwise_or.reduce(x, axis, keepdims=keep)
            batch.add(f"tl.reduce_or(x, {options})", name, either)
    batch.add("tl.max(x, 1, return_indices=True)[0]", name, x.max(1))
    batch.add("tl.min(x, 0, return_indices=True)[1]", "int32",
              np.argmin(x.astype(np.float64) if name in FLOATS else x, 0))  # fmt: skip
    if name in INTEGERS:
        batch.add("tl.sum(x, dtype=tl.int64)", "int64", x.astype(np.int64).sum())
        batch.add("tl.sum(x, 0, dtype=tl.float32)", "float32",
                  x.astype(np.float32).astype(np.float64).sum(0), 1e-6)  # fmt: skip
    batch.run()


def test_reductions_of_booleans():
    x = block("int1")
    batch = Batch({"x": x})
    batch.add("tl.sum(x, 1)", "uint32", x.sum(1))
    batch.add("tl.max(x, 0)", "int32", x.max(0))
    batch.add("tl.min(x, 1)", "int32", x.min(1))
    batch.add("tl.xor_sum(x, 1)", "int1", np.bitwise_xor.reduce(x, 1))
    batch.add("tl.reduce_or(x, 0)", "int1", x.any(0))
    batch.run()


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_nan_in_reductions(name):
    """Largest and smallest pass over NaN, with an index too; sums keep it."""
    x = np.array([[1, np.nan, 3, -2], [np.nan] * 4, [np.inf, -np.inf, 0, np.nan]]).astype(name)
    x = np.concatenate([x, x[:1]])
    batch = Batch({"x": x})
    order = "float32" if name == "float16" else name
    batch.add("tl.max(x, 1)", order, [3, np.nan, np.inf, 3])
    batch.add("tl.min(x, 1)", order, [-2, np.nan, -np.inf, -2])
    batch.add("tl.sum(x, 1)", name, np.full(4, np.nan))
    batch.add("tl.argmax(x, 1)", "int32", [2, 0, 0, 2])
    batch.add("tl.argmin(x, 1)", "int32", [3, 0, 1, 3])
    batch.add("tl.max(x, 1, return_indices=True)[0]", name, [3, np.nan, np.inf, 3])
    batch.add("tl.min(x, 1, return_indices=True)[1]", "int32", [3, 0, 1, 3])
    batch.run()


def first_of(extreme, x, axis):
    """Where along the axis its largest or smallest number is first; NaN is none."""
    return np.argmax(x == extreme(x, axis, keepdims=True), axis)


@pytest.mark.parametrize("size", [8, 64, 256])
def test_nan_loses_wherever_it_is(size):
    rng = np.random.default_rng(size)
    x = rng.integers(-3, 3, (16, size)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[:, 1] = x[1, :] = 0  # no row or column of NaN alone
    x[3, :] = -np.inf
    x[3, :3] = np.nan
    x[4, :], x[4, 0] = np.inf, np.nan
    batch = Batch({"x": x})
    batch.add("tl.argmax(x, 1)", "int32", first_of(np.nanmax, x, 1))
    batch.add("tl.argmin(x, 1)", "int32", first_of(np.nanmin, x, 1))
    batch.add("tl.argmin(x, 0)", "int32", first_of(np.nanmin, x, 0))
    unordered = "tl.min(x, 1, return_indices=True, return_indices_tie_break_left=False)"
    batch.add(f"{unordered}[0]", "float32", np.nanmin(x, 1))
    at = "tl.argmax(x, 1, tie_break_left=False)"
    batch.add(f"tl.reshape(tl.gather(x, {at}[:, None], 1), [16])", "float32", np.nanmax(x, 1))
    batch.run()


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_argmax_of_nan_alone_is_the_first(name):
    x = np.full((4, 16), np.nan, DTYPES[name])
    batch = Batch({"x": x})
    for axis in (0, 1):
        none = np.zeros(x.shape[1 - axis], np.int32)
        batch.add(f"tl.argmax(x, {axis})", "int32", none)
        batch.add(f"tl.argmin(x, {axis})", "int32", none)
    batch.run()


def test_four_axes():
    x = np.random.default_rng(0).integers(-9, 9, (2, 4, 2, 8)).astype(np.int32)
    batch = Batch({"x": x})
    for axis in range(4):
        batch.add(f"tl.sum(x, {axis})", "int32", x.sum(axis))
        batch.add(f"tl.argmax(x, {axis})", "int32", x.argmax(axis))
        batch.add(f"tl.cumsum(x, {axis})", "int32", x.cumsum(axis))
    batch.add("tl.sum(tl.sum(x, 3), 1)", "int32", x.sum((1, 3)))
    batch.add("tl.max(x)", "int32", x.max())
    batch.run()


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 1), (1, 8), (8, 1), (64, 32), (1024,)])
def test_unusual_shapes(shape):
    x = np.random.default_rng(1).integers(-99, 99, shape).astype(np.int32)
    batch = Batch({"x": x})
    for axis in range(len(shape)):
        batch.add(f"tl.sum(x, {axis})", "int32", x.sum(axis))
        batch.add(f"tl.min(x, {axis}, keep_dims=True)", "int32", x.min(axis, keepdims=True))
        batch.add(f"tl.argmin(x, {axis})", "int32", x.argmin(axis))
    batch.run()


WELFORD = """
@jit
def combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    share = tl.where(n == 0, 0.0, n_b / n)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


def kernel(p, mean, var):
    x = tl.load(p + tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :])
    m, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full([4, 16], 1, tl.float32)), 1, combine)
    tl.store(mean + tl.arange(0, 4), m)
    tl.store(var + tl.arange(0, 4), m2 / n)
"""


def test_welford():
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32) * 5 + 3
    for way in ("native", "interpreted"):
        out = run(build(WELFORD), {"p": x, "mean": np.zeros(4, np.float32),
                                   "var": np.zeros(4, np.float32)}, way=way)  # fmt: skip
        np.testing.assert_allclose(out["mean"], x.mean(1), rtol=1e-5)
        np.testing.assert_allclose(out["var"], x.var(1), rtol=1e-5)


@pytest.mark.every(4)
@pytest.mark.parametrize("name", NUMBERS)
def test_scans(name):
    x = block(name, 2)
    if name in FLOATS:
        x = np.where(np.arange(64).reshape(SHAPE) % 3, np.sign(x.astype(np.float32)), 1).astype(
            x.dtype
        )
    batches = []
    total = wide_sum(name)
    for axis in (0, 1):
        for reverse in (False, True):
            flip = (lambda a, axis=axis: np.flip(a, axis)) if reverse else (lambda a: a)
            with np.errstate(all="ignore"):
                sums = flip(np.cumsum(flip(up(x, total)), axis, dtype=DTYPES[total]))
                products = flip(np.cumprod(flip(up(x, total)), axis, dtype=DTYPES[total]))
            # One scan in a kernel each, then several together.
            batches.append(Batch({"x": x}))
            batches[-1].add(f"tl.cumsum(x, {axis}, reverse={reverse})", total, sums)
            batches.append(Batch({"x": x}))
            batches[-1].add(f"tl.cumprod(x, {axis}, {reverse})", total, products)
    together = Batch({"x": x}, checks=[c for b in batches for c in b.checks])
    together.run()


RECURRENCE = """
@jit
def step(a, b, c, d):
    return a * c, b * c + d


@jit
def larger(a, i, b, j):
    take = a > b
    return tl.where(take, a, b), tl.where(take, i, j)


def kernel(p, q, out, best, index, N: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, N)
    a, x = tl.load(p + i), tl.load(q + i)
    _, y = tl.associative_scan((a, x), 0, step, REVERSE)
    m, k = tl.associative_scan((x, i), 0, larger, reverse=REVERSE)
    tl.store(out + i, y)
    tl.store(best + i, m)
    tl.store(index + i, k)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 2, 64])
def test_scans_of_tuples(size, reverse):
    rng = np.random.default_rng(0)
    a, x = rng.integers(0, 2, size).astype(np.float32), rng.permutation(size).astype(np.float32)
    order = range(size - 1, -1, -1) if reverse else range(size)
    y, best, index = np.zeros_like(x), np.zeros_like(x), np.zeros(size, np.int32)
    carry, top = 0.0, -1
    for i in order:
        carry = a[i] * carry + x[i]
        top = i if top < 0 or x[i] > x[top] else top
        y[i], best[i], index[i] = carry, x[top], top
    for way in ("native", "interpreted"):
        args = {"p": a, "q": x, "out": x * 0, "best": x * 0, "index": index * 0}
        out = run(build(RECURRENCE), {**args, "N": size, "REVERSE": reverse}, way=way)
        np.testing.assert_array_equal(out["out"], y, err_msg=way)
        np.testing.assert_array_equal(out["best"], best, err_msg=way)
        np.testing.assert_array_equal(out["index"], index, err_msg=way)


SORTED = (
    "uint8", "int32", "bfloat16",
    *(pytest.param(n, marks=pytest.mark.slow)
      for n in ("int8", "int16", "uint32", "int64", "float16", "float32")),
)  # fmt: skip


@pytest.mark.parametrize("name", SORTED)
def test_sorting(name):
    x = block(name, 3)
    if name in FLOATS:
        x[0, :2] = np.inf, -np.inf
    key = x.astype(np.float64) if name in FLOATS else x
    ascending = np.sort(key, 1)
    batch = Batch({"x": x, "r": x[0]})
    batch.add("tl.sort(x)", name, ascending)
    batch.add("tl.sort(x, 1, True)", name, ascending[:, ::-1])
    batch.add("tl.sort(r, descending=True)", name, ascending[0, ::-1])
    wide = name if DTYPES[name].itemsize >= 4 else "float32" if name in FLOATS else "int32"
    batch.add("tl.topk(x, 4)", wide, ascending[:, ::-1][:, :4])
    batch.add("tl.topk(r, 1)", wide, ascending[0, -1:])
    batch.add("tl.topk(r, 16)", name, ascending[0, ::-1])
    batch.add("tl.bitonic_merge(tl.sort(r))", name, ascending[0])
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["int1", "int8", "int64", "float16", "float8e5", "float32"])
def test_gathers(name):
    x = samples(name, 64, 4).reshape(SHAPE)
    rng = np.random.default_rng(0)
    i, j = (
        rng.integers(0, 16, (4, 8)).astype(np.int32),
        rng.integers(0, 4, (8, 16)).astype(np.int64),
    )
    batch = Batch({"x": x, "i": i, "j": j, "r": x[0], "k": i[0]})
    batch.add("tl.gather(x, i, 1)", name, np.take_along_axis(x, i, 1))
    batch.add("tl.gather(x, j, 0)", name, np.take_along_axis(x, j, 0))
    batch.add("r.gather(k, axis=0)", name, x[0][i[0]])
    for dim in (0, 1, -1):
        batch.add(f"tl.flip(x, {dim})", name, np.flip(x, dim))
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", INTEGERS)
def test_histograms(name):
    x = np.random.default_rng(0).integers(0, 16, 128).astype(DTYPES[name])
    keep = np.arange(128) % 3 != 0
    batch = Batch({"x": x, "m": keep})
    batch.add("tl.histogram(x, 16)", "int32", np.bincount(x.astype(int), minlength=16))
    batch.add("tl.histogram(x, 64)", "int32", np.bincount(x.astype(int), minlength=64))
    batch.add(
        "tl.histogram(x, 16, mask=m)", "int32", np.bincount(x[keep].astype(int), minlength=16)
    )
    # More bins than a type of 8 bits has numbers, and numbers below and above all bins.
    info = np.iinfo(DTYPES[name])
    w = np.array([0, 3, info.max, info.min, 77, 127, info.max - 1, 3] * 16, DTYPES[name])
    batch.inputs["w"] = w
    for bins in (64, 256, 512):
        inside = [int(v) for v in w if 0 <= int(v) < bins]
        batch.add(f"tl.histogram(w, {bins})", "int32", np.bincount(inside, minlength=bins))
    batch.run()


def test_a_histogram_of_truths():
    batch = Batch({"x": np.arange(64) % 3 == 0})
    for bins in (2, 16):
        batch.add(f"tl.histogram(x, {bins})", "int32", np.array([42, 22] + [0] * (bins - 2)))
    batch.run()


@pytest.mark.parametrize("shape", [(2, 2, 2, 2), (2, 2, 4, 4), (4, 2, 2, 2), (2, 2, 2, 2, 4)])
def test_softmax_along_an_outer_axis(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    batch = Batch({"x": x})
    for dim in range(len(shape)):
        weights = np.exp(x - x.max(dim, keepdims=True))
        wanted = weights / weights.sum(dim, keepdims=True)
        batch.add(f"tl.softmax(x, {dim})", "float32", wanted, 1e-5)
    batch.run()


def test_the_scale_of_inexact_sums():
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    batch = Batch({"x": x, "h": x.astype(np.float16)})
    batch.add("tl.sum(x)", "float32", x.astype(np.float64).sum(), 1e-4)
    batch.add("tl.sum(h)", "float16", x.astype(np.float16).astype(float).sum(), 0.2)
    batch.add("tl.softmax(x)", "float32", np.exp(x - x.max()) / np.exp(x - x.max()).sum(), 1e-5)
    batch.add("tl.softmax(x, ieee_rounding=True)", "float32",
              np.exp(x - x.max()) / np.exp(x - x.max()).sum(), 1e-5)  # fmt: skip
    batch.run()
