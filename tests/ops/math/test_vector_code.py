"""The vector functions against float64 (floats) and mpmath (doubles), within the bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from tests.ops.math.vector_code import function_kernel, ulp_errors
from tritium.codegen.llvm import vmath
from tritium.codegen.llvm.writer import Function, Module

Array = np.ndarray[Any, Any]

# name -> (on NumPy doubles, on mpmath numbers)
UNARY: dict[str, tuple[Callable[[Array], Array], Callable[[Any], Any]]] = {
    "exp": (np.exp, mp.exp),
    "exp2": (np.exp2, lambda x: mp.mpf(2) ** x),
    "exp10": (lambda x: 10.0**x, lambda x: mp.mpf(10) ** x),
    "expm1": (np.expm1, mp.expm1),
    "log": (np.log, mp.log),
    "log2": (np.log2, lambda x: mp.log(x, 2)),
    "log10": (np.log10, mp.log10),
    "log1p": (np.log1p, mp.log1p),
    "sin": (np.sin, mp.sin),
    "cos": (np.cos, mp.cos),
    "tan": (np.tan, mp.tan),
    "asin": (np.arcsin, mp.asin),
    "acos": (np.arccos, mp.acos),
    "atan": (np.arctan, mp.atan),
    "sinh": (np.sinh, mp.sinh),
    "cosh": (np.cosh, mp.cosh),
    "tanh": (np.tanh, mp.tanh),
    "erf": (scipy.special.erf, mp.erf),
    "erfc": (scipy.special.erfc, mp.erfc),
    "cbrt": (np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "rcbrt": (lambda x: 1 / np.cbrt(x), lambda x: mp.sign(x) / mp.cbrt(abs(x))),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "sqrt": (np.sqrt, mp.sqrt),
    "floor": (np.floor, mp.floor),
    "ceil": (np.ceil, mp.ceil),
    "trunc": (np.trunc, lambda x: mp.floor(x) if x > 0 else mp.ceil(x)),
    "rint": (np.rint, mp.nint),
    "fabs": (np.abs, abs),
}
BINARY = {"atan2": np.arctan2, "pow": np.power, "fmod": np.fmod, "copysign": np.copysign}
LEVELS = ["host", "avx2", "sse"]
# Beyond this the exponential ones are constant or overflow, and mpmath would take forever.
BOUNDED = {"exp", "exp2", "exp10", "expm1", "sinh", "cosh", "tanh", "erf", "erfc"}


def specials(dtype: type) -> Array:
    """Values at which something changes, and their neighbours, of both signs."""
    info = np.finfo(dtype)
    turning = [
        0.0, info.smallest_subnormal, info.smallest_normal, info.max, info.eps, 0.5, 0.75, 1.0, 1.5,
        2.0, math.sqrt(0.5), math.sqrt(2), math.pi / 4, math.pi / 2, math.pi, math.log(2) / 2,
        0.4142135, 4.0, 6.0, 9.5, 10.06, 20.0, 26.5, 27.5, 1e5, 1e9, 1e22,
        87.33, 88.7228, 88.75, 89.41, 103.97, 126.0, 128.0, 149.0, 149.5,
        708.4, 709.7827, 710.4758, 745.13, 1022.0, 1024.0, 1074.0, 1074.5,
        2.0**23, 2.0**52, 2.0**60, 1e-30 if dtype is np.float32 else 1e-300,
        # The floats and doubles that come closest to a multiple of pi/2.
        16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        x = np.array(turning).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(-np.inf))])
        return np.concatenate([x, -x, np.array([np.inf, -np.inf, np.nan], dtype)])


def samples(dtype: type, count: int, seed: int = 0) -> Array:
    """Special values, log-spaced ones over the whole range, and uniform ones where most happens."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    low = math.log2(float(info.smallest_subnormal))
    spread = np.exp2(rng.uniform(low, math.log2(float(info.max)), count // 2))
    quarter = count // 8
    ranges = (1.1, 12, 110 if dtype is np.float32 else 750, 2e5)
    uniform = [rng.uniform(-r, r, quarter) for r in ranges]
    signs = rng.choice([-1.0, 1.0], spread.size)
    multiples = math.pi / 2 * rng.integers(1, 1 << (14 if dtype is np.float32 else 28), quarter)
    parts = (spread * signs, *uniform, multiples)
    return np.concatenate([specials(dtype), *(np.asarray(p, dtype) for p in parts)])


def check(name: str, type: str, x: Array, actual: Array, expected: Array) -> None:
    errors = ulp_errors(actual, expected)
    worst = int(np.argmax(errors))
    case = f"{name}({x[worst]!r}) = {actual[worst]!r}, not {expected[worst]!r}"
    assert errors[worst] <= vmath.ULP[name][type], f"{case}: {errors[worst]:.3g} ulp"


@pytest.mark.covering(1)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", UNARY)
def test_float(name: str, level: str) -> None:
    x = samples(np.float32, 200_000 if level == "host" else 50_000)
    actual = function_kernel(name, "float", 16, level)(x, out=np.empty_like(x))
    with np.errstate(all="ignore"):
        check(name, "float", x, actual, UNARY[name][0](x.astype(np.float64)))


@pytest.mark.covering(1)
@pytest.mark.parametrize("width", [1, 4, 64])
@pytest.mark.parametrize("name", UNARY)
def test_every_width_gives_the_same(name: str, width: int) -> None:
    x = samples(np.float32, 4000)
    expected = function_kernel(name, "float", 16)(x, out=np.empty_like(x))
    actual = function_kernel(name, "float", width)(x, out=np.empty_like(x))
    assert np.array_equal(actual, expected, equal_nan=True)
    assert (np.signbit(actual) == np.signbit(expected))[~np.isnan(expected)].all()


def exact(name: str, x: float) -> np.longdouble:
    """The true value to 64 bits."""
    plain, precise = UNARY[name]
    with np.errstate(all="ignore"):
        rough = plain(np.float64(x))
    bounded = name in BOUNDED and abs(x) > 2000
    if not (np.isfinite(x) and np.isfinite(rough)) or x == 0 or bounded:
        return np.longdouble(rough)
    with mp.workprec(2300 if name in ("sin", "cos", "tan") and abs(x) > 1e18 else 160):
        value = precise(mp.mpf(x))
        high = float(value)
        low = float(value - mp.mpf(high)) if math.isfinite(high) else 0.0
    if high == 0 and low == 0:
        return np.longdouble(rough)  # for its sign
    return np.longdouble(high) + np.longdouble(low)


@pytest.fixture(scope="module")
def doubles() -> tuple[Array, dict[str, Array]]:
    """Inputs, and a cache of the exact values of each function there."""
    return samples(np.float64, 2400), {}


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", UNARY)
def test_double(name: str, level: str, doubles: tuple[Array, dict[str, Array]]) -> None:
    x, known = doubles
    if name not in known:
        known[name] = np.array([exact(name, float(v)) for v in x], np.longdouble)
    for width in (8, 1):
        actual = function_kernel(name, "double", width, level)(x, out=np.empty_like(x))
        check(name, "double", x, actual, known[name])


def pairs(dtype: type, count: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    special = np.array(
        [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, 7, np.inf, -np.inf, np.nan, 1e38, -1e38,
         1e-40, 2.0**25 + 2, -(2.0**24) - 2], dtype,
    )  # fmt: skip
    first, second = (v.ravel() for v in np.meshgrid(special, special))
    exponents = np.concatenate([rng.uniform(-30, 30, count), rng.uniform(-140, 126, count)])
    a = np.exp2(exponents)
    b = np.concatenate([rng.uniform(-30, 30, count), rng.uniform(-2, 2, count)])
    b[::3] = np.rint(b[::3])
    a = a * rng.choice([-1, 1], a.size)
    return np.concatenate([first, a.astype(dtype)]), np.concatenate([second, b.astype(dtype)])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_float(name: str, level: str) -> None:
    x, y = pairs(np.float32, 20_000)
    actual = function_kernel(name, "float", 16, level, 2)(x, y, out=np.empty_like(x))
    with np.errstate(all="ignore"):
        expected = BINARY[name](x.astype(np.float64), y.astype(np.float64))
    check(name, "float", x, actual, expected)


@pytest.mark.parametrize("level", LEVELS)
def test_pow_double(level: str) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([np.exp2(rng.uniform(-1074, 1023, 1500)), rng.uniform(0, 3, 1500)])
    # Exponents such that most results are finite, and many nearly overflow or are subnormal.
    y = rng.uniform(-1074, 1024, x.size) / np.log2(np.where(x == 1, 2, x))
    y = np.clip(y, -1e300, 1e300)
    actual = function_kernel("pow", "double", 8, level, 2)(x, y, out=np.empty_like(x))
    expected = []
    with mp.workprec(200):
        for a, b in zip(x, y, strict=True):
            value = mp.mpf(float(a)) ** mp.mpf(float(b))
            high = float(value)
            low = float(value - mp.mpf(high)) if math.isfinite(high) else 0.0
            expected.append(np.longdouble(high) + np.longdouble(low))
    check("pow", "double", x, actual, np.array(expected, np.longdouble))


@pytest.mark.parametrize("level", LEVELS)
def test_special_pairs_of_doubles(level: str) -> None:
    x, y = pairs(np.float64, 500)
    for name, reference in BINARY.items():
        actual = function_kernel(name, "double", 8, level, 2)(x, y, out=np.empty_like(x))
        with np.errstate(all="ignore"):
            expected = reference(x, y)
        # The C library is within an ulp itself.
        errors = ulp_errors(actual, expected.astype(np.longdouble))
        worst = int(np.argmax(errors))
        case = (name, x[worst], y[worst], actual[worst], expected[worst])
        assert errors[worst] <= vmath.ULP[name]["double"] + 1, case


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", ["float", "double"])
def test_fmod_is_exact_for_operands_of_any_size(type: str, level: str) -> None:
    dtype = np.float32 if type == "float" else np.float64
    x, y = samples(dtype, 4000, seed=1), samples(dtype, 4000, seed=2)
    np.random.default_rng(4).shuffle(y)
    actual = function_kernel("fmod", type, 8, level, 2)(x, y, out=np.empty_like(x))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    assert np.array_equal(actual, expected, equal_nan=True)
    assert (np.signbit(actual) == np.signbit(expected))[~np.isnan(expected)].all()


def test_fma_rounds_once() -> None:
    a = np.array([1 + 2.0**-12, 3.0], np.float32)
    c = np.array([-1 - 2.0**-11, 1.0], np.float32)
    actual = function_kernel("fma", "float", 1, "host", 3)(a, a, c, out=np.empty_like(a))
    assert actual.tolist() == [2.0**-24, 10.0]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_float_sweep(name: str) -> None:
    """Every 257th float (a stride prime to the powers of two)."""
    kernel = function_kernel(name, "float", 16)
    for start in range(0, 1 << 32, 1 << 28):
        bits = np.arange(start, start + (1 << 28), 257, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        actual = kernel(x, out=np.empty_like(x))
        with np.errstate(all="ignore"):
            check(name, "float", x, actual, UNARY[name][0](x.astype(np.float64)))


def test_every_function_is_tested_and_bounded() -> None:
    # Those that `vmath.libdevice` adds are tested in tests/libdevice.
    assert set(vmath.ULP) == {*UNARY, *BINARY, "fma"} <= vmath.supported()


def test_no_control_flow_in_the_callers_block() -> None:
    for name in ("exp", "sin", "pow"):
        f = Function(Module(), "f", [("<16 x float>", "x", "")])
        arity = vmath.TABLE[name].arity
        vmath.call(f, name, *f.arguments * arity, features=frozenset({"fma"}))
        assert f.block == "entry"
        assert " br " not in f.text()


def test_an_outlined_function_is_defined_once() -> None:
    module = Module()
    f = Function(module, "f", [("<64 x float>", "x", "")])
    features = frozenset({"avx512f", "fma"})
    y = vmath.call(f, "sin", f.arguments[0], features=features)
    vmath.call(f, "sin", y, features=features)
    assert [g.name for g in module.functions].count("tritium.sin.v64f32") == 1


def test_messages() -> None:
    f = Function(Module(), "f", [("float", "x", ""), ("double", "y", ""), ("i32", "i", "")])
    x, y, i = f.arguments
    with pytest.raises(NotImplementedError, match="no function 'gamma'; there are acos, "):
        vmath.call(f, "gamma", x, features=())
    with pytest.raises(TypeError, match="pow: 1 arguments given; it takes 2"):
        vmath.call(f, "pow", x, features=())
    with pytest.raises(TypeError, match="atan2: argument types float, double; they must be one of"):
        vmath.call(f, "atan2", x, y, features=())
    with pytest.raises(TypeError, match="exp: argument types i32"):
        vmath.call(f, "exp", i, features=())
