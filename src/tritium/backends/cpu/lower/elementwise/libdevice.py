"""`tt.extern_elementwise`: libdevice's functions by vector math."""

from __future__ import annotations

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ops.ttir.extern import ExternElementwiseOp


@lowers("cpu", ExternElementwiseOp)
def external(c: Context, op: ExternElementwiseOp, *values: Value) -> Value:
    """Raises NotImplementedError, naming the symbol, for functions that are not known."""
    # Here, so that kernels without such functions do not load their hundreds of coefficients.
    from tritium.codegen.llvm.vmath.libdevice import call_symbol, symbols

    if op.symbol not in symbols():
        raise c.unsupported(op, f" (symbol '{op.symbol}')")
    return call_symbol(c.f, op.symbol, *values, features=c.features)
