"""Conversions of floats for processors that have no instructions for them."""

from __future__ import annotations

from functools import partial

from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.hardware import Unsupported
from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import Value, const


class SoftwareConversions:
    """Conversions of floats by integer arithmetic."""

    integer_to_bfloat = False

    def fp8(self, e: Emitter, a: Value, source: str, target: str) -> Value | None:
        return None

    def toward_zero(self, e: Emitter, a: Value, type: str, *, signed: bool = True) -> Value:
        f, names = e.f, {"half": "fp16", "bfloat": "bf16", "float": "fp32", "double": "fp64"}
        if a.type in names and type != "float":
            narrow = partial(convert.fp, f, features=frozenset(), rounding="rtz")
            return narrow(a, names[a.type], names[type])
        if type != "float":
            raise Unsupported(f"{a.type} rounded toward zero to {type}")
        return _float_toward_zero(e, a, signed)


def _float_toward_zero(e: Emitter, a: Value, signed: bool) -> Value:
    """A double or an integer as a float that is not larger."""
    f = e.f
    if a.type == "double":
        near = f.cast("fptrunc", a, "float")
        size, back = (f.intrinsic("fabs", v) for v in (a, f.cast("fpext", near, "double")))
        bits = f.cast("bitcast", near, "i32")
        smaller = f.op("sub", bits, const("i32", 1))
        return f.cast("bitcast", f.select(f.fcmp("ogt", back, size), smaller, bits), "float")
    # The first 24 digits: what a float has room for.
    zero = const(a.type, 0)
    negative = f.icmp("slt", a, zero) if signed else const("i1", 0)
    size = f.select(negative, f.op("sub", zero, a), a)
    leading = f.call(a.type, f"llvm.ctlz.{a.type}", size, const("i1", 0))
    dropped = f.op("sub", const(a.type, bits_of(a.type) - 24), leading)
    dropped = f.intrinsic("smax", dropped, zero)
    size = f.op("shl", f.op("lshr", size, dropped), dropped)
    found = f.cast("uitofp", size, "float")
    return f.select(negative, f.fneg(found), found)
