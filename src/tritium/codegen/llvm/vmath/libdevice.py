"""CPU implementations of libdevice's symbols: vector functions, integer code, conversions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import cache, partial

from tritium.codegen.llvm.vmath import hyperbolic, norms, parts, trigpi
from tritium.codegen.llvm.vmath import integers as i
from tritium.codegen.llvm.vmath.directed import compute
from tritium.codegen.llvm.vmath.lanes import Features, Lanes
from tritium.codegen.llvm.vmath.registry import TABLE, Emitter, apply
from tritium.codegen.llvm.vmath.special import bessel, erf_related, gamma
from tritium.codegen.llvm.writer import Function, Value

# They register their functions in TABLE by being imported.
_FAMILIES = (bessel, erf_related, gamma, hyperbolic, norms, parts, trigpi)

_DIRECTIONS = ("rn", "rz", "ru", "rd")
_INTEGERS = {
    "int": ("i32", True),
    "uint": ("i32", False),
    "ll": ("i64", True),
    "ull": ("i64", False),
}


def call_symbol(f: Function, symbol: str, *args: Value, features: Features) -> Value:
    """Write the function `symbol` (`__nv_sinf`, ...) of scalars or vectors into the current block.

    Raises `KeyError` where it is not known, and `TypeError` for arguments that it does not take.
    """
    emit = symbols()[symbol]
    return emit(*(Lanes(f, a, features) for a in args)).value


@cache
def symbols() -> dict[str, Emitter]:
    """Every symbol, and what writes it."""
    table: dict[str, Emitter] = {}
    for name in TABLE:
        table[f"__nv_{name}"] = table[f"__nv_{name}f"] = partial(apply, name)
    for group in (_other_reals(), _directed(), _conversions(), _integers()):
        table.update({f"__nv_{name}": emit for name, emit in group})
    return table


def _intrinsic(name: str, x: Lanes, y: Lanes) -> Lanes:
    return x.intrinsic(name, y)


def _both(name: str, emit: Emitter) -> Iterator[tuple[str, Emitter]]:
    """The symbols for doubles and for floats."""
    yield name, emit
    yield f"{name}f", emit


def _power(x: Lanes, n: Lanes) -> Lanes:
    """x to an integer power, which a float would not hold."""
    wide = x.cast("fpext", "double") if x.base == "float" else x
    found = apply("pow", wide, n.cast("sitofp", "double"))
    return found.cast("fptrunc", "float") if x.base == "float" else found


def _ordered(name: str) -> Emitter:
    def emit(n: Lanes, x: Lanes) -> Lanes:
        wide = x.cast("fpext", "double") if x.base == "float" else x
        found = apply(name, n.cast("sitofp", "double"), wide)
        return found.cast("fptrunc", "float") if x.base == "float" else found

    return emit


def _one(emit: Callable[[Lanes], Lanes]) -> Emitter:
    return emit


def _flag(condition: Callable[[Lanes], Lanes]) -> Emitter:
    """An i32 that is 1 where the condition holds."""
    return _one(lambda x: condition(x).cast("zext", "i32"))


def _other_reals() -> Iterator[tuple[str, Emitter]]:
    yield from _both("nearbyint", partial(apply, "rint"))
    yield from _both("fmax", partial(_intrinsic, "maxnum"))
    yield from _both("fmin", partial(_intrinsic, "minnum"))
    for name in ("ldexp", "scalbn"):
        yield from _both(name, parts.scale)
    yield from _both("ilogb", parts.ilogb)
    yield from _both("powi", _power)
    yield "powif", _power
    for name in ("jn", "yn"):
        yield from _both(name, _ordered(name))
    for name, direction in (("llrint", "rn"), ("llround", "away")):
        yield from _both(name, partial(_to_integer, direction=direction, base="i64", signed=True))
    yield "saturatef", partial(apply, "saturate")
    yield "frsqrt_rn", _rsqrt_rn
    yield "rcp64h", parts.reciprocal_high
    yield "fast_fdividef", operator.truediv
    for name in ("cos", "exp10", "exp", "log10", "log2", "log", "pow", "sin", "tan", "tanh"):
        yield f"fast_{name}f", partial(apply, name)
    for suffix in ("f", "d"):
        yield f"isinf{suffix}", _flag(lambda x: x.abs().equals(math.inf))
        yield f"isnan{suffix}", _flag(lambda x: x.is_nan())
        yield f"signbit{suffix}", _flag(lambda x: x.bits() < 0)
    yield "finitef", _flag(lambda x: x.abs() < math.inf)
    yield "isfinited", _flag(lambda x: x.abs() < math.inf)


def _rsqrt_rn(x: Lanes) -> Lanes:
    """Correctly rounded: in double, whose error is far below what separates a float's result from
    a tie."""
    return (1.0 / x.cast("fpext", "double").sqrt()).cast("fptrunc", "float")


def _rounded(operation: str, direction: str) -> Emitter:
    if operation == "rcp":
        return _one(lambda x: compute("fdiv", direction, x.constant(1.0), x))
    llvm = operation if operation in ("sqrt", "fma") else f"f{operation}"
    return partial(compute, llvm, direction)


def _directed() -> Iterator[tuple[str, Emitter]]:
    for direction in _DIRECTIONS:
        for operation in ("add", "sub", "mul", "div", "rcp", "sqrt"):
            for kind in "fd":
                yield f"{kind}{operation}_{direction}", _rounded(operation, direction)
        yield f"fma_{direction}", _rounded("fma", direction)
        yield f"fmaf_{direction}", _rounded("fma", direction)


def _to_integer(x: Lanes, *, direction: str, base: str, signed: bool) -> Lanes:
    return i.to_integer(x, direction, base, signed)


def _to_float(x: Lanes, *, operation: str, direction: str, base: str) -> Lanes:
    value = compute(operation, direction, x, result=base)
    # Where unsigned vectors take several instructions, 0 comes out as -0 when rounding downward.
    return value.abs() if (operation, direction) == ("uitofp", "rd") else value


def _conversions() -> Iterator[tuple[str, Emitter]]:
    for direction in _DIRECTIONS:
        yield (
            f"double2float_{direction}",
            partial(_to_float, operation="fptrunc", direction=direction, base="float"),
        )
        for name, (base, signed) in _INTEGERS.items():
            operation = "sitofp" if signed else "uitofp"
            for real in ("float", "double"):
                to = partial(_to_integer, direction=direction, base=base, signed=signed)
                back = partial(_to_float, operation=operation, direction=direction, base=real)
                yield f"{real}2{name}_{direction}", to
                yield f"{name}2{real}_{direction}", back
    for name in ("float_as_int", "float_as_uint", "double_as_longlong"):
        yield name, _one(lambda x: x.bits())
    for name in ("int_as_float", "uint_as_float", "longlong_as_double"):
        yield name, _one(lambda x: x.as_float())
    yield "double2hiint", _one(lambda x: (x.bits() >> 32).cast("trunc", "i32"))
    yield "double2loint", _one(lambda x: x.bits().cast("trunc", "i32"))
    yield "hiloint2double", i.from_halves


def _integers() -> Iterator[tuple[str, Emitter]]:
    yield "abs", i.absolute
    yield "llabs", i.absolute
    for suffix in ("", "ll"):
        yield f"brev{suffix}", i.reverse_bits
        yield f"clz{suffix}", i.leading_zeros
        yield f"popc{suffix}", i.population
        yield f"ffs{suffix}", i.find_first_set
    for prefix, kind in (("", "s"), ("ll", "s"), ("u", "u"), ("ull", "u")):
        for which in ("max", "min"):
            yield f"{prefix}{which}", partial(_intrinsic, f"{kind}{which}")
    for prefix, extend in (("", "sext"), ("u", "zext")):
        signed = extend == "sext"
        yield f"{prefix}mulhi", partial(i.high_product, extend=extend)
        yield f"{prefix}mul64hi", partial(i.high_product, extend=extend)
        yield f"{prefix}mul24", partial(i.product_24, signed=signed)
        yield f"{prefix}sad", partial(i.absolute_difference, signed=signed)
        yield f"{prefix}hadd", partial(i.average, signed=signed, up=False)
        yield f"{prefix}rhadd", partial(i.average, signed=signed, up=True)
    yield "byte_perm", i.permute_bytes
