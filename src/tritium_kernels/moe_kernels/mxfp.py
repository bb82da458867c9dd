"""Conversion to and from blocks of small floating-point numbers with a common scale: a power of
two (E8M0, blocks of 32), or a number of float8 e4m3 (blocks of 16)."""

from __future__ import annotations

import math
from typing import Any

import tritium
import tritium.language as tl


@tritium.jit
def to_e2m1(x):
    """The 4-bit code of numbers within -6 and 6: nearest, ties to even.

    The magnitudes are 0, .5, 1, 1.5, 2, 3, 4, 6. A magnitude below 1 is a multiple of .5; above,
    the mantissa is cut to one bit. NaN has no code: it becomes 6.
    """
    bits = x.to(tl.uint32, bitcast=True)
    sign = (bits >> 28) & 8
    magnitude = bits & 0x7FFFFFFF
    small = (tl.abs(x) * 2 + 8388608.0).to(tl.uint32, bitcast=True) & 3
    # Half of the last kept place, less one if that place is even, carries into it.
    large = ((magnitude + 0x1FFFFF + ((magnitude >> 22) & 1)) >> 22) - ((127 - 1) << 1)
    code = tl.where(magnitude < 0x3F800000, small, tl.minimum(large, 7))
    return (sign | code).to(tl.uint8)


@tritium.jit
def from_e2m1(code):
    """float32 of 4-bit codes."""
    code = code.to(tl.uint32)
    exponent = (code >> 1) & 3
    mantissa = code & 1
    normal = ((exponent + 126) << 23) | (mantissa << 22)
    small = tl.where(mantissa != 0, 0x3F000000, 0).to(tl.uint32)
    bits = tl.where(exponent == 0, small, normal) | ((code & 8) << 28)
    return bits.to(tl.float32, bitcast=True)


@tritium.jit
def cvt_e2m1_to_fp32(input_tensor):
    """float32 (..., 2 * bytes) of bytes with two codes each, the first in the low bits."""
    RANK: tl.constexpr = len(input_tensor.shape)
    y = tl.join(from_e2m1(input_tensor & 15), from_e2m1(input_tensor >> 4))
    return tl.reshape(y, (*input_tensor.shape[: RANK - 1], 2 * input_tensor.shape[RANK - 1]))


@tritium.constexpr_function
def power_below(number: float) -> float:
    """The largest power of two that is no more than a number."""
    return 2.0 ** (math.frexp(number)[1] - 1)


