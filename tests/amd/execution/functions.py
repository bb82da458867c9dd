"""LLVM's intrinsics that belong to no processor, by name without `llvm.` and the types."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.amd.execution.operations import rounded, to_odd
from tests.amd.execution.types import Type, signed, storage, unsigned, wrapped


@cache
def _fma_of_doubles() -> Any:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.fma.restype, libm.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    return np.vectorize(libm.fma, otypes=[np.float64])


def fma(a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""
    if a.dtype == np.float64:
        return _fma_of_doubles()(a, b, c)
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    part = total - product  # the sum's error, exactly
    rest = (product - (total - part)) + (addend - part)
    rest = np.where(np.isfinite(total), rest, 0.0)
    if a.dtype == np.float32:
        # A double that is not exact gets an odd last place, so that it can be rounded again.
        bits = total.view(np.int64)
        even = (bits & 1) == 0
        outward = (rest > 0) == (total > 0)
        odd = np.where(outward, bits + 1, bits - 1)
        return np.where((rest != 0) & even, odd, bits).view(np.float64).astype(np.float32)
    return rounded(to_odd(total, rest), a.dtype)


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats, computed in double precision."""

    def compute(type: Type, *values: Any) -> Any:
        return rounded(function(*(v.astype(np.float64) for v in values)), type.dtype)

    return compute


def _less(a: Any, b: Any, *, least: bool, quiet: bool) -> Any:
    """The lesser or greater number; -0 is less than 0. `quiet`: the other one where one is NaN."""
    minus = np.signbit(a) if least else ~np.signbit(a)
    first = np.where(a == b, minus, (a < b) if least else (a > b))
    found = np.where(first, a, b)
    a_nan, b_nan = a != a, b != b
    if quiet:
        return np.where(a_nan, b, np.where(b_nan, a, found))
    return np.where(a_nan, a, np.where(b_nan, b, found))


def _funnel(left: bool) -> Callable[..., Any]:
    def shift(type: Type, a: Any, b: Any, by: Any) -> Any:
        bits = type.element.bits
        wide_a, wide_b = (v.astype(object) for v in (a, b))
        count = by.astype(object) % bits
        both = (wide_a << bits) | wide_b
        moved = (both << count) >> bits if left else both >> count
        return unsigned(type, moved)

    return shift


def _leading_zeros(type: Type, a: Any, *_: Any) -> Any:
    bits = type.element.bits
    return unsigned(type, np.array([[bits - int(v).bit_length()] for v in a.ravel()],
                                   object).reshape(a.shape))  # fmt: skip


def _trailing_zeros(type: Type, a: Any, *_: Any) -> Any:
    bits = type.element.bits
    counts = [(int(v) & -int(v)).bit_length() - 1 if v else bits for v in a.ravel()]
    return unsigned(type, np.array(counts, object).reshape(a.shape))


def _ones(type: Type, a: Any) -> Any:
    return unsigned(type, np.array([int(v).bit_count() for v in a.ravel()],
                                   object).reshape(a.shape))  # fmt: skip


def _reversed_bits(type: Type, a: Any) -> Any:
    bits = type.element.bits
    found = [int(format(int(v), f"0{bits}b")[::-1], 2) for v in a.ravel()]
    return unsigned(type, np.array(found, object).reshape(a.shape))


def _copysign(type: Type, a: Any, b: Any) -> Any:
    bits = type.element.width
    word = storage(bits)
    sign = word.type(1 << (bits - 1))
    return ((a.view(word) & ~sign) | (b.view(word) & sign)).view(type.dtype)


def _absolute(type: Type, a: Any) -> Any:
    return _copysign(type, a, np.zeros_like(a))


def _by_sign(choose: Any) -> Callable[..., Any]:
    return lambda type, a, b: unsigned(type, choose(signed(type, a), signed(type, b)))


def _saturated(add: bool, with_sign: bool) -> Callable[..., Any]:
    def compute(type: Type, a: Any, b: Any) -> Any:
        bits = type.element.bits
        x, y = (signed(type, v).astype(object) if with_sign else v.astype(object) for v in (a, b))
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if with_sign else (0, (1 << bits) - 1)
        return unsigned(type, np.minimum(np.maximum(x + y if add else x - y, low), high))

    return compute


def _round_even(type: Type, a: Any) -> Any:
    return np.rint(a).astype(type.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fma": lambda t, a, b, c: fma(a, b, c), "fmuladd": lambda t, a, b, c: fma(a, b, c),
    "sqrt": _wide(np.sqrt), "exp2": _wide(np.exp2), "exp": _wide(np.exp), "log": _wide(np.log),
    "log2": _wide(np.log2), "log10": _wide(np.log10), "floor": _wide(np.floor),
    "ceil": _wide(np.ceil), "trunc": _wide(np.trunc), "rint": _round_even,
    "roundeven": _round_even, "nearbyint": _round_even,
    "round": _wide(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "fabs": _absolute, "copysign": _copysign,
    "minnum": lambda t, a, b: _less(a, b, least=True, quiet=True),
    "maxnum": lambda t, a, b: _less(a, b, least=False, quiet=True),
    "minimum": lambda t, a, b: _less(a, b, least=True, quiet=False),
    "maximum": lambda t, a, b: _less(a, b, least=False, quiet=False),
    "minimumnum": lambda t, a, b: _less(a, b, least=True, quiet=True),
    "maximumnum": lambda t, a, b: _less(a, b, least=False, quiet=True),
    "umin": lambda t, a, b: np.minimum(a, b), "umax": lambda t, a, b: np.maximum(a, b),
    "smin": _by_sign(np.minimum), "smax": _by_sign(np.maximum),
    "abs": lambda t, a, _: unsigned(t, np.abs(signed(t, a))),
    "fshl": _funnel(True), "fshr": _funnel(False), "ctlz": _leading_zeros,
    "cttz": _trailing_zeros, "ctpop": _ones, "bitreverse": _reversed_bits,
    "bswap": lambda t, a: a.byteswap(),
    "uadd.sat": _saturated(True, False), "sadd.sat": _saturated(True, True),
    "usub.sat": _saturated(False, False), "ssub.sat": _saturated(False, True),
    "assume": lambda t, a: None, "expect": lambda t, a, b: a,
    "lifetime.start": lambda t, *_: None, "lifetime.end": lambda t, *_: None,
    "canonicalize": lambda t, a: a,
}  # fmt: skip
"""Function of the result's type and of values."""


def with_overflow(name: str, type: Type, a: Any, b: Any) -> Any:
    """The result and whether it does not fit: `umul.with.overflow`."""
    element = type.parts[0]
    x, y = (signed(element, v).astype(object) if name[0] == "s" else v.astype(object)
            for v in (a, b))  # fmt: skip
    exact = {"add": x + y, "sub": x - y, "mul": x * y}[name[1:4]]
    found = unsigned(element, exact)
    back = signed(element, found).astype(object) if name[0] == "s" else found.astype(object)
    return wrapped(element, found), (back != exact).astype(bool)


def function(name: str) -> Callable[..., Any] | None:
    """The function of an intrinsic without `llvm.`: `fma.f32`."""
    parts = name.split(".")
    if parts[1:3] == ["with", "overflow"]:
        return lambda type, a, b: with_overflow(parts[0], type, a, b)
    return FUNCTIONS.get(".".join(parts[:2])) or FUNCTIONS.get(parts[0])
