"""SwiGLU of interleaved columns: (gate, linear), (gate, linear), ..."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.moe_kernels.flexpoint import flex_to_float, float_to_flex


@tritium.jit
def swiglu_fn(x, alpha, limit):
    """gate * sigmoid(alpha * gate) * (linear + 1) of a tile (rows, 2 * columns).

    With a limit, gate is at most the limit, and linear within plus and minus the limit.
    """
    gate, linear = tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))
    gate = gate.to(tl.float32)
    linear = linear.to(tl.float32)
    if limit is not None:
        gate = tl.minimum(gate, limit, propagate_nan=tl.PropagateNan.ALL)
        linear = tl.clamp(linear, -limit, limit, propagate_nan=tl.PropagateNan.ALL)
    s = gate / (1 + tl.exp(-alpha * gate))
    return s * linear + s


@tritium.jit
def swiglu_derivative(x, dy, alpha, limit):
    """The gradient of x, (rows, 2 * columns), of `swiglu_fn(x, alpha, limit)`."""
    gate, linear = tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))
    whole_gate = gate
    whole_linear = linear
    if limit is not None:
        gate = tl.minimum(gate, limit, propagate_nan=tl.PropagateNan.ALL)
        linear = tl.clamp(linear, -limit, limit, propagate_nan=tl.PropagateNan.ALL)
    sigmoid = 1 / (1 + tl.exp(-alpha * gate))
    dgate = dy * (linear + 1) * sigmoid * (1 + alpha * gate * (1 - sigmoid))
    dlinear = dy * gate * sigmoid
    if limit is not None:
        # What is cut off has no gradient; NaN is not.
        dgate = tl.where(whole_gate > limit, 0.0, dgate)
        dlinear = tl.where(tl.abs(whole_linear) > limit, 0.0, dlinear)
    return tl.reshape(tl.join(dgate, dlinear), x.shape)


@tritium.jit
def swiglu(
    x_ptr, y_ptr, rows, rows_ptr, columns, x_stride, alpha, limit, scale_ptr, expected_ptr,
    actual_ptr, checksum_ptr, SATURATE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0)
    row = ((pid // across) * ROWS + tl.arange(0, ROWS))[:, None].to(tl.int64)
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    c = (pid % across) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)[None, :]
    mask = (row < used) & (c < 2 * columns)
    x = tl.load(x_ptr + row * x_stride + c, mask=mask, other=0.0)
    if scale_ptr is not None:
        x = flex_to_float(x, scale_ptr)
    y = swiglu_fn(x, alpha, limit)
    c = (pid % across) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (row < used) & (c < columns)
    y = float_to_flex(y, expected_ptr, actual_ptr, checksum_ptr, mask, y_ptr, SATURATE)
    tl.store(y_ptr + row * columns + c, y.to(y_ptr.dtype.element_ty), mask=mask)
