"""Scales of numbers of 8 bits: largest magnitudes, checksums, conversion."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium.language.target_info import is_cuda

_LARGEST = {
    "fp8e4nv": 448.0, "fp8e4b8": 240.0, "fp8e4b15": 1.875, "fp8e5": 57344.0, "fp8e5b16": 57344.0,
    "fp16": 65504.0, "bf16": 3.3895313892515355e38, "fp32": 3.4028234663852886e38,
}  # fmt: skip


@tritium.constexpr_function
def max_finite(dtype):
    """The largest finite number of an element type."""
    return _LARGEST[dtype.name]


@tritium.constexpr_function
def rcp_max_finite(dtype):
    """One over the largest finite number of an element type, rounded to float32."""
    return 1.0 / _LARGEST[dtype.name]


@tritium.jit
def _magnitude(x):
    """The bits of |x|: as integers they are in the order of the numbers, NaN above infinity."""
    return x.to(tl.int32, bitcast=True) & 0x7FFFFFFF


@tritium.jit
def _with_sign(magnitude, a, b):
    sign = (a.to(tl.int32, bitcast=True) ^ b.to(tl.int32, bitcast=True)) & -2147483648
    return (magnitude | sign).to(tl.float32, bitcast=True)


@tritium.jit
def sm86_max_nan_xorsign_abs_f32(a, b):
    """The larger magnitude, with the product's sign; NaN if one is NaN. float32."""
    if is_cuda():
        return tl.inline_asm_elementwise(
            "max.NaN.xorsign.abs.f32 $0, $1, $2;", "=r,r,r", [a, b], tl.float32, True, 1
        )
    else:
        return _with_sign(tl.maximum(_magnitude(a), _magnitude(b)), a, b)


@tritium.jit
def sm86_min_nan_xorsign_abs_f32(a, b):
    """The smaller magnitude, with the product's sign; NaN if one is NaN. float32."""
    if is_cuda():
        return tl.inline_asm_elementwise(
            "min.NaN.xorsign.abs.f32 $0, $1, $2;", "=r,r,r", [a, b], tl.float32, True, 1
        )
    else:
        smaller = tl.minimum(_magnitude(a), _magnitude(b))
        larger = tl.maximum(_magnitude(a), _magnitude(b))
        return _with_sign(tl.where(larger > 0x7F800000, larger, smaller), a, b)


@tritium.jit
def nan_propagating_absmax_reduce(x, axis: tl.constexpr = None):
    """max(|x|) along an axis, or of all; NaN if there is one. float32."""
    bits = _magnitude(x.to(tl.float32))
    if axis is None:
        return tl.max(tl.ravel(bits), 0).to(tl.float32, bitcast=True)
    else:
        return tl.max(bits, axis).to(tl.float32, bitcast=True)


@tritium.jit
def clip(x, limit):
    """x within plus and minus the limit; NaN stays NaN."""
    return tl.clamp(x, -limit, limit, propagate_nan=tl.PropagateNan.ALL)


@tritium.jit
def load_scale(scale_ptr):
    """The value at the pointer; 1 if there is none."""
    if scale_ptr is None:
        return 1.0
    else:
        return tl.load(scale_ptr)


@tritium.jit
def flex_to_float(x, scale_ptr):
    """The numbers that elements stand for, in float32."""
    return x.to(tl.float32) * load_scale(scale_ptr)


@tritium.jit
def compute_scale(x, Out):
    """max(|x|) / the largest number of the type that `Out` points to."""
    return nan_propagating_absmax_reduce(x) * rcp_max_finite(Out.dtype.element_ty)


@tritium.jit
def update_scale(x, scale_ptr, Out):
    """Keep the larger of what the pointer points to and x's scale, if there is a pointer."""
    if scale_ptr is not None:
        # Magnitudes are in the order of their bits: integers have a maximum that knows NaN.
        bits = compute_scale(x, Out).to(tl.int32, bitcast=True)
        tl.atomic_max(scale_ptr.to(tl.pointer_type(tl.int32), bitcast=True), bits, sem="relaxed")


@tritium.jit
def float_to_flex(
    x, expected_scale_ptr_or_val, actual_scale_ptr, checksum_scale_ptr, mask, Out,
    saturate_infs: tl.constexpr,
):  # fmt: skip
    """x (float32) over the expected scale, to be stored to `Out`; actual scale and checksum of x
    where `mask` (None: everywhere) are updated."""
    if actual_scale_ptr is not None or checksum_scale_ptr is not None:
        counted = x if mask is None else tl.where(mask, x, 0.0)
        update_scale(counted, actual_scale_ptr, Out)
        if checksum_scale_ptr is not None:
            checksum = tl.xor_sum(tl.ravel(counted.to(tl.int32, bitcast=True)), 0)
            tl.atomic_add(checksum_scale_ptr, checksum, sem="relaxed")
    if expected_scale_ptr_or_val is not None:
        if expected_scale_ptr_or_val.dtype.is_ptr():
            x = x / tl.load(expected_scale_ptr_or_val)
        else:
            x = x / expected_scale_ptr_or_val
    if saturate_infs:
        x = clip(x, max_finite(Out.dtype.element_ty))
    return x
