"""Conversions of 8-bit floats by the instructions of gfx942, gfx950 and gfx12.

`v_cvt_pk_fp8_f32` and `v_cvt_pk_bf8_f32` round two floats to nearest even; the mode of rounding
does not matter, and subnormal results are kept. A number that is too large becomes infinity, or NaN
where there is none, unless MODE.FP16_OVFL is set, which the runtime leaves clear: numbers are
limited before, which makes the largest of infinity too, and NaN stays. `v_cvt_f32_fp8` and
`v_cvt_f32_bf8` are exact. gfx942 has the formats without infinity and negative zero (a zero has no
sign then), the others those of OCP. (AMD's "Instruction Set Architecture" of MI300, CDNA4 and
RDNA4, chapters of VOP1 and VOP3; ROCm's `amd_hip_fp8.h` limits numbers in the same way.)
"""

from __future__ import annotations

from tritium.codegen.gpu.conversions import SoftwareConversions
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.llvm.writer import Value, const, lanes

LARGEST = {"fp8e4b8": 240.0, "fp8e5b16": 57344.0, "fp8e4nv": 448.0, "fp8e5": 57344.0}
"""The largest number of a format."""
_NAMES = {"fp8e4b8": "fp8", "fp8e5b16": "bf8", "fp8e4nv": "fp8", "fp8e5": "bf8"}


def formats_of(arch: str) -> tuple[str, ...]:
    """The 8-bit formats that a processor converts."""
    if arch == "gfx942":
        return ("fp8e4b8", "fp8e5b16")
    return ("fp8e4nv", "fp8e5") if arch == "gfx950" or arch.startswith("gfx12") else ()


_UPPER_BYTES = {"<2 x i8>": (0x010C000C,), "<4 x i8>": (0x010C000C, 0x030C020C)}
"""Selectors of two bytes of a word as the upper ones of two halves, and zeros as the lower ones."""


class AMDConversions(SoftwareConversions):
    """Conversions by a processor's instructions; other formats, and to double, by integer
    arithmetic."""

    def __init__(self, arch: str):
        self._formats, self._keeps_nan = formats_of(arch), arch != "gfx942"

    def fp8(self, e: Emitter, a: Value, source: str, target: str) -> Value | None:
        if source in self._formats:
            word = e.f.cast("zext", a, "i32")
            return e.f.call("float", f"llvm.amdgcn.cvt.f32.{_NAMES[source]}", word, e.i32(0))
        if (source, target) == ("fp8e5", "fp16") and a.type in _UPPER_BYTES:
            return _by_moved_bytes(e, a)
        if target not in self._formats or source not in ("fp32", "fp16", "bf16"):
            return None
        wide = a if a.type == "float" else e.f.cast("fpext", a, "float")
        limited = self._limited(e, wide, LARGEST[target])
        name = f"llvm.amdgcn.cvt.pk.{_NAMES[target]}.f32"
        word = e.f.call("i32", name, limited, limited, Value("i32", "poison"), const("i1", 0))
        return e.f.cast("trunc", word, "i8")

    def _limited(self, e: Emitter, x: Value, most: float) -> Value:
        """A number brought between `-most` and `most`; NaN stays. (`v_med3` alone would give a
        limit for NaN; gfx942 has no minimum that keeps it.)"""
        low, high = const("float", -most), const("float", most)
        if not self._keeps_nan:
            between = e.f.call("float", "llvm.amdgcn.fmed3.f32", x, low, high)
            return e.f.select(e.f.fcmp("uno", x, x), x, between)
        return e.f.intrinsic("maximum", e.f.intrinsic("minimum", x, high), low)


def _by_moved_bytes(e: Emitter, a: Value) -> Value:
    """Numbers of e5m2, a word of them or half of one, as halves."""
    count = lanes(a.type)
    word = e.f.cast("bitcast", a, f"i{8 * count}")
    if count == 2:
        word = e.f.cast("zext", word, "i32")
    words = [
        e.f.call("i32", "llvm.amdgcn.perm", e.i32(0), word, e.i32(selector))
        for selector in _UPPER_BYTES[a.type]
    ]
    return e.f.cast("bitcast", e.vector(words), f"<{count} x half>")
