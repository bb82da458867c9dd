"""Matrix products of every dtype, batched, with accumulators, transposed, scaled."""

import numpy as np
import pytest

from tests.conformance.support import DTYPES, FLOATS, FP8, Batch
from tests.support.device import EXECUTED, device
from tritium.backends.active import driver
from tritium.backends.base import make_backend

SHAPES = [
    (32, 16, 64),
    *(pytest.param(s, marks=pytest.mark.slow) for s in ((16, 16, 16), (16, 64, 32), (64, 64, 64))),
]


def at_least(name, k):
    """The depth of a product, as large as the device demands."""
    return k if device == "cpu" else max(k, 32 if DTYPES[name].itemsize == 1 else 16)


def precisions(*wanted):
    """Those of the ways to multiply float32 that the device has."""
    backend = make_backend(driver.active.get_current_target())
    features = backend.target_features(backend.parse_options({}))
    return [p for p in wanted if p in features.allowed_dot_input_precisions]


def small(name, shape, seed):
    """Numbers whose products and sums are exact in every format that occurs."""
    values = np.random.default_rng(seed).integers(-3, 4, shape)
    return values.astype(DTYPES[name])


@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["int8", "uint8", *FLOATS, *FP8])
def test_dtypes(name, shape):
    m, n, k = shape
    k = at_least(name, k)
    a, b = small(name, (m, k), 1), small(name, (k, n), 2)
    if name == "uint8":
        a, b = (np.abs(v.astype(int)).astype(np.uint8) % 4 for v in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    out = {"int8": "int32", "uint8": "int32", "float64": "float64"}.get(name, "float32")
    c = np.random.default_rng(3).integers(-9, 9, (m, n)).astype(DTYPES[out])
    batch = Batch({"a": a, "b": b, "c": c, "t": np.ascontiguousarray(b.T)})
    if name == "uint8":
        with pytest.raises(Exception, match="only int8 supported"):
            batch.add("tl.dot(a, b)", out, exact)
            batch.run()
        return
    batch.add("tl.dot(a, b)", out, exact)
    batch.add("tl.dot(a, b, c)", out, exact + c)
    batch.add("tl.dot(a, b, acc=c) + c", out, exact + 2 * c.astype(np.float64))
    batch.add("tl.dot(a, t.T)", out, exact)
    batch.add("tl.trans(tl.dot(tl.trans(b), a.T))", out, exact)
    if name in ("float16", *FP8):
        batch.add("tl.dot(a, b, out_dtype=tl.float16)", "float16", exact)
    if name == "float32":
        for precision in precisions("tf32", "tf32x3", "ieee"):
            batch.add(f"tl.dot(a, b, input_precision='{precision}')", out, exact)
        batch.add("tl.dot(a, b, allow_tf32=False)", out, exact)
    batch.run()


@pytest.mark.parametrize("shape", [(64, 64, 64), (16, 32, 32)])
def test_rounding(shape):
    """Of operands that no format holds exactly, and of sums; the bounds are relative to the sum of
    the products' magnitudes."""
    m, n, k = shape
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(1, 2, s).astype(np.float32) for s in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    batch = Batch({"a": a, "b": b})
    bounds = {"ieee": 2e-6, "tf32x3": 2e-6, "bf16x6": 2e-6, "bf16x3": 6e-5}
    for precision in precisions(*bounds):
        bound = bounds[precision]
        batch.add(f"tl.dot(a, b, input_precision='{precision}')", "float32", exact, bound)
    batch.run()
    x, y = a.astype(np.float16), b.astype(np.float16)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    batch = Batch({"x": x, "y": y})
    batch.add("tl.dot(x, y, out_dtype=tl.float16)", "float16", exact, 2.0**-11)
    batch.run()


@pytest.mark.parametrize("name", ["int8", "float16", "bfloat16", "float32"])
def test_batched(name):
    a, b = small(name, (4, 16, 32), 1), small(name, (4, 32, 16), 2)
    out = "int32" if name == "int8" else "float32"
    exact = a.astype(np.float64) @ b.astype(np.float64)
    batch = Batch({"a": a, "b": b})
    batch.add("tl.dot(a, b)", out, exact)
    batch.add(f"tl.dot(a, b, tl.full([4, 16, 16], 2, tl.{out}))", out, exact + 2)
    batch.add("tl.sum(tl.dot(a, b), 0)", out, exact.sum(0))
    batch.run()


@pytest.mark.parametrize("name", ["int8", "float16", "float32"])
def test_several_batch_axes(name):
    a, b = small(name, (2, 2, 16, 32), 1), small(name, (2, 2, 32, 16), 2)
    out = "int32" if name == "int8" else "float32"
    exact = a.astype(np.float64) @ b.astype(np.float64)
    batch = Batch({"a": a, "b": b})
    batch.add("tl.dot(a, b)", out, exact)
    batch.add(f"tl.dot(a, b, tl.full([2, 2, 16, 16], 2, tl.{out}))", out, exact + 2)
    batch.add("tl.max(tl.dot(a, b), 3)", out, exact.max(3))
    batch.run()


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "shape", [(1, 16, 16), (2, 4, 8), (8, 2, 1), (16, 1, 4), (128, 16, 2)], ids=str
)
@pytest.mark.parametrize("name", ["int8", "float16", "float32"])
def test_small_shapes(name, shape):
    m, n, k = shape
    k = at_least(name, k)
    a, b = small(name, (m, k), 1), small(name, (k, n), 2)
    out = "int32" if name == "int8" else "float32"
    batch = Batch({"a": a, "b": b})
    batch.add("tl.dot(a, b)", out, a.astype(np.float64) @ b.astype(np.float64))
    batch.run()


