"""Reference semantics of libdevice functions on NumPy arrays, from NumPy or exact arithmetic.

`definition(symbol)` takes arrays as an op's `evaluate` does (integers are signed, fp32 stays fp32)
and returns one that is still to be converted to the result's dtype. The special functions that
NumPy lacks come from `Context.external`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

Definition = Callable[..., Any]

_where: Definition = np.where  # results of which NumPy's stubs know too little
_unpack: Definition = np.unpackbits
_ROUNDINGS: dict[str, Definition] = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}
_INTEGERS = {"int": (32, True), "uint": (32, False), "ll": (64, True), "ull": (64, False)}


@cache
def definition(symbol: str) -> Definition | None:
    """The function of `symbol` (`__nv_sinf`, ...), None where it is not defined here."""
    return _definitions().get(symbol.removeprefix("__nv_"))


@cache
def _definitions() -> dict[str, Definition]:
    table: dict[str, Definition] = {}
    for name, function in {**_FLOATS, "exp10": _exp10, "rsqrt": _rsqrt, "fdim": _fdim,
                           "remainder": _each(math.remainder), "erf": _each(math.erf),
                           "erfc": _each(math.erfc), "logb": _logb,
                           "round": _round}.items():  # fmt: skip
        table[name] = table[f"{name}f"] = partial(_wide, function)
    for suffix in ("", "f"):
        table |= {
            f"nextafter{suffix}": np.nextafter, f"ilogb{suffix}": _ilogb,
            f"ldexp{suffix}": _scale, f"scalbn{suffix}": _scale,
            f"llrint{suffix}": partial(_to_integer, rounding=np.rint, bits=64, signed=True),
            f"llround{suffix}": partial(_to_integer, rounding=_round, bits=64, signed=True),
        }  # fmt: skip
    table["powi"] = table["powif"] = partial(_wide, np.power)
    for name in ("cos", "exp10", "exp", "log10", "log2", "log", "pow", "sin", "tan", "tanh"):
        table[f"fast_{name}f"] = table[name]
    table["fast_fdividef"] = np.divide
    for suffix in "fd":
        table |= {f"isinf{suffix}": np.isinf, f"isnan{suffix}": np.isnan,
                  f"signbit{suffix}": np.signbit}  # fmt: skip
    table |= {"finitef": np.isfinite, "isfinited": np.isfinite, "saturatef": _saturate}
    table |= {"frsqrt_rn": partial(_wide, _rsqrt), "rcp64h": _reciprocal_high}
    table.update(_directed())
    table.update(_conversions())
    table.update(_integers())
    return table


# Real functions: computed in float64


def _wide(function: Definition, *arrays: Any) -> Any:
    return function(*(np.asarray(a, np.float64) for a in arrays))


def _each(function: Callable[..., float]) -> Definition:
    def apply(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:  # outside of the domain
            return math.nan

    found: Any = np.vectorize(apply, otypes=[np.float64])
    return found


def _exp10(x: Any) -> Any:
    return np.power(10.0, x)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _round(x: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    away = np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)
    return np.copysign(whole + away, x).astype(np.asarray(x).dtype)


def _fdim(x: Any, y: Any) -> Any:
    return np.where(x <= y, 0.0, x - y)


def _logb(x: Any) -> Any:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(np.isfinite(x), np.where(x == 0, -np.inf, exponent), x * x)


def _cbrt(x: Any) -> Any:
    """Correctly rounded but in rare cases; libm's own function is off by 2 units in places."""
    x = np.asarray(x)
    return np.cbrt(x.astype(np.longdouble)).astype(x.dtype)


def _saturate(x: Any) -> Any:
    return np.where(x > 0, np.minimum(x, 1), 0)


_FLOATS: dict[str, Definition] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": _cbrt,
    "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "fabs": np.abs, "floor": np.floor,
    "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "nearbyint": np.rint, "pow": np.power,
    "rint": np.rint, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip


def _scale(x: Any, n: Any) -> Any:
    return np.ldexp(np.asarray(x, np.float64), np.clip(n, -3000, 3000))


