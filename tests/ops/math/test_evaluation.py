"""The reference semantics of elementwise ops against expectations written in plain Python."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritium.ir import types as ir
from tritium.ops import math as math_ops
from tritium.ops import ttir
from tritium.ops.arith import (
    CmpFOp,
    CmpFPredicate,
    CmpIOp,
    CmpIPredicate,
    ConstantOp,
    RoundingMode,
    SelectOp,
    attr_value,
    integer,
)  # fmt: skip
from tritium.ops.base import REGISTRY, Op
from tritium.ops.dialects import load_all, op_classes
from tritium.ops.evaluation import fold

load_all()
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
INTEGERS = (ir.i1, ir.i8, ir.i16, ir.i32, ir.i64)
FLOATS = (ir.f16, ir.bf16, ir.f32, ir.f64)
SMALL_FLOATS = (ir.f8e5m2, ir.f8e4m3fn, ir.f8e4m3fnuz, ir.f8e5m2fnuz)


def run(cls: type[Op], *arrays: Any, types: Any = None, result: Any = None, **attrs: Any) -> Any:
    """Build an op on constants and evaluate it, as constant folding does."""
    types = types or [None] * len(arrays)
    operands = [
        ConstantOp.of(a, t or ir.tensor_of(a.shape, element_of(a.dtype))).result
        for a, t in zip(arrays, types, strict=True)
    ]
    op = cls.build(*operands, result=result, **attrs)
    op.verify()
    folded = fold(op, [attr_value(v.owner.value) for v in operands])  # type: ignore[union-attr]
    assert folded is not None
    for value, found in zip(folded, op.results, strict=True):
        assert np.asarray(value).dtype == ir.numpy_dtype(found.type), op.name
        assert np.shape(value) == ir.shape_of(found.type), op.name
    return folded[0] if len(folded) == 1 else folded


def element_of(dtype: Any) -> Any:
    return next(t for t in (*INTEGERS, *FLOATS, *SMALL_FLOATS) if ir.numpy_dtype(t) == dtype)


def integers(type: Any, seed: int, size: int = 64) -> np.ndarray:
    """Random bits with the extremes and small numbers among them."""
    width, rng = ir.bit_width(type), np.random.default_rng(seed)
    if width == 1:
        return rng.integers(0, 2, size).astype(bool)
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    special = [0, 1, -1, 2, 3, -7, low, high, low + 1, width - 1, width]
    values = rng.integers(low, high, size, dtype=np.int64, endpoint=True)
    where = rng.integers(0, size, size // 2)
    values[where] = rng.choice(special, size // 2)
    return values.astype(ir.numpy_dtype(type))


def signed(values: np.ndarray) -> list[int]:
    return [-int(v) if values.dtype == bool else int(v) for v in values]


def unsigned(values: np.ndarray, width: int) -> list[int]:
    return [int(v) % 2**width for v in values]


def truncate(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


#: (signed?, the operation on exact integers or None where it is undefined)
INTEGER_OPS: dict[str, tuple[bool, Callable[[int, int, int], int | None]]] = {
    "addi": (True, lambda a, b, w: a + b),
    "subi": (True, lambda a, b, w: a - b),
    "muli": (True, lambda a, b, w: a * b),
    "andi": (False, lambda a, b, w: a & b),
    "ori": (False, lambda a, b, w: a | b),
    "xori": (False, lambda a, b, w: a ^ b),
    "shli": (False, lambda a, b, w: a << b if b < w else None),
    "shrui": (False, lambda a, b, w: a >> b if b < w else None),
    "shrsi": (True, lambda a, b, w: a >> b if 0 <= b < w else None),
    "divsi": (True, lambda a, b, w: truncate(a, b) if b else None),
    "remsi": (True, lambda a, b, w: a - b * truncate(a, b) if b else None),
    "divui": (False, lambda a, b, w: a // b if b else None),
    "remui": (False, lambda a, b, w: a % b if b else None),
    "floordivsi": (True, lambda a, b, w: a // b if b else None),
    "ceildivsi": (True, lambda a, b, w: -(-a // b) if b else None),
    "ceildivui": (False, lambda a, b, w: -(-a // b) if b else None),
    "minsi": (True, lambda a, b, w: min(a, b)),
    "maxsi": (True, lambda a, b, w: max(a, b)),
    "minui": (False, lambda a, b, w: min(a, b)),
    "maxui": (False, lambda a, b, w: max(a, b)),
}


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("name", INTEGER_OPS)
@pytest.mark.every(3)
def test_integer_arithmetic(name: str, type: Any) -> None:
    a, b, width = integers(type, 1), integers(type, 2), ir.bit_width(type)
    is_signed, expected = INTEGER_OPS[name]
    left, right = ((signed(v) if is_signed else unsigned(v, width)) for v in (a, b))
    found = unsigned(run(REGISTRY[f"arith.{name}"], a, b), width)
    checked = 0
    for x, y, z in zip(left, right, found, strict=True):
        want = expected(x, y, width)
        if want is not None:
            assert z == want % 2**width, f"{name}({x}, {y})"
            checked += 1
    assert checked > 8


def test_every_integer_op_is_tested() -> None:
    classes = [c for c in op_classes("arith") if issubclass(c, integer.IntegerBinaryOp)]
    assert {cls.name for cls in classes} == {f"arith.{n}" for n in INTEGER_OPS}


@pytest.mark.parametrize("type", (ir.i8, ir.i32, ir.i64), ids=str)
def test_high_product(type: Any) -> None:
    a, b, width = integers(type, 3), integers(type, 4), ir.bit_width(type)
    found = unsigned(run(ttir.MulHiUIOp, a, b), width)
    pairs = zip(unsigned(a, width), unsigned(b, width), strict=True)
    assert found == [x * y >> width for x, y in pairs]


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("predicate", CmpIPredicate, ids=lambda p: p.name)
def test_integer_comparison(predicate: CmpIPredicate, type: Any) -> None:
    a, b = integers(type, 5), integers(type, 6)
    b[:8] = a[:8]
    name = predicate.name.lower()
    function = getattr(operator, name if len(name) == 2 else name[1:])
    width = ir.bit_width(type)
    view = (lambda v: unsigned(v, width)) if name[0] == "u" else signed
    want = [function(x, y) for x, y in zip(view(a), view(b), strict=True)]
    assert run(CmpIOp, a, b, predicate=predicate).tolist() == want


def floats(type: Any, seed: int, size: int = 64) -> np.ndarray:
    """Normal numbers of many magnitudes, with zeros, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(size) * 2.0 ** rng.integers(-6, 7, size)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    values[rng.integers(0, size, size // 3)] = rng.choice(special, size // 3)
    with np.errstate(all="ignore"):
        return values.astype(ir.numpy_dtype(type))


def same(found: Any, expected: Any) -> None:
    """Equal bit for bit, but for the sign and payload of NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    wide, want = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(wide, want)
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(wide[real]), np.signbit(want[real]))


def smaller(a: float, b: float) -> float:
    return min(a, b, key=lambda v: (v, math.copysign(1, v)))


def larger(a: float, b: float) -> float:
    return max(a, b, key=lambda v: (v, math.copysign(1, v)))


def ignoring_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: b if math.isnan(a) else a if math.isnan(b) else pick(a, b)


def with_nan(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else pick(a, b)


FLOAT_OPS: dict[str, Callable[[float, float], float]] = {
    "minimumf": with_nan(smaller), "maximumf": with_nan(larger),
    "minnumf": ignoring_nan(smaller), "maxnumf": ignoring_nan(larger),
    "addf": lambda a, b: a + b, "subf": lambda a, b: a - b, "mulf": lambda a, b: a * b,
    "divf": lambda a, b: float(np.float64(a) / np.float64(b)),
    "remf": lambda a, b: math.nan if math.isinf(a) or b == 0 else math.fmod(a, b),
}  # fmt: skip


@pytest.mark.parametrize("type", FLOATS, ids=str)
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_arithmetic(name: str, type: Any) -> None:
    a, b = floats(type, 1), floats(type, 2)
    b[:4], a[:4] = np.array([0, -0.0, 0, -0.0]), np.array([-0.0, 0, 0, -0.0])
    with np.errstate(all="ignore"):
        # float64 has more than twice the bits of the others: rounding twice does no harm.
        pairs = zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True)
        expected = np.array([FLOAT_OPS[name](x, y) for x, y in pairs]).astype(a.dtype)
    same(run(REGISTRY[f"arith.{name}"], a, b), expected)


@pytest.mark.parametrize("type", FLOATS, ids=str)
@pytest.mark.parametrize("predicate", CmpFPredicate, ids=lambda p: p.name)
@pytest.mark.every(3)
def test_float_comparison(predicate: CmpFPredicate, type: Any) -> None:
    a, b = floats(type, 3), floats(type, 4)
    b[:8] = a[:8]
    name = predicate.name.lower()
    want = []
    for x, y in zip(a.astype(float), b.astype(float), strict=True):
        unordered = math.isnan(x) or math.isnan(y)
        if name in ("true", "false"):
            want.append(name == "true")
        elif name in ("ord", "uno"):
            want.append(unordered == (name == "uno"))
        else:
            want.append(name[0] == "u" if unordered else getattr(operator, name[1:])(x, y))
    assert run(CmpFOp, a, b, predicate=predicate).tolist() == want


UNARY = {
    "math.exp": mpmath.exp, "math.exp2": lambda x: mpmath.mpf(2) ** x, "math.expm1": mpmath.expm1,
    "math.log": mpmath.log, "math.log2": lambda x: mpmath.log(x, 2), "math.log10": mpmath.log10,
    "math.log1p": mpmath.log1p, "math.sin": mpmath.sin, "math.cos": mpmath.cos,
    "math.tan": mpmath.tan, "math.tanh": mpmath.tanh, "math.sqrt": mpmath.sqrt,
    "math.rsqrt": lambda x: 1 / mpmath.sqrt(x), "math.erf": mpmath.erf, "math.absf": mpmath.fabs,
    "math.ceil": mpmath.ceil, "math.floor": mpmath.floor, "math.roundeven": mpmath.nint,
    "math.trunc": lambda x: mpmath.floor(x) if x >= 0 else mpmath.ceil(x),
    "tt.precise_sqrt": mpmath.sqrt, "arith.negf": lambda x: -x,
}  # fmt: skip


@pytest.mark.parametrize("type", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.every(5)
def test_elementary_functions(name: str, type: Any) -> None:
    a = np.linspace(0.1, 9.7, 37).astype(ir.numpy_dtype(type))
    if name not in ("math.log", "math.log2", "math.log10", "math.sqrt", "math.rsqrt",
                    "tt.precise_sqrt", "math.log1p"):  # fmt: skip
        a = np.concatenate([a, -a, np.array([0.5, 1.5, 2.5, -2.5], a.dtype)])
    exact = np.array([float(UNARY[name](mpmath.mpf(float(x)))) for x in a])
    exact = np.where(exact == 0, np.copysign(0, a.astype(float)), exact)  # mpmath has no -0
    found = run(REGISTRY[name], a)
    if type is ir.f64:
        np.testing.assert_allclose(found, exact, 1e-15, 1e-300)
    else:
        same(found, exact.astype(a.dtype))


def test_every_math_op_is_tested() -> None:
    others = {"math.fma", "math.absi"}
    found = {cls.name for cls in op_classes("math")}
    assert found - others == {n for n in UNARY if n[:4] == "math"}


@given(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    arrays = [np.array([v], np.float32) for v in (a, b, c)]
    (found,) = run(math_ops.FmaOp, *arrays)
    if math.isinf(found):
        assert abs(exact) > float(np.finfo(np.float32).max)
        return
    with np.errstate(over="ignore"):
        below, above = (np.nextafter(found, np.float32(s * np.inf)) for s in (-1, 1))
    error = abs(Fraction(float(found)) - exact)
    for other in (below, above):
        if np.isfinite(other):
            assert error <= abs(Fraction(float(other)) - exact)


@pytest.mark.parametrize("sign", (1, -1))
def test_fma_does_not_round_twice(sign: int) -> None:
    """The exact value lies 2**-60 beside the middle of two numbers, which float64 cannot tell."""
    a, b = 2.0**-12 * (1 + 2.0**-18), 2.0**-12 * (1 - 2.0**-18)
    arrays = [np.array([v], np.float32) for v in (sign * a, b, sign * (1 + 2.0**-23))]
    assert run(math_ops.FmaOp, *arrays).tolist() == [sign * (1 + 2.0**-23)]


LARGEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize(("values", "wanted"), [
    ((LARGEST, 2.0, -LARGEST), LARGEST), ((LARGEST, -LARGEST, math.inf), math.inf),
    ((LARGEST, 4.0, -math.inf), -math.inf), ((LARGEST, 2.0, 0.0), math.inf),
    ((math.inf, -1.0, math.inf), math.nan), ((0.0, -1.0, -0.0), -0.0), ((5e-324, -0.1, 0.0), -0.0),
    ((2.0**-600, 2.0**-600, 1e300), 1e300), ((2.0**600, 1 + 2.0**-52, -(2.0**600)), 2.0**548),
])  # fmt: skip
def test_fma_of_doubles_at_the_edges(values: tuple[float, ...], wanted: float) -> None:
    (found,) = run(math_ops.FmaOp, *(np.array([v]) for v in values))
    np.testing.assert_array_equal(found, wanted)
    assert math.isnan(wanted) or np.signbit(found) == np.signbit(wanted)


def test_abs_of_integers() -> None:
    a = np.array([-128, -3, 0, 5, 127], np.int8)
    assert run(math_ops.AbsIOp, a).tolist() == [-128, 3, 0, 5, 127]


@pytest.mark.parametrize("wide", INTEGERS[1:], ids=str)
@pytest.mark.parametrize("narrow", INTEGERS[:-1], ids=str)
def test_integer_casts(narrow: Any, wide: Any) -> None:
    small, big = ir.bit_width(narrow), ir.bit_width(wide)
    if small >= big:
        with pytest.raises(ValueError, match="must be wider"):
            run(REGISTRY["arith.extsi"], integers(narrow, 1), result=ir.tensor_of((64,), wide))
        return
    a, b = integers(narrow, 1), integers(wide, 2)
    result = ir.tensor_of((64,), wide)
    assert run(REGISTRY["arith.extsi"], a, result=result).tolist() == signed(a)
    assert run(REGISTRY["arith.extui"], a, result=result).tolist() == [
        v if v < 2 ** (big - 1) else v - 2**big for v in unsigned(a, small)
    ]
    low = run(REGISTRY["arith.trunci"], b, result=ir.tensor_of((64,), narrow))
    assert unsigned(low, small) == [v % 2**small for v in unsigned(b, big)]


@pytest.mark.parametrize("float_type", FLOATS, ids=str)
@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_conversions_between_integers_and_floats(type: Any, float_type: Any) -> None:
    a, width = integers(type, 3), ir.bit_width(type)
    result, dtype = ir.tensor_of((64,), float_type), ir.numpy_dtype(float_type)
    for name, values in (("arith.sitofp", signed(a)), ("arith.uitofp", unsigned(a, width))):
        found = run(REGISTRY[name], a, result=result)
        if width < 64:  # exact in float64, so that one rounding is left
            with np.errstate(over="ignore"):
                same(found, np.array(values, np.float64).astype(dtype))
    limit = 2.0 ** (width - 1)
    b = np.array([x for x in np.linspace(-limit, limit, 41) if -limit <= x < limit * 0.98])
    b = np.clip(b, -40000, 40000).astype(dtype)
    tile = ir.tensor_of(b.shape, type)
    assert signed(run(REGISTRY["arith.fptosi"], b, result=tile)) == [int(x) for x in b]
    b = np.abs(b) * dtype.type(1.5)
    assert unsigned(run(REGISTRY["arith.fptoui"], b, result=tile), width) == [int(x) for x in b]


@pytest.mark.parametrize("wide", FLOATS, ids=str)
@pytest.mark.parametrize("narrow", (*SMALL_FLOATS, ir.f16, ir.bf16), ids=str)
def test_widening_is_exact(narrow: Any, wide: Any) -> None:
    if ir.bit_width(narrow) >= ir.bit_width(wide):
        return
    dtype = ir.numpy_dtype(narrow)
    count = 256 if dtype.itemsize == 1 else 65536
    a = np.arange(count).astype(f"u{dtype.itemsize}").view(dtype)
    if not np.isfinite(a.astype(ir.numpy_dtype(wide))[np.isfinite(a.astype(float))]).all():
        return  # e5m2 does not fit all formats
    found = run(ttir.FpToFpOp, a, result=ir.tensor_of(a.shape, wide))
    same(found, a.astype(np.float64))
    same(run(REGISTRY["arith.extf"], a, result=ir.tensor_of(a.shape, wide)), found)


def neighbours(value: Fraction, grid: list[Fraction]) -> tuple[Fraction, Fraction]:
    at = bisect.bisect_right(grid, value)
    return grid[at - 1], grid[min(at, len(grid) - 1)]


@pytest.mark.parametrize("narrow", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("mode", ttir.Rounding, ids=lambda m: m.name)
def test_narrowing_to_eight_bits(narrow: Any, mode: ttir.Rounding) -> None:
    dtype = ir.numpy_dtype(narrow)
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    grid = sorted({Fraction(x) for x in codes[np.isfinite(codes)].tolist()})
    rng = np.random.default_rng(7)
    a = (rng.standard_normal(400) * 2.0 ** rng.integers(-20, 22, 400)).astype(np.float32)
    a[:3] = np.inf, -np.inf, 1e30
    found = run(ttir.FpToFpOp, a, result=ir.tensor_of(a.shape, narrow), rounding=mode)
    for x, y in zip(a.tolist(), found.astype(np.float64).tolist(), strict=True):
        bounded = grid[-1] if x == math.inf else grid[0] if x == -math.inf else Fraction(x)
        bounded = min(max(bounded, grid[0]), grid[-1])
        low, high = neighbours(bounded, grid)
        if mode is ttir.Rounding.RTZ:
            assert y == (low if bounded >= 0 or bounded == low else high), x
        else:
            assert abs(Fraction(y) - bounded) == min(bounded - low, high - bounded), x
    assert np.isnan(
        run(ttir.FpToFpOp, np.array([np.nan], np.float32), result=ir.tensor_of((1,), narrow),
            rounding=mode).astype(float)
    ).all()  # fmt: skip


@pytest.mark.parametrize("mode", list(RoundingMode)[:4], ids=lambda m: m.name)
def test_rounding_modes_of_truncf(mode: RoundingMode) -> None:
    a = floats(ir.f32, 8, 256) * np.float32(1.0009)
    a[:2] = 70000, -70000
    found = run(REGISTRY["arith.truncf"], a, result=ir.tensor_of((256,), ir.f16), roundingmode=mode)
    with np.errstate(over="ignore"):
        nearest = a.astype(np.float16)
    for x, y, near in zip(a.astype(float), found.astype(float), nearest, strict=True):
        if mode is RoundingMode.TO_NEAREST_EVEN or not math.isfinite(x):
            same(y, near)
        elif mode is RoundingMode.TOWARD_ZERO:
            assert abs(y) <= abs(x)
        else:
            assert y <= x if mode is RoundingMode.DOWNWARD else y >= x
        if abs(x) < 65504 and math.isfinite(y):
            step = np.nextafter(np.float16(abs(y)), np.float16(0)).astype(float)
            assert abs(y - x) <= 2 * (abs(y) - step) + 2.0**-24


def test_bitcasts() -> None:
    a = floats(ir.f32, 9)
    tile = ir.tensor_of((64,), ir.i32)
    for cls in (REGISTRY["arith.bitcast"], ttir.BitcastOp):
        np.testing.assert_array_equal(run(cls, a, result=tile), a.view(np.int32))


def test_select() -> None:
    a, b, c = integers(ir.i32, 1), integers(ir.i32, 2), integers(ir.i1, 3)
    assert run(SelectOp, c, a, b).tolist() == [
        x if z else y for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    one = np.array(True)
    np.testing.assert_array_equal(run(SelectOp, one, a, b, types=[ir.i1, None, None]), a)


@pytest.mark.parametrize("mode", ttir.PropagateNan, ids=lambda m: m.name)
def test_clamp(mode: ttir.PropagateNan) -> None:
    x = np.array([-3, 0.5, 9, np.nan, np.inf], np.float32)
    low, high = np.full(5, -1, np.float32), np.full(5, 2, np.float32)
    nan = -1 if mode is ttir.PropagateNan.NONE else np.nan
    same(run(ttir.ClampFOp, x, low, high, propagateNan=mode), np.array([-1, 0.5, 2, nan, 2]))


@pytest.mark.parametrize(
    ("type", "value"),
    [(t, v) for t in (*INTEGERS, *FLOATS, *SMALL_FLOATS) for v in (0, 1, -1, 100)],
    ids=str,
)
def test_constants_hold_their_value(type: Any, value: int) -> None:
    dtype = ir.numpy_dtype(type)
    expected = np.array(value).astype(dtype) if dtype.kind != "b" else np.array(value % 2 == 1)
    for wanted in (type, ir.tensor_of((2, 4), type)):
        held = attr_value(ConstantOp.of(value, wanted).value)
        assert held.dtype == dtype and (held == expected).all()
        assert np.shape(held) == ir.shape_of(wanted)


def test_integer_constants_wrap() -> None:
    assert attr_value(ConstantOp.of(255, ir.i8).value) == -1
    assert attr_value(ConstantOp.of(2**64 - 2, ir.i64).value) == -2
    assert attr_value(ConstantOp.of(-0.0, ir.f32).value).tobytes() == b"\0\0\0\x80"
    assert attr_value(ConstantOp.of(0.0, ir.f32).value).tobytes() == b"\0\0\0\0"


def test_float8_is_of_ml_dtypes() -> None:
    assert ir.numpy_dtype(ir.f8e4m3fn) == ml_dtypes.float8_e4m3fn
