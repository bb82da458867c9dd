"""Blocks of numbers of 4 or 8 bits with a common scale.

MX formats: 32 numbers, the scale is a power of two (E8M0, in uint8). NVFP4 and its like: 16
numbers, the scale is float8 e4m3; a further scale, float32, is one for the whole tensor and is kept
outside of it, as flexpoint scales are.
"""

from __future__ import annotations

from enum import Enum

import torch

import tritium.language as tl
from tritium_kernels.errors import (
    check_choice,
    check_integer,
    check_operand,
    check_tensor,
    check_without_gradient,
    dtype_name,
    refuse,
)
from tritium_kernels.launching.launch import as_rows, cdiv, on
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import mxfp as kernels
from tritium_kernels.moe_kernels.layouts import right_shift_unsigned as right_shift_unsigned
from tritium_kernels.moe_kernels.mxfp import cvt_e2m1_to_fp32 as cvt_e2m1_to_fp32
from tritium_kernels.moe_kernels.mxfp import quantize_e2m1 as quantize_mxfp4_fn
from tritium_kernels.moe_kernels.mxfp import quantize_e4m3 as quantize_mxfp8_fn
from tritium_kernels.moe_kernels.mxfp import quantize_nvfp4 as quantize_nvfp4_fn

__all__ = ["quantize_mxfp4_fn", "quantize_mxfp8_fn", "quantize_nvfp4_fn"]

MXFP_BLOCK_SIZE = tl.constexpr(32)
NVFP_BLOCK_SIZE = tl.constexpr(16)
BLOCK_SIZES = {torch.uint8: MXFP_BLOCK_SIZE.value, torch.float8_e4m3fn: NVFP_BLOCK_SIZE.value}
"""Numbers of a block, by the type of its scale."""

