"""Products of operands with scales in translated kernels: the operands are multiplied by their
scales before."""

# Kernel-language functions take tensors of any type, constexprs and numbers: Python's types say
# little of them.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportReturnType=false
# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportUnnecessaryComparison=false

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon import language as gl
from tritium.language import core as tl
from tritium.language.builtins import casts
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.tools.triton_to_gluon_translator.helpers import dot, expand_dims, settle

_FLOAT8 = {"e4m3": gl.float8e4nv, "e5m2": gl.float8e5}


def _factors(scale: tensor, dtype: Any) -> tensor:
    """The factors that scales are: bytes are powers of two, 127 is 1 and 255 NaN."""
    if scale.dtype.is_floating():
        return casts.cast(scale, dtype)
    code = casts.cast(scale, gl.uint16)
    bits = tl.where(code == 0, 0x0040, tl.where(code == 255, 0x7FC0, code << 7))
    power = tl.cast(casts.cast(bits, gl.uint16), gl.bfloat16, bitcast=True)
    return casts.cast(power, dtype)


def _operand(x: tensor, scale: Any, format: str, k: int, packed: bool, dtype: Any) -> tensor:
    """An operand, of which `k` is the axis that is summed over, with its scales."""
    if format == "e2m1":
        x = settle(gl.fp4_to_fp(x, gl.bfloat16, k if packed else 1 - k))
    elif format in _FLOAT8 and not x.dtype.is_floating():
        x = tl.cast(x, _FLOAT8[format], bitcast=True)
    x = casts.cast(x, dtype)
    if scale is None:
        return x
    rows, runs = scale.type.shape
    run = x.type.shape[k] // runs
    wide = tl.broadcast_to(expand_dims(_factors(scale, dtype), 2), [rows, runs, run])
    factors = settle(tl.reshape(wide, [rows, runs * run]))
    return x * (factors if k else settle(tl.trans(factors)))


@builtin
def dot_scaled(
    lhs: tensor, lhs_scale: Any, lhs_format: Any, rhs: tensor, rhs_scale: Any, rhs_format: Any,
    acc: Any = None, fast_math: bool = False, lhs_k_pack: bool = True, rhs_k_pack: bool = True,
    out_dtype: Any = gl.float32,
) -> tensor:  # fmt: skip
    """`tl.dot_scaled` in bfloat16; with float16 operands, or scales that are no powers of two, in
    float32."""
    scales = [s for s in (lhs_scale, rhs_scale) if s is not None]
    exact = "fp16" in (lhs_format, rhs_format) or any(s.dtype.is_floating() for s in scales)
    dtype = gl.float32 if exact else gl.bfloat16
    a = _operand(lhs, lhs_scale, lhs_format, 1, lhs_k_pack, dtype)
    b = _operand(rhs, rhs_scale, rhs_format, 0, rhs_k_pack, dtype)
    return dot(a, b, acc, input_precision="ieee" if exact else None, out_dtype=out_dtype)
