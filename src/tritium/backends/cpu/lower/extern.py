"""`tt.extern_elementwise`: libdevice's functions by vector math, intrinsics and the C library."""

from __future__ import annotations

from functools import partial

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.types import value_type
from tritium.lowering.llvm import Value, const, lanes, scalar
from tritium.lowering.registry import lowers
from tritium.lowering.vmath import TABLE, call
from tritium.ops.ttir.extern import ExternElementwiseOp

_INTRINSICS = {
    "fmax": "maxnum", "fmin": "minnum", "nearbyint": "nearbyint", "round": "round", "fma": "fma",
}  # fmt: skip
_INTEGERS = {
    "__nv_abs": "abs", "__nv_llabs": "abs", "__nv_max": "smax", "__nv_llmax": "smax",
    "__nv_min": "smin", "__nv_llmin": "smin", "__nv_umax": "umax", "__nv_ullmax": "umax",
    "__nv_umin": "umin", "__nv_ullmin": "umin", "__nv_popc": "ctpop", "__nv_popcll": "ctpop",
    "__nv_brev": "bitreverse", "__nv_brevll": "bitreverse", "__nv_clz": "ctlz",
    "__nv_clzll": "ctlz",
}  # fmt: skip
_C_LIBRARY = {
    "acosh": 1, "asinh": 1, "atanh": 1, "exp10": 1, "hypot": 2, "lgamma": 1, "tgamma": 1,
    "fdim": 2, "nextafter": 2, "remainder": 2, "logb": 1, "ldexp": 2, "j0": 1, "j1": 1, "y0": 1,
    "y1": 1,
}  # fmt: skip
"""Functions without a vector form here, and how many arguments they take."""


@lowers("cpu", ExternElementwiseOp)
def external(c: Context, op: ExternElementwiseOp, *values: Value) -> Value:
    """Raises NotImplementedError, naming the symbol, for functions that are not known."""
    f, symbol = c.f, op.symbol
    result = value_type(op.results[0].type)
    if result in ("float", "double") and symbol.startswith("__nv_"):
        name = symbol.removeprefix("__nv_")
        name = name.removesuffix("f") if result == "float" else name
        return _real(c, op, name, result, values)
    name = _INTEGERS.get(symbol)
    if name is None or any(scalar(v.type)[0] != "i" for v in values):
        raise c.unsupported(op, f" (symbol '{symbol}')")
    more = [const("i1", False)] if name in ("abs", "ctlz") else []
    found = f.intrinsic(name, *values, *more)
    wanted = found.type.replace(scalar(found.type), result)
    return found if wanted == found.type else f.cast("trunc", found, wanted)


def _real(
    c: Context, op: ExternElementwiseOp, name: str, result: str, values: tuple[Value, ...]
) -> Value:
    f = c.f
    alike = all(scalar(v.type) == result for v in values)
    if name in TABLE and alike and TABLE[name].arity == len(values):
        return call(f, name, *values, features=c.features)
    if name in _INTRINSICS and alike:
        return f.intrinsic(_INTRINSICS[name], *values)
    if name == "rcbrt" and alike:
        root = call(f, "cbrt", *values, features=c.features)
        return f.op("fdiv", const(root.type, 1.0), root)
    if _C_LIBRARY.get(name) != len(values):
        raise c.unsupported(op, f" (symbol '{op.symbol}')")
    one = partial(f.call, result, name + ("f" if result == "float" else ""))
    width = lanes(values[0].type)
    if width == 1:
        return one(*values)
    total = Value(values[0].type.replace(scalar(values[0].type), result), "poison")
    for lane in range(width):
        total = f.insert(total, one(*(f.extract(v, lane) for v in values)), lane)
    return total