def _ilogb(x: Any) -> Any:
    exponent = np.frexp(np.asarray(x, np.float64))[1].astype(np.int64) - 1
    least, most = -(2**31), 2**31 - 1
    return np.where(np.isinf(x), most, np.where((x == 0) | np.isnan(x), least, exponent))


def _reciprocal_high(x: Any) -> Any:
    """PTX's rcp.approx.ftz.f64: of the upper half, to the upper half, subnormal numbers as 0."""

    def half(value: Any) -> Any:
        top: Any = (np.asarray(value).view(np.int64) & -(2**32)).view(np.float64)
        return _where(np.abs(top) < 2.0**-1022, np.copysign(0.0, top), top)

    found: Any = half(1 / half(x))
    return _where(np.isnan(x), x, found)


# Exact arithmetic, rounded in one direction


def _directed_result(guess: Any, excess: Callable[[Any], int], direction: str, sign: int) -> Any:
    """The number next to `guess` that rounds an exact value in `direction`.

    `excess(c)` is the sign of c less the value, for finite c; `sign` that of the value.
    """
    down = direction == "rd" or (direction == "rz" and sign > 0)
    infinity = type(guess)(-math.inf if down else math.inf)

    def beyond(c: Any) -> bool:
        over = math.copysign(1, c) if np.isinf(c) else excess(c)
        return over > 0 if down else over < 0

    while beyond(guess):
        guess = np.nextafter(guess, infinity)
    # The last number that is not beyond.
    while True:
        nearer = np.nextafter(guess, -infinity)
        if nearer == guess or beyond(nearer):
            return guess
        guess = nearer


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


def _reciprocal(x: Any) -> Any:
    return type(x)(1) / x


def _multiply_add(x: Any, y: Any, z: Any) -> Any:
    """x * y + z; an infinite z is the sum of any finite product, one that overflows too."""
    if type(z) is not Fraction and np.isinf(z) and np.isfinite(x) and np.isfinite(y):
        return z
    return x * y + z


_OPERATIONS: dict[str, Definition] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "rcp": _reciprocal, "fma": _multiply_add, "convert": operator.pos, "sqrt": np.sqrt,
}  # fmt: skip
"""On NumPy's numbers, and but for `sqrt` exactly on fractions."""


def _one(operation: str, direction: str, dtype: Any, *values: Any) -> Any:
    """One operation on scalars, of which the result is a `dtype`."""
    plain = dtype(values[0]) if operation == "convert" else _OPERATIONS[operation](*values)
    if not all(np.isfinite(v) for v in values) or np.isnan(plain):
        return plain
    if values[-1] == 0 and operation in ("div", "rcp", "sqrt"):
        return plain
    if operation == "sqrt":
        square = Fraction(values[0].item())
        return _directed_result(
            plain, lambda c: _sign(Fraction(c.item()) ** 2 - square), direction, 1
        )
    exact: Fraction = _OPERATIONS[operation](*(Fraction(v.item()) for v in values))
    if exact == 0:
        cancelled = operation in ("add", "sub", "fma") and not _same_zeros(operation, values)
        return dtype(-0.0 if direction == "rd" else 0.0) if cancelled else plain
    near = _nearest(exact, dtype)
    if direction == "rn":
        return near
    return _directed_result(
        near, lambda c: _sign(Fraction(c.item()) - exact), direction, _sign(exact)
    )


def _nearest(exact: Fraction, dtype: Any) -> Any:
    """Round a fraction to nearest, ties to even, as the division of integers in Python does."""
    try:
        value = exact.numerator / exact.denominator
    except OverflowError:
        return dtype(math.inf if exact > 0 else -math.inf)
    if dtype == np.float32 and Fraction(value) != exact:
        # Rounded to odd first, so that rounding again is as rounding once.
        inward = math.nextafter(value, 0) if abs(Fraction(value)) > abs(exact) else value
        bits: Any = np.float64(inward).view(np.int64)
        value = float((bits | np.int64(1)).view(np.float64))
    return dtype(value)


