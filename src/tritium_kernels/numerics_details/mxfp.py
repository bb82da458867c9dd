"""MX formats: blocks of 32 numbers of 4 or 8 bits with a common scale, a power of two (E8M0)."""

from __future__ import annotations

from enum import Enum

import torch

from tritium_kernels.errors import check_choice, check_operand, check_tensor, refuse
from tritium_kernels.launch import as_rows, cdiv, on
from tritium_kernels.moe_kernels import mxfp as kernels
from tritium_kernels.moe_kernels.layouts import right_shift_unsigned as right_shift_unsigned
from tritium_kernels.moe_kernels.mxfp import cvt_e2m1_to_fp32 as cvt_e2m1_to_fp32

MXFP_BLOCK_SIZE = 32
_SOURCES = (torch.float16, torch.bfloat16, torch.float32)
_STORED = (torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)
_MOST = {torch.uint8: 6.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_ROWS, _BLOCKS = 4, 8
"""Rows, and blocks of a row, of one program."""


class DequantScaleRoundingMode(Enum):
    """How max(|x|) / largest number becomes a power of two: to the next above, or below (numbers of
    a block are then cut off at the largest)."""

    ROUND_UP = 0
    ROUND_DOWN = 1


def get_max_quant_val(dtype: torch.dtype) -> float:
    """The largest number of a type; uint8 stands for two e2m1."""
    check_choice("get_max_quant_val", "dtype", dtype, _STORED)
    return _MOST[dtype]


def _check_axis(op: str, x: torch.Tensor, axis: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise refuse(op, "axis", f"is {axis}", f"{-x.ndim} to {x.ndim - 1}")


def _check_format(op: str, scale_dtype: torch.dtype, microblock_size: int) -> None:
    if scale_dtype != torch.uint8:
        raise NotImplementedError(f"{op}: scale_dtype {scale_dtype} is not built; uint8 (E8M0) is")
    if microblock_size != MXFP_BLOCK_SIZE:
        raise NotImplementedError(f"{op}: microblock_size {microblock_size} is not built; 32 is")


def _check_down(
    x: torch.Tensor, out_dtype: torch.dtype, axis: int, scale_dtype: torch.dtype, size: int
) -> None:
    op = "downcast_to_mxfp"
    check_tensor(op, "x", x, _SOURCES)
    check_choice(op, "out_dtype", out_dtype, _STORED)
    _check_axis(op, x, axis)
    _check_format(op, scale_dtype, size)
    if out_dtype == torch.uint8 and x.shape[axis] % 2:
        found = f"has {x.shape[axis]} elements along axis {axis}"
        raise refuse(op, "x", found, "an even number, for two in a byte")


def downcast_to_mxfp(
    x: torch.Tensor, out_dtype: torch.dtype, axis: int, scale_dtype: torch.dtype = torch.uint8,
    microblock_size: int = MXFP_BLOCK_SIZE,
    DEQUANT_SCALE_ROUNDING_MODE: DequantScaleRoundingMode = DequantScaleRoundingMode.ROUND_UP,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(values, scales) of blocks along `axis`; that axis of the values is adjacent in memory.

    Args:
        out_dtype: float8_e4m3fn, float8_e5m2, or uint8: two e2m1 a byte, the first in the low bits.

    A block with a NaN or an infinity has the largest scale, 2**127; its NaNs stay NaN in 8 bits,
    and are 6 in 4 bits, which have no NaN.
    """
    _check_down(x, out_dtype, axis, scale_dtype, microblock_size)
    moved = x.movedim(axis, -1)
    n = moved.shape[-1]
    packed = out_dtype == torch.uint8
    leading = moved.shape[:-1]
    values = torch.empty((*leading, n // 2 if packed else n), dtype=out_dtype, device=x.device)
    scales = torch.empty((*leading, cdiv(n, microblock_size)), dtype=torch.uint8, device=x.device)
    if values.numel():
        source, target, factors = as_rows(moved), as_rows(values), as_rows(scales)
        rows = source.shape[0]
        with on("downcast_to_mxfp", "x", x):
            kernels.downcast[(cdiv(rows, _ROWS) * cdiv(n, _BLOCKS * microblock_size),)](
                source, target, factors, rows, n, source.stride(0), target.stride(0),
                factors.stride(0), PACKED=packed,
                ROUND_UP=DEQUANT_SCALE_ROUNDING_MODE is DequantScaleRoundingMode.ROUND_UP,
                ROWS=_ROWS, BLOCKS=_BLOCKS, SIZE=microblock_size, LARGEST=_MOST[out_dtype],
            )  # fmt: skip
    return values.movedim(-1, axis), scales.movedim(-1, axis)


def _check_up(tensor: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype, axis: int) -> int:
    """The number of elements along the axis."""
    op = "upcast_from_mxfp"
    check_tensor(op, "tensor", tensor, _STORED)
    check_choice(op, "target_dtype", dtype, _SOURCES)
    _check_axis(op, tensor, axis)
    n = tensor.shape[axis] * (2 if tensor.dtype == torch.uint8 else 1)
    shape = list(tensor.shape)
    shape[axis] = cdiv(n, MXFP_BLOCK_SIZE)
    check_operand(op, "scale", scale, shape, "tensor", tensor, (torch.uint8,))
    return n


def upcast_from_mxfp(
    tensor: torch.Tensor, scale: torch.Tensor, target_dtype: torch.dtype, axis: int
) -> torch.Tensor:
    """The numbers that `downcast_to_mxfp` stands for; a scale of 255 gives NaN."""
    n = _check_up(tensor, scale, target_dtype, axis)
    values, scales = tensor.movedim(axis, -1), scale.movedim(axis, -1)
    y = torch.empty((*values.shape[:-1], n), dtype=target_dtype, device=tensor.device)
    if y.numel():
        source, factors, target = as_rows(values), as_rows(scales), as_rows(y)
        rows = source.shape[0]
        with on("upcast_from_mxfp", "tensor", tensor):
            kernels.upcast[(cdiv(rows, _ROWS) * cdiv(n, _BLOCKS * MXFP_BLOCK_SIZE),)](
                source, factors, target, rows, n, source.stride(0), factors.stride(0),
                target.stride(0), PACKED=tensor.dtype == torch.uint8, ROWS=_ROWS, BLOCKS=_BLOCKS,
                SIZE=MXFP_BLOCK_SIZE,
            )  # fmt: skip
    return y.movedim(-1, axis)


def _padded_blocks(x: torch.Tensor, size: int) -> torch.Tensor:
    pad = -x.shape[-1] % size
    x = torch.nn.functional.pad(x, (0, pad))
    return x.unflatten(-1, (x.shape[-1] // size, size))


def downcast_to_mxfp_torch(
    src_tensor: torch.Tensor, out_quant_type: torch.dtype, axis: int,
    scale_dtype: torch.dtype = torch.uint8, microblock_size: int = MXFP_BLOCK_SIZE,
    expected_scale: torch.Tensor | None = None,
    DEQUANT_SCALE_ROUNDING_MODE: DequantScaleRoundingMode = DequantScaleRoundingMode.ROUND_UP,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """`downcast_to_mxfp` by torch's functions, for comparison; of src_tensor / expected_scale."""
    _check_down(src_tensor, out_quant_type, axis, scale_dtype, microblock_size)
    most = _MOST[out_quant_type]
    x = src_tensor.movedim(axis, -1).float()
    if expected_scale is not None:
        x = x / expected_scale
    n = x.shape[-1]
    blocks = _padded_blocks(x, microblock_size)
    magnitudes = torch.where(blocks.isnan(), torch.inf, blocks.abs()).amax(-1)
    bits = (magnitudes * torch.tensor(1 / most)).view(torch.int32)
    if DEQUANT_SCALE_ROUNDING_MODE is DequantScaleRoundingMode.ROUND_UP:
        bits = bits + 0x7FFFFF
    exponent = (bits >> 23).clamp(max=254)
    scaled = torch.ldexp(blocks.double(), (127 - exponent)[..., None]).float().clamp(-most, most)
    scaled = scaled.flatten(-2)[..., :n]
    if out_quant_type == torch.uint8:
        table = torch.tensor(_E2M1, device=x.device)
        distance = (scaled.abs()[..., None] - table).abs()
        # Of two codes that are as near the even one is taken: it sorts first.
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7], device=x.device)
        code = order[distance[..., order].argmin(-1)]
        code = torch.where(scaled.isnan(), 7, code) | (scaled.signbit().long() << 3)
        values = (code[..., ::2] | (code[..., 1::2] << 4)).to(torch.uint8)
    else:
        values = scaled.to(out_quant_type)
    return values.movedim(-1, axis), exponent.to(torch.uint8).movedim(-1, axis)


def upcast_from_mxfp_torch(
    tensor: torch.Tensor, scale: torch.Tensor, target_dtype: torch.dtype, axis: int
) -> torch.Tensor:
    """`upcast_from_mxfp` by torch's functions, for comparison."""
    n = _check_up(tensor, scale, target_dtype, axis)
    x, exponent = tensor.movedim(axis, -1), scale.movedim(axis, -1).int()
    if tensor.dtype == torch.uint8:
        table = torch.tensor([*_E2M1, *(-v for v in _E2M1)], device=x.device)
        numbers = table[torch.stack([x & 15, x >> 4], -1).flatten(-2).long()]
    else:
        numbers = x.float()
    blocks = _padded_blocks(numbers.double(), MXFP_BLOCK_SIZE)
    blocks = torch.ldexp(blocks, (exponent - 127)[..., None])
    blocks = torch.where((exponent == 255)[..., None], torch.nan, blocks)
    return blocks.flatten(-2)[..., :n].to(target_dtype).movedim(-1, axis)