@tritium.jit
def quantize(
    x, PACKED: tl.constexpr, ROUND_UP: tl.constexpr, SIZE: tl.constexpr, LARGEST: tl.constexpr
):
    """(values, scales) of blocks of SIZE columns; values are within +-LARGEST, in float32, or two
    codes of e2m1 a byte. Scales of blocks of 32 are exponents + 127, of 16 they are e4m3."""
    ROWS: tl.constexpr = x.shape[0]
    COLUMNS: tl.constexpr = x.shape[1]
    x = tl.reshape(x.to(tl.float32), (ROWS, COLUMNS // SIZE, SIZE))
    magnitudes = tl.where(x != x, float("inf"), tl.abs(x))
    UNIT: tl.constexpr = LARGEST if ROUND_UP else power_below(LARGEST)
    wanted = tl.max(magnitudes, 2) * (1.0 / UNIT)
    if SIZE == 16:
        scale = tl.where(wanted == float("inf"), float("nan"), tl.minimum(wanted, 448.0))
        scale = scale.to(tl.float8e4nv)
        factor = tl.broadcast_to(scale.to(tl.float32)[:, :, None], x.shape)
        x = tl.where(factor > 0, tl.div_rn(x, factor), 0.0)
    else:
        bits = wanted.to(tl.uint32, bitcast=True)
        if ROUND_UP:
            bits += 0x7FFFFF
        exponent = tl.minimum(bits >> 23, 254)
        scale = exponent.to(tl.uint8)
        # 2**(127 - exponent), in two factors: one alone may not be a normal number.
        half = (254 - exponent) // 2
        factor = (((254 - exponent) - half + 64) << 23).to(tl.float32, bitcast=True)
        other = ((half + 63) << 23).to(tl.float32, bitcast=True)
        x = x * factor[:, :, None] * other[:, :, None]
    x = tl.clamp(x, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)
    if PACKED:
        low, high = tl.split(tl.reshape(to_e2m1(x), (ROWS, COLUMNS // 2, 2)))
        return low | (high << 4), scale
    else:
        return tl.reshape(x, (ROWS, COLUMNS)), scale


@tritium.jit
def quantize_e4m3(x):
    """`quantize` for float8_e4m3fn, blocks of 32, scales rounded up."""
    return quantize(x, False, True, 32, 448.0)


@tritium.jit
def quantize_e5m2(x):
    """`quantize` for float8_e5m2, blocks of 32, scales rounded up."""
    return quantize(x, False, True, 32, 57344.0)


@tritium.jit
def quantize_e2m1(x):
    """`quantize` for two e2m1 a byte, blocks of 32, scales rounded up."""
    return quantize(x, True, True, 32, 6.0)


@tritium.jit
def quantize_nvfp4(x):
    """`quantize` for two e2m1 a byte, blocks of 16, scales of e4m3."""
    return quantize(x, True, True, 16, 6.0)


@tritium.jit
def downcast(
    x_ptr, y_ptr, s_ptr, rows, columns, x_stride, y_stride, s_stride,
    PACKED: tl.constexpr, ROUND_UP: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr,
    SIZE: tl.constexpr, LARGEST: tl.constexpr,
):  # fmt: skip
    """Rows of x in blocks of SIZE: scale * y, see `from_scale`."""
    across = tl.cdiv(columns, BLOCKS * SIZE)
    pid = tl.program_id(0)
    row = ((pid // across) * ROWS + tl.arange(0, ROWS))[:, None].to(tl.int64)
    first = (pid % across) * BLOCKS
    c = first * SIZE + tl.arange(0, BLOCKS * SIZE)[None, :]
    mask = (row < rows) & (c < columns)
    x = tl.load(x_ptr + row * x_stride + c, mask=mask, other=0.0).to(tl.float32)
    y, scale = quantize(x, PACKED, ROUND_UP, SIZE, LARGEST)
    b = first + tl.arange(0, BLOCKS)[None, :]
    inside = (row < rows) & (b * SIZE < columns)
    tl.store(s_ptr + row * s_stride + b, scale, mask=inside)
    if PACKED:
        c = first * (SIZE // 2) + tl.arange(0, BLOCKS * SIZE // 2)[None, :]
        mask = (row < rows) & (c * 2 < columns)
    tl.store(y_ptr + row * y_stride + c, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def from_scale(scale):
    """float32 of scales: of E8M0 in uint8 2**(scale - 127), NaN for 255; of e4m3 the number."""
    if scale.dtype == tl.uint8:
        exponent = scale.to(tl.uint32)
        # The scale 2**-127 is no normal number: half of twice that.
        low = exponent == 0
        factor = (tl.where(low, 1, exponent) << 23).to(tl.float32, bitcast=True)
        return tl.where(exponent == 255, float("nan"), tl.where(low, factor * 0.5, factor))
    else:
        return scale.to(tl.float32)


@tritium.constexpr_function
def block_of(scale: Any) -> int:
    """Numbers of a block, of a tensor of scales or a pointer to them."""
    kind = scale.dtype.element_ty if scale.dtype.is_ptr() else scale.dtype
    return 32 if kind == tl.uint8 else 16


@tritium.jit
def upcast(
    x_ptr, s_ptr, y_ptr, rows, columns, x_stride, s_stride, y_stride,
    PACKED: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr, SIZE: tl.constexpr,
    MOST: tl.constexpr,
):  # fmt: skip
    """x times the scale of its block, of finite x within +-MOST."""
    across = tl.cdiv(columns, BLOCKS * SIZE)
    pid = tl.program_id(0)
    row = ((pid // across) * ROWS + tl.arange(0, ROWS))[:, None].to(tl.int64)
    first = (pid % across) * BLOCKS
    c = first * SIZE + tl.arange(0, BLOCKS * SIZE)[None, :]
    if PACKED:
        half_c = first * (SIZE // 2) + tl.arange(0, BLOCKS * SIZE // 2)[None, :]
        inside = (row < rows) & (half_c * 2 < columns)
        codes = tl.load(x_ptr + row * x_stride + half_c, mask=inside, other=0)
        x = tl.reshape(cvt_e2m1_to_fp32(codes), (ROWS, BLOCKS, SIZE))
    else:
        mask = (row < rows) & (c < columns)
        x = tl.load(x_ptr + row * x_stride + c, mask=mask, other=0.0).to(tl.float32)
        x = tl.reshape(x, (ROWS, BLOCKS, SIZE))
    b = first + tl.arange(0, BLOCKS)[None, :]
    inside = (row < rows) & (b * SIZE < columns)
    scale = from_scale(tl.load(s_ptr + row * s_stride + b, mask=inside, other=0))
    y = x * scale[:, :, None]
    cut = tl.clamp(y, -MOST, MOST, propagate_nan=tl.PropagateNan.ALL)
    y = tl.reshape(tl.where(tl.abs(x) == float("inf"), y, cut), (ROWS, BLOCKS * SIZE))
    mask = (row < rows) & (c < columns)
    tl.store(y_ptr + row * y_stride + c, y.to(y_ptr.dtype.element_ty), mask=mask)
