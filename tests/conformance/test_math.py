"""Elementwise functions: minimum, maximum and clamp with NaN, math, where, standard helpers."""

import mpmath
import numpy as np
import pytest
import scipy.special

from tests.conformance.support import DTYPES, FLOATS, INTEGERS, NUMBERS, Batch, samples
from tests.support.device import device

NAN = np.nan
FLOAT_ROWS = np.array([
    [NAN, 1, 1], [1, NAN, 1], [NAN, NAN, NAN], [NAN, np.inf, np.inf], [-np.inf, NAN, -np.inf],
    [np.inf, -np.inf, 0], [1, 2, 0], [-3, -2, 0],
])  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_nan_table(name):
    x, y = (FLOAT_ROWS[:, i].astype(DTYPES[name]) for i in (0, 1))
    other = FLOAT_ROWS[:, 2]
    a, b = x.astype(float), y.astype(float)
    batch = Batch({"x": x, "y": y})
    for function, plain in (("minimum", np.minimum), ("maximum", np.maximum)):
        nan = np.isnan(a) | np.isnan(b)
        loose = np.where(nan, other, plain(a, b))
        for option in ("", ", propagate_nan=tl.PropagateNan.NONE"):
            batch.add(f"tl.{function}(x, y{option})", name, loose)
        batch.add(f"tl.{function}(x, y, tl.PropagateNan.ALL)", name, plain(a, b))
        batch.add(f"tl.{function}(x, 0.5)", name, np.where(np.isnan(a), 0.5, plain(a, 0.5)))
    batch.add("tl.clamp(x, -1.0, 1.5)", name, np.where(np.isnan(a), -1, np.clip(a, -1, 1.5)))
    batch.add("tl.clamp(x, -1.0, 1.5, tl.PropagateNan.ALL)", name, np.clip(a, -1, 1.5))
    low = np.minimum(np.nan_to_num(b, nan=0), 0).astype(DTYPES[name])
    batch.inputs = {"x": x, "y": y, "low": low}
    batch.add("tl.clamp(x, low, 1.0, propagate_nan=tl.PropagateNan.ALL)", name,
              np.minimum(np.maximum(a, low.astype(float)), 1))  # fmt: skip
    for text, function in {
        "<": np.less, "<=": np.less_equal, "==": np.equal,
        "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal,
    }.items():  # fmt: skip
        batch.add(f"x {text} y", "int1", function(a, b))
    batch.run()


@pytest.mark.parametrize("name", INTEGERS)
def test_extremes_of_integers(name):
    x, y = samples(name, 32, 1), samples(name, 32, 2)
    batch = Batch({"x": x, "y": y})
    batch.add("tl.minimum(x, y)", name, np.minimum(x, y))
    batch.add("tl.maximum(x, y)", name, np.maximum(x, y))
    batch.add("tl.minimum(5, x)", name, np.minimum(x, DTYPES[name].type(5)))
    batch.add("tl.clamp(x, 3, 90)", name, np.clip(x, 3, 90))
    batch.add("tl.abs(x)", name, np.abs(x))
    batch.add(
        "tl.cdiv(tl.minimum(x, 100) & 63, 7)", name, -(-(np.minimum(x, 100) & 63).astype(int) // 7)
    )
    batch.run()


EXACT = {"floor": np.floor, "ceil": np.ceil, "sqrt_rn": np.sqrt, "abs": np.abs}
CLOSE = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
}  # fmt: skip


def arguments(name):
    rng = np.random.default_rng(0)
    values = np.concatenate([
        rng.standard_normal(32) * 3, [0.0, -0.0, NAN, np.inf, -np.inf, 1e-30, 80.0, -80.0],
        rng.standard_normal(24) * 50,
    ])  # fmt: skip
    return values.astype(DTYPES[name])


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions(name):
    x = arguments(name)
    batch = Batch({"x": x})
    with np.errstate(all="ignore"):
        for function, reference in EXACT.items():
            if function == "sqrt_rn" and name == "float64":
                continue
            batch.add(f"tl.{function}(x)", name, reference(x))
        for function, reference in CLOSE.items():
            exact = reference(x.astype(np.float64)).astype(DTYPES[name])
            # Up to exp(80): GPUs' error grows with the argument.
            loose = 6e-6 if device != "cpu" and function == "exp" else 4e-7
            batch.add(f"tl.{function}(x)", name, exact, loose if name == "float32" else 3e-15)
        batch.add("x.exp()", name, np.exp(x.astype(np.float64)), 1e-6 if device == "cpu" else 6e-6)
        batch.add("tl.fdiv(x, 3.0)", name, x / DTYPES[name].type(3), 2e-7)
        batch.add("tl.fdiv(3.0, x, ieee_rounding=True)", name, DTYPES[name].type(3) / x)
        if name == "float32":
            batch.add("tl.div_rn(x, 7.0)", name, x / np.float32(7))
    batch.run()


