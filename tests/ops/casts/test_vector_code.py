"""Conversions between float formats, bit for bit against ml_dtypes."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ops.math.vector_code import Kernel
from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import Function, Module, Value

NUMPY = {
    "fp64": np.dtype(np.float64),
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
}
FP8 = [name for name in NUMPY if name.startswith("fp8")]
SMALL = [*FP8, "fp16", "bf16"]
LEVELS = ["host", "sse"]
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@cache
def kernel(
    src: str, dst: str, rounding: str, saturate: bool, level: str = "host", width: int = 16
) -> Kernel:
    def body(f: Function, values: list[Value], features: frozenset[str]) -> Value:
        return convert.fp(
            f, values[0], src, dst, rounding=rounding, saturate=saturate, features=features
        )

    return Kernel(body, [convert.STORAGE[src]], convert.STORAGE[dst], width, level)


def run(
    x: np.ndarray, src: str, dst: str, rounding: str = "rtne", saturate: bool = False,
    level: str = "host", width: int = 16,
) -> np.ndarray:  # fmt: skip
    out = np.empty(x.shape, NUMPY.get(dst, np.dtype(np.uint8)))
    return kernel(src, dst, rounding, saturate, level, width)(x, out=out)


def same(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Lanes of equal bits, or NaN in both."""
    bits = BITS[actual.dtype.itemsize]
    both_nan = np.isnan(actual) & np.isnan(expected)
    return (actual.view(bits) == expected.view(bits)) | both_nan


def all_codes(name: str) -> np.ndarray:
    dtype = NUMPY[name]
    bits = BITS[dtype.itemsize]
    return np.arange(1 << (8 * dtype.itemsize), dtype=np.uint32).astype(bits).view(dtype)


def singles(count: int) -> np.ndarray:
    """Random floats of every magnitude, of fp8 magnitudes, ties and special values."""
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 1 << 32, count // 2, dtype=np.uint64).astype(np.uint32)
    near = np.ldexp(rng.uniform(-2, 2, count // 2), rng.integers(-30, 20, count // 2))
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 448, 464, 480, 240, 57344, 61440]
    with np.errstate(all="ignore"):
        parts = [
            patterns.view(np.float32), near, special, np.negative(special[5:]),
            all_codes("fp16"), midpoints("fp16"), all_codes("bf16"), midpoints("bf16"),
            *(part(name) for name in FP8 for part in (all_codes, midpoints)),
        ]  # fmt: skip
        return np.concatenate([np.asarray(p).astype(np.float32) for p in parts])


def midpoints(name: str) -> np.ndarray:
    """The ties between neighbouring numbers, exact as doubles."""
    with np.errstate(all="ignore"):
        values = np.unique(all_codes(name).astype(np.float64))
        values = values[np.isfinite(values)]
    return (values[1:] + values[:-1]) / 2


def cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dst", ["fp32", "fp64"])
@pytest.mark.parametrize("src", SMALL)
def test_widening_is_exact_for_every_code(src: str, dst: str, level: str) -> None:
    codes = all_codes(src)
    actual = run(codes, src, dst, level=level)
    assert same(actual, cast(codes, NUMPY[dst])).all()


@pytest.mark.parametrize("src", ["fp8e4nv", "fp8e5"])
@pytest.mark.parametrize("dst", ["fp16", "bf16"])
def test_widening_to_16_bits(src: str, dst: str) -> None:
    codes = all_codes(src)
    assert same(run(codes, src, dst), cast(codes, NUMPY[dst])).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dst", SMALL)
def test_floats_round_as_ml_dtypes_rounds(dst: str, level: str) -> None:
    x = singles(1_000_000)
    actual, expected = run(x, "fp32", dst, level=level), cast(x, NUMPY[dst])
    wrong = ~same(actual, expected)
    assert not wrong.any(), (x[wrong][:5], actual[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("level", ["host", "avx2", "sse"])
def test_rounding_to_every_bfloat16_and_nan_with_its_sign(level: str) -> None:
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234, 0xABCD], np.uint32)
    x = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).ravel().view(np.float32)
    actual, expected = run(x, "fp32", "bf16", level=level), cast(x, NUMPY["bf16"])
    assert same(actual, expected).all()
    assert (np.signbit(actual) == np.signbit(x)).all()


@pytest.mark.parametrize("src", ["fp16", "bf16"])
@pytest.mark.parametrize("dst", FP8)
def test_every_16_bit_code_rounds_as_ml_dtypes_rounds(src: str, dst: str) -> None:
    codes = all_codes(src)
    expected = cast(codes.astype(np.float32), NUMPY[dst])
    assert same(run(codes, src, dst), expected).all()


@pytest.mark.parametrize("dst", [*SMALL, "fp32"])
def test_doubles_are_rounded_once(dst: str) -> None:
    # A tie of dst, moved by less than a float can tell: rounding to float first would lose it.
    with np.errstate(all="ignore"):
        more = singles(2000).astype(np.float64)
        ties = np.concatenate([midpoints(dst if dst in SMALL else "bf16"), more])
        x = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    if dst == "fp32":
        expected = cast(x, NUMPY[dst])
    else:
        finite = np.isfinite(x) & (np.abs(x) <= float(ml_dtypes.finfo(NUMPY[dst]).max))
        x = x[finite]
        expected = nearest_of_table(x, dst)
    with np.errstate(all="ignore"):
        actual, wanted = run(x, "fp64", dst).astype(np.float64), expected.astype(np.float64)
    assert ((actual == wanted) | (np.isnan(actual) & np.isnan(wanted))).all()