def test_what_surrounds_a_dot():
    """Computed operands, a joined operand, a reduction after it, two in a row."""
    a, b = small("float32", (16, 32), 1), small("float32", (32, 16), 2)
    x, y = a.astype(np.float64), b.astype(np.float64)
    batch = Batch({"a": a, "b": b})
    batch.add("tl.dot(a * 2 + 1, tl.where(b > 0, b, 0))", "float32", (2 * x + 1) @ np.maximum(y, 0))
    batch.add("tl.max(tl.dot(a, b), 1)", "float32", (x @ y).max(1))
    batch.add("tl.dot(tl.dot(a, b), a)", "float32", x @ y @ x)
    batch.add("tl.dot(a, b) + tl.dot(a, b)", "float32", 2 * (x @ y))
    joined = np.stack([x[:, :16], x[:, :16]], -1).reshape(16, 32)
    half = "tl.reshape(tl.join(tl.split(tl.permute(tl.reshape(a, [16, 2, 16]), (0, 2, 1)))[0], "
    half += "tl.split(tl.permute(tl.reshape(a, [16, 2, 16]), (0, 2, 1)))[0]), [16, 32])"
    batch.add(f"tl.dot({half}, b)", "float32", joined @ y)
    batch.run()


def test_rounding_of_real_products():
    rng = np.random.default_rng(0)
    for name, error in (
        ("float32", 2e-3),
        ("float16", 1e-4),
        ("bfloat16", 1e-4),
        ("float64", 1e-12),
    ):
        a = rng.standard_normal((32, 64)).astype(DTYPES[name])
        b = rng.standard_normal((64, 32)).astype(DTYPES[name])
        exact = a.astype(np.float64) @ b.astype(np.float64)
        batch = Batch({"a": a, "b": b})
        out = "float64" if name == "float64" else "float32"
        batch.add("tl.dot(a, b)", out, exact, max(error, 1e-5) if name != "float64" else error)
        if name == "float32":
            batch.add("tl.dot(a, b, input_precision='ieee')", out, exact, 2e-5)
        batch.run()


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def unpacked(codes, axis):
    """The numbers of packed e2m1 bytes, low half first along the axis."""
    low, high = codes & 15, codes >> 4
    values = [np.where(c & 8, -1.0, 1.0) * E2M1[c & 7] for c in (low, high)]
    shape = list(codes.shape)
    shape[axis] *= 2
    return np.stack(values, axis + 1).reshape(shape)


def scale(codes, axis, run=32):
    return np.repeat(2.0 ** (codes.astype(int) - 127), run, axis)


def operand(format_, shape, axis, seed):
    """Codes of a format, packed along the axis where two are in a byte; and the numbers."""
    if format_ == "e2m1":
        packed = list(shape)
        packed[axis] //= 2
        codes = np.random.default_rng(seed).integers(0, 256, packed).astype(np.uint8)
        return codes, unpacked(codes, axis)
    dtypes = {"e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": "bfloat16", "fp16": "float16"}
    values = small(dtypes[format_], shape, seed)
    return values, values.astype(np.float64)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("left", ["e2m1", "e4m3", "e5m2", "bf16", "fp16"])