def _same_zeros(operation: str, values: Any) -> bool:
    """True if what is added are zeros of one sign, which the sum has."""
    if operation == "fma":
        terms = [float(values[0]) * float(values[1]), float(values[2])]
    else:
        terms = [float(values[0]), float(values[1]) * (-1 if operation == "sub" else 1)]
    return terms == [0, 0] and len({math.copysign(1, t) for t in terms}) == 1


def _exactly(operation: str, direction: str, dtype: Any, *arrays: Any) -> Any:
    flat = [a.ravel() for a in np.broadcast_arrays(*arrays)]
    with np.errstate(all="ignore"):
        found = [_one(operation, direction, dtype, *values) for values in zip(*flat, strict=True)]
    shape: Any = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    result: Any = np.array(found, dtype)
    return result.reshape(shape)


def _plainly(operation: str) -> Definition:
    if operation == "rcp":
        return partial(np.divide, np.float32(1))
    return _OPERATIONS[operation]


def _directed() -> Iterator[tuple[str, Definition]]:
    for kind, dtype in (("f", np.float32), ("d", np.float64)):
        for operation in ("add", "sub", "mul", "div", "rcp", "sqrt"):
            yield f"{kind}{operation}_rn", _plainly(operation)
            for direction in ("rz", "ru", "rd"):
                yield (
                    f"{kind}{operation}_{direction}",
                    partial(_exactly, operation, direction, dtype),
                )
        name = "fmaf" if kind == "f" else "fma"
        yield name, partial(_exactly, "fma", "rn", dtype)
        for direction in ("rn", "rz", "ru", "rd"):
            yield f"{name}_{direction}", partial(_exactly, "fma", direction, dtype)


# Conversions


def _to_integer(x: Any, *, rounding: Definition, bits: int, signed: bool) -> Any:
    """Saturated; NaN becomes 0 for fp32 to 32 bits and else the highest bit alone (PTX, `cvt`)."""
    x = np.asarray(x)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    whole = rounding(x.astype(np.float64))
    inside = (whole >= least) & (whole < most + 1)
    kind: Any = np.int64 if signed else np.uint64
    value = np.where(inside, whole, 0).astype(kind)
    value = np.where(whole < least, kind(least), np.where(whole > most, kind(most), value))
    value = np.where(inside, np.where(inside, whole, 0).astype(kind), value)
    nan = 0 if (x.dtype == np.float32 and bits == 32) else 1 << (bits - 1)
    result: Any = np.int32 if bits == 32 else np.int64
    return np.where(np.isnan(x), np.array(nan, np.uint64).astype(result), value.astype(result))


def _to_float(x: Any, *, direction: str, dtype: Any, kind: Any) -> Any:
    x = np.asarray(x).view(kind)
    return x.astype(dtype) if direction == "rn" else _exactly("convert", direction, dtype, x)


def _viewed(dtype: Any) -> Definition:
    def view(x: Any) -> Any:
        return np.asarray(x).view(dtype)

    return view


def _upper_half(x: Any) -> Any:
    return _viewed(np.int64)(x) >> 32


def _from_halves(high: Any, low: Any) -> Any:
    bits = np.asarray(high).astype(np.int64) << 32 | np.asarray(low).view(np.uint32)
    return _viewed(np.float64)(bits)


def _conversions() -> Iterator[tuple[str, Definition]]:
    for direction, rounding in _ROUNDINGS.items():
        yield (
            f"double2float_{direction}",
            partial(_to_float, direction=direction, dtype=np.float32, kind=np.float64),
        )
        for name, (bits, signed) in _INTEGERS.items():
            kind: Any = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
            for real, dtype in (("float", np.float32), ("double", np.float64)):
                to = partial(_to_integer, rounding=rounding, bits=bits, signed=signed)
                yield f"{real}2{name}_{direction}", to
                back = partial(_to_float, direction=direction, dtype=dtype, kind=kind)
                yield f"{name}2{real}_{direction}", back
    yield from (("float_as_int", _viewed(np.int32)), ("float_as_uint", _viewed(np.int32)))
    yield from (("int_as_float", _viewed(np.float32)), ("uint_as_float", _viewed(np.float32)))
    yield "double_as_longlong", _viewed(np.int64)
    yield "longlong_as_double", _viewed(np.float64)
    yield "double2hiint", _upper_half
    yield "double2loint", _viewed(np.int64)  # of which the low bits are kept
    yield "hiloint2double", _from_halves


