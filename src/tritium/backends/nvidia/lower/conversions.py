"""Conversions of floats by `cvt`."""

from __future__ import annotations

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.llvm.writer import Value, const

_FP8 = {"fp8e5": "e5m2x2", "fp8e4nv": "e4m3x2"}
_REGISTERS = {
    "double": ("f64", "d"), "float": ("f32", "f"), "half": ("f16", "h"), "bfloat": ("bf16", "h"),
}  # fmt: skip
"""PTX's name of a type, and the constraint of its registers."""


class Cvt:
    """Instructions of a compute capability: fp8 from sm_89 on, integers to bfloat from sm_90 on."""

    def __init__(self, arch: int):
        self._has_fp8, self.integer_to_bfloat = arch >= 89, arch >= 90

    def fp8(self, e: Emitter, a: Value, source: str, target: str) -> Value | None:
        if self._has_fp8 and source in _FP8:
            return _widen(e, a, _FP8[source])
        if not self._has_fp8 or target not in _FP8 or source.startswith("fp8") or source == "fp64":
            return None
        return _narrow(e, a, source, _FP8[target])

    def toward_zero(self, e: Emitter, a: Value, type: str, *, signed: bool = True) -> Value:
        name, code = _REGISTERS.get(a.type) or (
            f"{'s' if signed else 'u'}{a.type[1:]}", "r" if a.type == "i32" else "l"
        )  # fmt: skip
        to, held = _REGISTERS[type]
        bits = "i16" if held == "h" else type
        text = f"cvt.rz.{to}.{name} $0, $1;"
        return e.as_type(e.asm(bits, text, f"={held},{code}", a, effects=False), type)


def _widen(e: Emitter, a: Value, name: str) -> Value:
    """8 bits as half."""
    text = f"cvt.rn.f16x2.{name} $0, $1;"
    pair = e.asm("i32", text, "=r,h", e.f.cast("zext", a, "i16"), effects=False)
    return e.as_type(e.f.cast("trunc", pair, "i16"), "half")


def _narrow(e: Emitter, a: Value, source: str, name: str) -> Value:
    """Half, bfloat or float rounded to 8 bits; too large ones become the largest."""
    if source == "fp16":
        pair = e.f.cast("zext", e.as_type(a, "i16"), "i32")
        text, constraints = f"cvt.rn.satfinite.{name}.f16x2 $0, $1;", "=h,r"
        word = e.asm("i16", text, constraints, pair, effects=False)
    else:
        wide = e.f.cast("fpext", a, "float") if source == "bf16" else a
        text = f"cvt.rn.satfinite.{name}.f32 $0, $1, $2;"
        word = e.asm("i16", text, "=h,f,f", const("float", 0.0), wide, effects=False)
    return e.f.cast("trunc", word, "i8")