def test_fma_rounds_once():
    rng = np.random.default_rng(0)
    x, y = (1 + rng.integers(0, 2**23, 64) * 2.0**-23 for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    z = -(x * y)
    exact = [
        float(mpmath.mpf(float(a)) * float(b) + float(c)) for a, b, c in zip(x, y, z, strict=True)
    ]
    batch = Batch({"x": x, "y": y, "z": z})
    batch.add("tl.fma(x, y, z)", "float32", exact)
    batch.add("tl.math.fma(x, y, z)", "float32", exact)
    batch.run()
    assert np.any(np.array(exact) != 0)


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_umulhi(name):
    x, y = samples(name, 64, 1), samples(name, 64, 2)
    bits = 8 * DTYPES[name].itemsize
    wrap, unsigned = 2**bits, f"u{bits // 8}"
    high = [(int(a) % wrap) * (int(b) % wrap) >> bits for a, b in zip(x, y, strict=True)]
    batch = Batch({"x": x, "y": y})
    batch.add("tl.umulhi(x, y)", name, np.array(high, unsigned).view(DTYPES[name]))
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["int1", *NUMBERS])
def test_where(name):
    x, y, c = samples(name, 16, 1), samples(name, 16, 2), samples("int1", 16, 3)
    batch = Batch({"x": x, "y": y, "c": c, "s": np.array(x[3]), "t": np.array(c[0])})
    batch.add("tl.where(c, x, y)", name, np.where(c, x, y))
    batch.add("tl.where(c, x, s)", name, np.where(c, x, x[3]))
    batch.add("tl.where(c, s, y)", name, np.where(c, x[3], y))
    batch.add("tl.where(t, x, y)", name, np.where(c[0], x, y))
    batch.add("tl.where(t, s, s)", name, x[3])
    whole = np.where(c[:, None], x[None, :], y[:, None])
    batch.add("tl.where(c[:, None], x[None, :], y[:, None])", name, whole)
    if name != "int1":
        batch.add("tl.where(c, 1, x)", name, np.where(c, np.ones(1, DTYPES[name]), x))
    batch.run()


def test_helpers():
    n, d = np.int32([0, 1, 7, 8, 9, 100]), np.int32([3, 1, 7, 3, 3, 7])
    n, d = np.resize(n, 8), np.resize(d, 8)
    batch = Batch({"n": n, "d": d})
    batch.add("tl.cdiv(n, d)", "int32", -(-n // d))
    batch.add("n.cdiv(4)", "int32", -(-n // 4))
    batch.add("tl.zeros_like(n)", "int32", np.zeros(8))
    batch.add("tl.zeros([2, 4], tl.int64)", "int64", np.zeros((2, 4)))
    batch.add("tl.full([4], 7, tl.float16)", "float16", np.full(4, 7))
    batch.add("tl.arange(3, 7)", "int32", np.arange(3, 7))
    batch.add("tl.arange(0, 1)", "int32", np.zeros(1))
    batch.run()


def test_python_min_and_max():
    """Of compile-time numbers they are such numbers; of scalars they are computed."""
    batch = Batch({"n": np.array(3, np.int32)}, "A: tl.constexpr = max(2, min(8, 16, 4))")
    batch.add("tl.zeros([A], tl.float32) + max(1.5, 2)", "float32", np.full(4, 2))
    batch.add("min(n, A)", "int32", 3)
    batch.add("max(n, 7, A)", "int32", 7)
    batch.run(("native",))


def test_swizzle2d():
    """5 x 7 blocks in groups of 3 rows: the second group has two."""
    golden, order = np.zeros((5, 7), np.int32), 0
    for first in (0, 3):
        for column in range(7):
            for row in range(first, min(first + 3, 5)):
                golden[row, column] = order
                order += 1
    i, j = (np.resize(a.ravel(), 64).astype(np.int32) for a in np.indices((5, 7)))
    batch = Batch({"i": i, "j": j}, "a, b = tl.swizzle2d(i, j, 5, 7, 3)")
    where = {int(v): at for at, v in np.ndenumerate(golden)}
    turn = i * 7 + j
    batch.add("a", "int32", [where[int(t)][0] for t in turn])
    batch.add("b", "int32", [where[int(t)][1] for t in turn])
    batch.run()


# Philox, from the paper: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".


def philox(seed, offsets, rounds=10):
    """Four arrays of uint32 for a 64-bit seed and 64-bit offsets."""
    mask = 2**32 - 1
    out = []
    for offset in offsets:
        offset = int(offset) % 2**64
        c = [offset & mask, offset >> 32, 0, 0]
        k = [seed & mask, seed >> 32 & mask]
        for _ in range(rounds):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & mask, p >> 32 ^ c[3] ^ k[1], p & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        out.append(c)
    return np.array(out, np.uint32).T


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("seed", "kind"),
    [(0, "int32"), (3, "int64"), (0xFCAFEB0BA, "uint32"), (2**63 + 5, "int32"),
     (2**63 + 5, "int64")],
)  # fmt: skip
def test_random_bits(seed, kind):
    offsets = np.arange(64, dtype=DTYPES[kind]) * 977
    if kind == "int64":
        offsets = offsets + 2**40
    bits = philox(seed, offsets)
    batch = Batch({"i": offsets}, f"a, b, c, d = tl.randint4x({seed}, i)\nu = tl.rand({seed}, i)")
    for name, expected in zip("abcd", bits, strict=True):
        batch.add(name, "uint32", expected)
    batch.add(f"tl.randint({seed}, i)", "uint32", bits[0])
    batch.add(f"tl.randint({seed}, i, n_rounds=7)", "uint32", philox(seed, offsets, 7)[0])
    signed = bits[0].view(np.int32).astype(np.int64)
    positive = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    batch.add("u", "float32", positive * np.float32(4.6566127342e-10))
    batch.add("(u >= 0) & (u < 1)", "int1", np.ones(64, bool))
    uniform = [b.view(np.int32).astype(np.int64) for b in bits[:2]]
    uniform = [np.where(s < 0, -s - 1, s) * 4.6566127342e-10 for s in uniform]
    radius = np.sqrt(-2 * np.log(np.maximum(uniform[0], 1e-7)))
    batch.add(f"tl.randn({seed}, i)", "float32", radius * np.cos(2 * np.pi * uniform[1]), 1e-4)
    batch.run()