def nearest_of_table(x: np.ndarray, name: str) -> np.ndarray:
    """The number of the format nearest to each x, the even code of two: by search, in doubles."""
    codes = all_codes(name)
    with np.errstate(all="ignore"):
        values = codes.astype(np.float64)
    keep = np.isfinite(values) & ~((values == 0) & np.signbit(values))
    order = np.argsort(values[keep])
    values, codes = values[keep][order], codes[keep][order]
    right = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    below, above = x - values[right - 1], values[right] - x
    even = codes.view(BITS[codes.dtype.itemsize]) % 2 == 0
    take_right = (above < below) | ((above == below) & even[right])
    return codes[np.where(take_right, right, right - 1)]


@pytest.mark.parametrize("dst", SMALL)
@pytest.mark.parametrize("src", ["fp32", "fp64"])
def test_towards_zero(src: str, dst: str) -> None:
    x = singles(20_000)
    x = x[np.isfinite(x)].astype(NUMPY[src])
    actual = run(x, src, dst, "rtz").astype(np.float64)
    magnitude, got = np.abs(x.astype(np.float64)), np.abs(actual)
    values = np.unique(np.abs(cast(all_codes(dst), NUMPY["fp64"])))
    values = values[np.isfinite(values)]
    expected = values[np.searchsorted(values, magnitude, side="right") - 1]
    assert (got == expected).all()
    assert (np.signbit(actual) == np.signbit(x))[got > 0].all()


def test_double_to_float_towards_zero() -> None:
    x = np.array([1 + 2.0**-30, -1 - 2.0**-30, 1e300, -np.inf, np.nan, 1e-46, 1 - 2.0**-30])
    expected = np.array([1, -1, np.finfo(np.float32).max, -np.inf, np.nan, 0, 1 - 2.0**-24])
    assert same(run(x, "fp64", "fp32", "rtz"), expected.astype(np.float32)).all()


@pytest.mark.parametrize("name", FP8)
def test_saturation(name: str) -> None:
    largest = float(ml_dtypes.finfo(NUMPY[name]).max)
    x = np.array([largest * 4, np.inf, -np.inf, -1e30, largest, np.nan, 1.0], np.float32)
    actual = run(x, "fp32", name, saturate=True).astype(np.float32)
    expected = np.array([largest, largest, -largest, -largest, largest, np.nan, 1.0], np.float32)
    assert same(actual, expected).all()


def test_e4b15_reads_and_writes_its_own_scale() -> None:
    codes = np.arange(256, dtype=np.uint8)
    values = run(codes, "fp8e4b15", "fp32")
    field, fraction = (codes >> 3) & 15, codes & 7
    normal = (1 + fraction / 8.0) * 2.0 ** (field - 15.0)
    expected = np.where(field == 0, fraction / 8.0 * 2.0**-14, normal)
    assert (values == np.where(codes < 128, expected, -expected)).all()
    back = run(values, "fp32", "fp8e4b15")
    reachable = (codes & 0x7F) != 0x7F
    assert (back == codes)[reachable].all()
    huge = np.array([1e9, -np.inf, np.nan, 1.875], np.float32)
    assert run(huge, "fp32", "fp8e4b15").tolist() == [0x7E, 0xFE, 0x7E, 0x7E]


@pytest.mark.parametrize("width", [1, 4, 64])
def test_widths(width: int) -> None:
    x = singles(2000)
    for dst in ("fp8e4nv", "bf16", "fp16"):
        assert same(run(x, "fp32", dst, width=width), cast(x, NUMPY[dst])).all()


def instructions(src: str, dst: str, **given: bool) -> int:
    """Lines of LLVM IR that a conversion takes."""
    f = Function(Module(), "f", [(convert.STORAGE[src], "x", "")])
    convert.fp(f, f.arguments[0], src, dst, features=frozenset({"avx512f"}), **given)
    return f.text().count(" = ")


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    """Its exponent is float's: no number of float is out of its range before it is rounded."""
    assert instructions("fp32", "bf16") <= 13
    assert instructions("fp32", "bf16", exact=True) <= 4
    assert instructions("fp8e5", "bf16") <= 9


@tritium.jit
def from_bytes(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(tl.bfloat16))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bytes_to_bfloat16(dtype: type[np.generic]) -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype)
    out = np.zeros(256, ml_dtypes.bfloat16)
    from_bytes[(1,)](x, out, 256)
    assert (out.astype(np.float32) == x).all()


def test_messages() -> None:
    f = Function(Module(), "f", [("float", "x", "")])
    x, features = f.arguments[0], frozenset[str]()
    with pytest.raises(ValueError, match="float format 'fp7'; there are fp64, fp32"):
        convert.fp(f, x, "fp32", "fp7", features=features)
    with pytest.raises(ValueError, match="rounding 'up'; it must be 'rtne' or 'rtz'"):
        convert.fp(f, x, "fp32", "fp16", rounding="up", features=features)
    with pytest.raises(TypeError, match="fp64 lanes of type float; they must be double"):
        convert.fp(f, x, "fp64", "fp16", features=features)