@pytest.mark.parametrize("right", ["e2m1", "e4m3", "e5m2", "bf16", "fp16"])
def test_scaled(left, right):
    m, n, k = 16, 16, 64
    rng = np.random.default_rng(0)
    a, x = operand(left, (m, k), 1, 1)
    b, y = operand(right, (k, n), 0, 2)
    sa = rng.integers(125, 130, (m, k // 32)).astype(np.uint8)
    sb = rng.integers(125, 130, (n, k // 32)).astype(np.uint8)
    sx, sy = scale(sa, 1), scale(sb, 1).T
    c = rng.integers(-4, 4, (m, n)).astype(np.float32)
    batch = Batch({"a": a, "b": b, "sa": sa, "sb": sb, "c": c})
    batch.add(f"tl.dot_scaled(a, sa, '{left}', b, sb, '{right}')", "float32", (x * sx) @ (y * sy))
    batch.add(f"tl.dot_scaled(a, sa, '{left}', b, sb, '{right}', c)", "float32",
              (x * sx) @ (y * sy) + c)  # fmt: skip
    batch.add(f"tl.dot_scaled(a, None, '{left}', b, sb, '{right}')", "float32", x @ (y * sy))
    batch.add(f"tl.dot_scaled(a, sa, '{left}', b, None, '{right}')", "float32", (x * sx) @ y)
    batch.add(f"tl.dot_scaled(a, None, '{left}', b, None, '{right}', fast_math=True)", "float32",
              x @ y)  # fmt: skip
    batch.run()


@pytest.mark.parametrize("right", ["e2m1", "e4m3"])
@pytest.mark.parametrize("left", ["e2m1", "bf16"])
def test_scaled_packed_along_rows_or_columns(left, right):
    m, n, k = 16, 32, 64
    rng = np.random.default_rng(1)
    sa = rng.integers(125, 130, (m, k // 32)).astype(np.uint8)
    sb = rng.integers(125, 130, (n, k // 32)).astype(np.uint8)
    for left_k in (True, False)[: 2 if left == "e2m1" else 1]:
        for right_k in (True, False)[: 2 if right == "e2m1" else 1]:
            a, x = operand(left, (m, k), 1 if left_k else 0, 3)
            b, y = operand(right, (k, n), 0 if right_k else 1, 4)
            batch = Batch({"a": a, "b": b, "sa": sa, "sb": sb})
            packs = f"lhs_k_pack={left_k}, rhs_k_pack={right_k}"
            batch.add(f"tl.dot_scaled(a, sa, '{left}', b, sb, '{right}', {packs})", "float32",
                      (x * scale(sa, 1)) @ (y * scale(sb, 1).T))  # fmt: skip
            batch.run()


@pytest.mark.skipif(
    device not in ("cpu", *EXECUTED),
    reason="numbers that products on tensor cores do not keep apart",
)
def test_scales_at_their_ends():
    """The code 255 is NaN, 0 is 2**-127; scales of fp8 are for runs of 16."""
    m, n, k = 4, 8, 64
    a, b = small("bfloat16", (m, k), 1), small("bfloat16", (k, n), 2)
    x, y = a.astype(np.float64), b.astype(np.float64)
    sa = np.full((m, 2), 127, np.uint8)
    sa[1, 0], sa[2] = 255, 0
    factors = scale(sa, 1)
    factors[1, :32] = np.nan
    eighths = np.array([0.5, 1, 2, 448, 1.75, 0.125, 3, 0], np.float64).reshape(2, 4)[[0, 1, 0, 1]]
    batch = Batch({"a": a, "b": b, "sa": sa, "se": eighths.astype(DTYPES["float8e4nv"])})
    batch.add("tl.dot_scaled(a, sa, 'bf16', b, None, 'bf16')", "float32", (x * factors) @ y)
    batch.add("tl.dot_scaled(a, se, 'bf16', b, None, 'bf16')", "float32",
              (x * np.repeat(eighths, 16, 1)) @ y)  # fmt: skip
    batch.run()


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("shape", [(32, 16, 64), (8, 16, 32)])
def test_sums_of_products(name, shape):
    """Written out, with either factor first; large ones are computed as a dot."""
    m, n, k = shape
    a, b = small(name, (m, k), 1), small(name, (k, n), 2)
    a[0, 3] = b[5, 2] = 0
    if name in FLOATS:
        a[1, 4], b[7, 1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        exact = (a[:, :, None].astype(np.float64) * b[None, :, :].astype(np.float64)).sum(1)
    batch = Batch({"a": a, "b": b})
    batch.add("tl.sum(a[:, :, None] * b[None, :, :], 1)", name, exact)
    batch.add("tl.sum(b[None, :, :] * a[:, :, None], 1)", name, exact)
    batch.add("tl.sum(b[None, :, :] * a[:, :, None], 1) + 1", name, exact + 1)
    batch.add("tl.sum(a[:, None, :] * tl.trans(b)[None, :, :], 2)", name, exact)
    batch.run()
