"""Functions of floats that AMD GPUs have instructions for."""

from __future__ import annotations

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.functions import VectorMath
from tritium.codegen.llvm.writer import Value, const, mangle

_LOG2_E = 1.4426950408889634
_ULP = 2.5


class AMDFunctions(VectorMath):
    """LLVM's sequences around `v_exp_f32`, `v_log_f32`, `v_sqrt_f32`, `v_rsq_f32`, `v_rcp_f32`; our
    own functions for the others and for doubles. Exponentials are 2^(x log2 e): the product adds
    |x| / 2^24 relatively."""

    def call(self, e: Emitter, name: str, *values: Value) -> Value:
        x = values[0]
        if name in ("sqrt", "rsqrt"):
            root = self._root(e, x)
            return root if name == "sqrt" else self.divide(e, const(x.type, 1.0), root, True)
        if x.type == "double":
            return super().call(e, name, *values)
        if name == "exp":
            name, x = "exp2", e.f.op("fmul", x, const("float", _LOG2_E))
        if name in ("exp2", "log", "log2", "log10"):
            return e.f.intrinsic(name, x)
        return super().call(e, name, *values)

    def divide(self, e: Emitter, a: Value, b: Value, approximate: bool) -> Value:
        """float: within 2.5 ulp; `tt.precise_divf` is exact."""
        flags = "contract " if approximate else ""
        return e.f.emit(a.type, f"fdiv {flags}{a}, {b.ref}{_within(e, a.type)}")

    def _root(self, e: Emitter, x: Value) -> Value:
        name = f"llvm.sqrt.{mangle(x.type)}"
        e.f.module.declare(name, x.type, [x.type])
        return e.f.emit(x.type, f"call contract {x.type} @{name}({x}){_within(e, x.type)}")


def _within(e: Emitter, type: str) -> str:
    """The metadata of an instruction whose result, a float, may be off a little."""
    if type != "float":
        return ""
    number = const("float", _ULP)
    return f", !fpmath {e.f.module.add_metadata(f'!{{{number}}}')}"
