"""Functions of floats: approximations in hardware (`ex2`, `sqrt`, `rsqrt`, `div.full`), and for the
others and for double precision libdevice."""

from __future__ import annotations

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.functions import linked
from tritium.codegen.llvm.writer import Value, const

_LOG2_E = 1.4426950408889634


class CudaFunctions:
    """Exponentials are 2^(x log2 e) by `ex2.approx` (2 ulp of 2^y; the product adds |x| / 2^24
    relatively)."""

    def __init__(self, flush: bool = True):
        """`flush`: functions of float32 may flush subnormal numbers to zero
        (`enable_reflect_ftz`), as `exp2`, `sqrt` and `rsqrt` do in the reference; they are one
        instruction where they do, `exp2` four where it does not."""
        self.flush = flush

    def call(self, e: Emitter, name: str, *values: Value) -> Value:
        x = values[0]
        if x.type == "double":
            return e.f.intrinsic("sqrt", x) if name == "sqrt" else _libdevice(e, name, *values)
        if name == "fmod":
            # The remainder of floats is exact as doubles, and libdevice's function of floats takes
            # subnormal numbers for zero where it flushes (`enable_reflect_ftz`).
            wide = [e.f.cast("fpext", v, "double") for v in values]
            return e.f.cast("fptrunc", _libdevice(e, name, *wide), "float")
        if name == "exp":
            x = e.f.op("fmul", x, const("float", _LOG2_E))
        instruction = {"exp": "ex2", "exp2": "ex2", "sqrt": "sqrt", "rsqrt": "rsqrt"}.get(name)
        if instruction is None:
            return _libdevice(e, name, *values)
        kind = "approx.ftz" if self.flush and name != "exp" else "approx"
        return e.asm("float", f"{instruction}.{kind}.f32 $0, $1;", "=f,f", x, effects=False)

    def divide(self, e: Emitter, a: Value, b: Value, approximate: bool) -> Value:
        """float: within 2 ulp; `tt.precise_divf` is exact."""
        if a.type == "double":
            return e.f.op("fdiv", a, b)
        return e.f.call("float", f"llvm.nvvm.div.{'approx.f' if approximate else 'full'}", a, b)

    external = staticmethod(linked)  # libdevice is linked as well


def _libdevice(e: Emitter, name: str, *values: Value) -> Value:
    suffix = "f" if values[0].type == "float" else ""
    return e.f.call(values[0].type, f"__nv_{name}{suffix}", *values)