# Integers


def _unsigned(x: Any) -> Any:
    return np.asarray(x).view(np.uint32 if np.asarray(x).dtype.itemsize == 4 else np.uint64)


def _bits(x: Any) -> Any:
    """The bits along a new last axis, the lowest first."""
    raw: Any = np.asarray(x, order="C")[..., None].view(np.uint8)
    return _unpack(raw, axis=-1, bitorder="little")


def _leading_zeros(x: Any) -> Any:
    bits: Any = _bits(x)[..., ::-1]
    return _where(bits.any(-1), bits.argmax(-1), bits.shape[-1])


def _find_first_set(x: Any) -> Any:
    bits = _bits(x)
    return np.where(bits.any(-1), bits.argmax(-1) + 1, 0)


def _reverse(x: Any) -> Any:
    dtype = np.asarray(x).dtype
    packed = np.packbits(_bits(x)[..., ::-1], axis=-1, bitorder="little")
    return packed.view(dtype)[..., 0]


def _in_integers(function: Callable[..., int], signed: bool) -> Definition:
    """Elementwise in Python's integers, the low bits of the result."""

    def apply(*arrays: Any) -> Any:
        dtype: Any = arrays[0].dtype
        mask = 2 ** (dtype.itemsize * 8) - 1
        whole = [a.astype(object) if signed else _unsigned(a).astype(object) for a in arrays]

        def masked(*values: int) -> int:
            return function(*values) & mask

        found: Any = np.vectorize(masked, otypes=[object])(*whole)
        return found.astype(f"u{dtype.itemsize}").view(dtype)

    return apply


def _population(x: Any) -> Any:
    return _bits(x).sum(-1)


def _high_product(x: int, y: int, bits: int) -> int:
    return (x * y) >> bits


def _product_24(x: int, y: int, signed: bool) -> int:
    return _low_24(x, signed) * _low_24(y, signed)


def _distance(x: int, y: int, z: int) -> int:
    return abs(x - y) + z


def _average(x: int, y: int, up: int) -> int:
    return (x + y + up) >> 1


def _low_24(x: int, signed: bool) -> int:
    low = x & 0xFFFFFF
    return low - (1 << 24) if signed and low >> 23 else low


def _permute(x: int, y: int, selector: int) -> int:
    source = x | y << 32
    return sum(((source >> 8 * (selector >> 4 * i & 7)) & 255) << 8 * i for i in range(4))


def _integers() -> Iterator[tuple[str, Definition]]:
    yield from (("abs", np.abs), ("llabs", np.abs))
    for suffix in ("", "ll"):
        yield f"popc{suffix}", _population
        yield f"clz{suffix}", _leading_zeros
        yield f"ffs{suffix}", _find_first_set
        yield f"brev{suffix}", _reverse
    for prefix, signed in (("", True), ("u", False)):
        functions: dict[str, Callable[..., int]] = {
            "max": max, "min": min, "mulhi": partial(_high_product, bits=32),
            "mul64hi": partial(_high_product, bits=64), "mul24": partial(_product_24,
            signed=signed),
            "sad": _distance, "hadd": partial(_average, up=0), "rhadd": partial(_average, up=1),
        }  # fmt: skip
        for name, function in functions.items():
            yield f"{prefix}{name}", _in_integers(function, signed)
        for name in ("max", "min"):
            yield f"{prefix}ll{name}", _in_integers(functions[name], signed)
    yield "byte_perm", _in_integers(_permute, False)