SCALE_TYPES = tuple(BLOCK_SIZES)
_SOURCES = (torch.float16, torch.bfloat16, torch.float32)
_STORED = (torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)
_MOST = {torch.uint8: 6.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_ROWS, _BLOCKS = 4, 8
"""Rows, and blocks of a row, of one program."""


class DequantScaleRoundingMode(Enum):
    """The scale of a block: max(|x|) / largest number, rounded up to a power of two; or
    max(|x|) / largest power of two of the type, rounded down, as in the OCP specification (numbers
    are then cut off at the largest)."""

    ROUND_UP = 0
    ROUND_DOWN = 1


def get_max_quant_val(dtype: torch.dtype) -> float:
    """The largest number of a type; uint8 stands for two e2m1."""
    check_choice("get_max_quant_val", "dtype", dtype, _STORED)
    return _MOST[dtype]


def _check_axis(op: str, x: torch.Tensor, axis: int) -> None:
    check_integer(op, "axis", axis, -x.ndim, x.ndim - 1)


def check_block_size(op: str, name: str, size: int, scale_dtype: torch.dtype) -> None:
    """`size` is that of blocks with a scale of this type."""
    if type(size) is not int or size != BLOCK_SIZES[scale_dtype]:
        accepted = f"{BLOCK_SIZES[scale_dtype]}, for scales of {dtype_name(scale_dtype)}"
        raise refuse(op, name, f"is {size}", accepted)


def _check_down(
    x: torch.Tensor, out_dtype: torch.dtype, axis: int, scale_dtype: torch.dtype, size: int,
    mode: DequantScaleRoundingMode,
) -> None:  # fmt: skip
    op = "downcast_to_mxfp"
    check_tensor(op, "x", x, _SOURCES)
    check_choice(op, "out_dtype", out_dtype, _STORED)
    check_without_gradient(op, x=x)
    _check_axis(op, x, axis)
    check_choice(op, "scale_dtype", scale_dtype, SCALE_TYPES)
    check_block_size(op, "microblock_size", size, scale_dtype)
    if scale_dtype != torch.uint8 and mode is not DequantScaleRoundingMode.ROUND_UP:
        accepted = "ROUND_UP, for scales of float8_e4m3fn"
        raise refuse(op, "DEQUANT_SCALE_ROUNDING_MODE", f"is {mode.name}", accepted)
    if out_dtype == torch.uint8 and x.shape[axis] % 2:
        found = f"has {x.shape[axis]} elements along axis {axis}"
        raise refuse(op, "x", found, "an even number, for two in a byte")


@untraced
def downcast_to_mxfp(
    x: torch.Tensor, out_dtype: torch.dtype, axis: int, scale_dtype: torch.dtype = torch.uint8,
    microblock_size: int = MXFP_BLOCK_SIZE.value,
    DEQUANT_SCALE_ROUNDING_MODE: DequantScaleRoundingMode = DequantScaleRoundingMode.ROUND_UP,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(values, scales) of blocks along `axis`; that axis of the values is adjacent in memory.

    Args:
        out_dtype: float8_e4m3fn, float8_e5m2, or uint8: two e2m1 a byte, the first in the low bits.
        scale_dtype, microblock_size: uint8 (E8M0) and 32, or float8_e4m3fn and 16.
        DEQUANT_SCALE_ROUNDING_MODE: of powers of two; e4m3 scales are the nearest, 448 at most.

    A block with a NaN or an infinity has the largest power of two as its scale, 2**127; its NaNs
    stay NaN in 8 bits, and are 6 in 4 bits, which have no NaN. An e4m3 scale of such a block is
    NaN, its values are 0.
    """
    mode = DEQUANT_SCALE_ROUNDING_MODE
    _check_down(x, out_dtype, axis, scale_dtype, microblock_size, mode)
    moved = x.movedim(axis, -1)
    n = moved.shape[-1]
    packed = out_dtype == torch.uint8
    leading = moved.shape[:-1]
    values = torch.empty((*leading, n // 2 if packed else n), dtype=out_dtype, device=x.device)
    scales = torch.empty((*leading, cdiv(n, microblock_size)), dtype=scale_dtype, device=x.device)
    if values.numel():
        source, target, factors = as_rows(moved), as_rows(values), as_rows(scales)
        rows = source.shape[0]
        with on("downcast_to_mxfp", "x", x):
            kernels.downcast[(cdiv(rows, _ROWS) * cdiv(n, _BLOCKS * microblock_size),)](
                source, target, factors, rows, n, source.stride(0), target.stride(0),
                factors.stride(0), PACKED=packed,
                ROUND_UP=mode is DequantScaleRoundingMode.ROUND_UP, ROWS=_ROWS, BLOCKS=_BLOCKS,
                SIZE=microblock_size, LARGEST=_MOST[out_dtype],
            )  # fmt: skip
    return values.movedim(-1, axis), scales.movedim(-1, axis)


def _check_up(
    tensor: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, axis: int
) -> tuple[int, int]:
    """(the number of elements along the axis, of a block)."""
    op = "upcast_from_mxfp"
    check_tensor(op, "tensor", tensor, _STORED)
    check_choice(op, "target_dtype", dtype, _SOURCES)
    check_without_gradient(op, tensor=tensor, scale=scale)
    _check_axis(op, tensor, axis)
    n = tensor.shape[axis] * (2 if tensor.dtype == torch.uint8 else 1)
    check_tensor(op, "scale", scale, SCALE_TYPES)
    size = BLOCK_SIZES[scale.dtype]
    shape = list(tensor.shape)
    shape[axis] = cdiv(n, size)
    check_operand(op, "scale", scale, shape, "tensor", tensor, SCALE_TYPES)
    return n, size


@untraced
def upcast_from_mxfp(
    tensor: torch.Tensor, scale: torch.Tensor, target_dtype: torch.dtype, axis: int
) -> torch.Tensor:
    """The numbers that `downcast_to_mxfp` stands for; a power of two of 255 gives NaN. Products of
    finite numbers are cut off at the largest number of `target_dtype`."""
    n, size = _check_up(tensor, scale, target_dtype, axis)
    values, scales = tensor.movedim(axis, -1), scale.movedim(axis, -1)
    y = torch.empty((*values.shape[:-1], n), dtype=target_dtype, device=tensor.device)
    if y.numel():
        source, factors, target = as_rows(values), as_rows(scales), as_rows(y)
        rows = source.shape[0]
        with on("upcast_from_mxfp", "tensor", tensor):
            kernels.upcast[(cdiv(rows, _ROWS) * cdiv(n, _BLOCKS * size),)](
                source, factors, target, rows, n, source.stride(0), factors.stride(0),
                target.stride(0), PACKED=tensor.dtype == torch.uint8, ROWS=_ROWS, BLOCKS=_BLOCKS,
                SIZE=size, MOST=torch.finfo(target_dtype).max,
            )  # fmt: skip
    return y.movedim(-1, axis)


def _padded_blocks(x: torch.Tensor, size: int) -> torch.Tensor:
    pad = -x.shape[-1] % size
    x = torch.nn.functional.pad(x, (0, pad))
    return x.unflatten(-1, (x.shape[-1] // size, size))


def downcast_to_mxfp_torch(
    src_tensor: torch.Tensor, out_quant_type: torch.dtype, axis: int,
    scale_dtype: torch.dtype = torch.uint8, microblock_size: int = MXFP_BLOCK_SIZE.value,
    expected_scale: torch.Tensor | None = None,
    DEQUANT_SCALE_ROUNDING_MODE: DequantScaleRoundingMode = DequantScaleRoundingMode.ROUND_UP,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """`downcast_to_mxfp` by torch's functions, for comparison; of src_tensor / expected_scale."""
    mode = DEQUANT_SCALE_ROUNDING_MODE
    _check_down(src_tensor, out_quant_type, axis, scale_dtype, microblock_size, mode)
    most = _MOST[out_quant_type]
    x = src_tensor.movedim(axis, -1).float()
    if expected_scale is not None:
        x = x / expected_scale
    n = x.shape[-1]
    blocks = _padded_blocks(x, microblock_size)
    magnitudes = torch.where(blocks.isnan(), torch.inf, blocks.abs()).amax(-1)
    unit = most if mode is DequantScaleRoundingMode.ROUND_UP else kernels.power_below(most)
    wanted = magnitudes * torch.tensor(1 / unit)
    if scale_dtype == torch.uint8:
        bits = wanted.view(torch.int32)
        if mode is DequantScaleRoundingMode.ROUND_UP:
            bits = bits + 0x7FFFFF
        exponent = (bits >> 23).clamp(max=254)
        scaled = torch.ldexp(blocks.double(), (127 - exponent)[..., None]).float()
        scales = exponent.to(torch.uint8)
    else:
        scales = wanted.clamp(max=448).masked_fill(magnitudes.isinf(), torch.nan).to(scale_dtype)
        factors = scales.float()[..., None]
        scaled = torch.where(factors > 0, blocks / factors, 0.0)
    scaled = scaled.clamp(-most, most).flatten(-2)[..., :n]
    if out_quant_type == torch.uint8:
        table = torch.tensor(_E2M1, device=x.device)
        distance = (scaled.abs()[..., None] - table).abs()
        # Ties go to the even code, which sorts first.
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7], device=x.device)
        code = order[distance[..., order].argmin(-1)]
        code = torch.where(scaled.isnan(), 7, code) | (scaled.signbit().long() << 3)
        values = (code[..., ::2] | (code[..., 1::2] << 4)).to(torch.uint8)
    else:
        values = scaled.to(out_quant_type)
    return values.contiguous().movedim(-1, axis), scales.contiguous().movedim(-1, axis)


def upcast_from_mxfp_torch(
    tensor: torch.Tensor, scale: torch.Tensor, target_dtype: torch.dtype, axis: int
) -> torch.Tensor:
    """`upcast_from_mxfp` by torch's functions, for comparison."""
    n, size = _check_up(tensor, scale, target_dtype, axis)
    x, scales = tensor.movedim(axis, -1), scale.movedim(axis, -1)
    if tensor.dtype == torch.uint8:
        table = torch.tensor([*_E2M1, *(-v for v in _E2M1)], device=x.device)
        numbers = table[torch.stack([x & 15, x >> 4], -1).flatten(-2).long()]
    else:
        numbers = x.float()
    blocks = _padded_blocks(numbers.double(), size)
    if scale.dtype == torch.uint8:
        blocks = torch.ldexp(blocks, (scales.int() - 127)[..., None])
        blocks = torch.where((scales == 255)[..., None], torch.nan, blocks)
    else:
        blocks = blocks * scales.double()[..., None]
    most = torch.finfo(target_dtype).max
    blocks = torch.where(_padded_blocks(numbers, size).isinf(), blocks, blocks.clamp(-most, most))
    return blocks.flatten(-2)[..., :n].to(target_dtype).movedim(-1, axis)
