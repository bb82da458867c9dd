"""Launches of products whose warps copy or multiply (`moe_kernels/apart.py`): which products they
are for, and how much of a program's memory and registers each part has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium_kernels import target_info
from tritium_kernels.launching.launch import cdiv, on, power_of_two, processors
from tritium_kernels.matmul_details.operands import OP, Operand
from tritium_kernels.matmul_details.opt_flags import OptFlags
from tritium_kernels.matmul_details.opt_flags_details.opt_flags_nvidia import (
    has_warp_group_products,
)
from tritium_kernels.moe_kernels import apart as kernels

_HALVES = (torch.bfloat16, torch.float16)
_MOST_SLICES = 4096
_REGISTERS = {(2, 256): (232, 40), (2, 0): (216, 56), (3, 64): (144, 72), (3, 0): (160, 32)}
"""Registers of a thread that multiplies and of one that copies, by warp groups that multiply and
rows of a tile; 0: any others."""


def _reads_words(w: Operand) -> bool:
    return w.layout_name == "HOPPER_VALUE" and w.scale_layout_name == "HOPPER_SCALE"


def _takes_operands(x: Operand, w: Operand, k: int) -> bool:
    """True for rows that 16 bytes can be copied of, and weights that are words or blocks."""
    if x.data.dtype not in _HALVES or x.scale is not None or x.data.ndim != 2:
        return False
    reach = sum((n - 1) * s for n, s in zip(x.data.shape, x.data.stride(), strict=True))
    if x.data.stride(1) != 1 or x.data.stride(0) % 8 or x.data.data_ptr() % 16 or reach >= 1 << 31:
        return False
    if w.data.ndim != 3 or w.data.stride(2) != 1 or w.data.data_ptr() % 16:
        return False
    if _reads_words(w):
        return x.data.dtype == torch.bfloat16 and w.data.stride(1) % 16 == 0
    return (
        w.layout is None and w.scale is None and w.data.dtype == x.data.dtype and k % 64 == 0
        and w.data.stride(1) % 8 == 0 and w.data.stride(0) == k * w.data.stride(1)
    )  # fmt: skip


def can_be_apart(call: Any, out_dtype: torch.dtype) -> bool:
    """True for products of slices of rows whose results are changed by bias and factors alone."""
    config, flex = call.config, call.config.flex_ctx
    if not target_info.is_cuda() or not has_warp_group_products(target_info.machine().arch):
        return False
    functions = call.activation.specs.fn, call.epilogue.specs.fn, call.comm, call.acc, call.alpha
    scales = (
        call.x.flex.scale, call.w.flex.scale, flex.out_data.expected_scale,
        flex.out_data.actual_scale, flex.out_data.checksum_scale, config.c_mx_scale,
        config.report_quantization_err_fn, config.max_num_imprecise_acc,
    )  # fmt: skip
    return (
        call.a_ragged is not None and call.b_ragged is None and not call.given
        and call.size.batch == 1 and 0 < call.a_ragged.n_slices <= _MOST_SLICES
        and out_dtype in _HALVES and not any(given is not None for given in (*functions, *scales))
        and config.acc_scale == 1.0 and not config.enforce_bitwise_invariance
        and (call.bias is None or call.bias.stride(-1) == 1)
        and call.size.n % 8 == 0 and call.size.k > 0
        and _takes_operands(call.x, call.w, call.size.k)
    )  # fmt: skip


def _stages(flags: OptFlags, words: bool) -> tuple[int, int]:
    """Buffers of x, each of 64 elements along k, and of the weights."""
    groups = flags.block_n // 64
    left = target_info.machine().shared_bytes - groups * 64 * 64 * 2 - 512
    of_x = (flags.block_m + flags.tail_m) * 128
    if not words:
        both = max(2, min(8, left // (of_x + groups * 64 * 64 * 2)))
        return both, both
    of_w = 3 if flags.block_m == 256 else 4
    return max(2, min(8, (left - of_w * groups * 64 * 17 * 4) // of_x)), of_w


def launch_apart(call: Any, flags: OptFlags, y: Tensor) -> None:
    """Compute the product into y."""
    x, w, size, ragged = call.x, call.w, call.size, call.a_ragged
    words, groups, slices = _reads_words(w), flags.block_n // 64, ragged.n_slices
    work = torch.empty(
        (1 + slices + size.m // flags.block_m, 4), dtype=torch.int32, device=y.device
    )
    if words:
        values, scales = w.data.view(torch.uint32), w.scale.view(torch.uint32)
        weights = kernels.Weights(
            values, values.stride(0), values.stride(1), scales, scales.stride(0), scales.stride(1)
        )
    else:
        blocks = TensorDescriptor.from_tensor(
            w.data.reshape(-1, size.n), [64, 64], gl.NVMMASharedLayout(128, 16)
        )
        weights = kernels.Weights(blocks, 0, 0, None, 0, 0)
    bias, rows = call.bias, call.rows
    target = kernels.Target(
        y, y.stride(-2), rows.scatter, bias,
        0 if bias is None or bias.ndim == 1 else bias.stride(0), rows.betas, rows.gammas,
    )  # fmt: skip
    x_stages, w_stages = _stages(flags, words)
    registers, own = _REGISTERS.get((groups, flags.block_m)) or _REGISTERS[groups, 0]
    with on(OP, "a", y):
        kernels.list_blocks[(1,)](
            ragged.slice_sizes, ragged.slice_offs, work, slices, ROWS=flags.block_m,
            TAIL=flags.tail_m, SLICES=max(32, power_of_two(slices)), num_warps=4,
        )  # fmt: skip
        kernels.matmul_apart[(processors(y.device) - flags.idle_sms,)](
            x.data, x.data.stride(0), rows.gather, weights, target, work, size.k, size.n,
            ROWS=flags.block_m, TAIL=flags.tail_m, GROUPS=groups, X=x_stages, W=w_stages,
            REGISTERS=registers, OWN=own, ODD=cdiv(size.k, 64) % 2 > 0, EVEN_K=size.k % 64 == 0,
            num_warps=flags.num_warps,
        )  # fmt: skip
