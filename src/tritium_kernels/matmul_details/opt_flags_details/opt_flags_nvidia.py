"""Sizes of tiles, stages and warps of products on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

from tritium_kernels import target_info
from tritium_kernels.launching.launch import cdiv, power_of_two
from tritium_kernels.launching.overrides import InapplicableConstraint
from tritium_kernels.tensor_details.layout import (
    BlackwellActMXScaleLayout,
    HopperMXScaleLayout,
    layout_of,
)
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata


def is_x_scale_swizzled(precision_config: Any) -> bool:
    """True if a's scales lie as Blackwell's tensor cores read them."""
    return isinstance(layout_of(precision_config.a_mx_scale), BlackwellActMXScaleLayout)


def is_blackwell_mx_lhs_dense_rhs(precision_config: Any, lhs_dtype: Any, rhs_dtype: Any) -> bool:
    """True if Blackwell's tensor cores multiply an a of 8 bits with scales by a b without."""
    return (
        target_info.cuda_capability_geq(10, 0) and precision_config.a_mx_scale is not None
        and precision_config.b_mx_scale is None and lhs_dtype.bitwidth <= 8
        and rhs_dtype.bitwidth >= 8
    )  # fmt: skip


def is_widened_in_registers(precision_config: Any) -> bool:
    """True if b's values are widened by instructions, in the layouts for Hopper."""
    return isinstance(layout_of(precision_config.b_mx_scale), HopperMXScaleLayout)


def has_warp_group_products(arch: Any) -> bool:
    """True for Hopper, whose products of warp groups (wgmma) have 64 rows or a multiple."""
    return int(arch) in range(90, 100)


def compute_widened_block_m(expected: int) -> int:
    """Rows of a tile for slices of `expected` rows on average, where to widen b costs more than
    the product: few slices have more (those of random sizes two standard deviations, the square
    root of the average), as b is widened again for each tile; at most 64, by registers."""
    return max(16, min(power_of_two(expected + 2 * isqrt(expected)), 64))


def compute_rows_and_ends(
    expected: int, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any
) -> tuple[int, int] | None:
    """(rows of a tile, rows that it has beside them at the end of a slice) on Hopper for slices of
    `expected` rows on average, of which those of random sizes have some more: what they have more
    costs as much as it has rows, and b is read once. None: there are tiles alone.

    As measured on an H200 by `benchmarks/experts_ab.py`.
    """
    if precision_config.a_mx_scale is not None or expected <= 48 or lhs_dtype.bitwidth != 16:
        return None
    layout = layout_of(precision_config.b_mx_scale)
    if isinstance(layout, HopperMXScaleLayout):
        return (128, 32) if expected >= 96 and layout.num_warps == 8 else (64, 16)
    if precision_config.b_mx_scale is None and rhs_dtype.bitwidth == 16 and expected < 384:
        return (256, 32) if expected >= 192 else (128, 32)
    return None


def are_paired(block_m: int, tail_m: int, widened: bool) -> bool:
    """True if two programs of four warps are to share a processor: one multiplies while the other
    begins, ends, or waits. Tiles with ends are small enough for that up to 128 rows; where b is
    widened, up to 64."""
    return block_m <= (64 if widened else 128 * (tail_m > 0))


def compute_grid_size(
    routing_data: Any, batch_size: int, m: int, n: int, block_m: int, block_n: int
) -> int:
    """Tiles of a product; `routing_data`: metadata of the slices that rows are in, or None."""
    if routing_data is not None and batch_size == 1:
        down = RaggedTensorMetadata.n_blocks(routing_data.n_slices, m, block_m)
    else:
        down = cdiv(m, block_m)
    return batch_size * down * cdiv(n, block_n)


def compute_block_n(n: int, arch: Any, precision_config: Any) -> tuple[int, int]:
    """(columns of a tile, columns of a tile of persistent programs)."""
    columns = max(16, power_of_two(n))
    layout = layout_of(precision_config.b_mx_scale)
    if isinstance(layout, HopperMXScaleLayout) and layout.num_warps == 4:
        return min(128, columns), min(128, columns)
    # From Hopper on one product of a warp group is up to 256 columns wide.
    wide = 256 if int(arch) in range(90, 120) else 128
    return min(128, columns), min(wide, columns)


def compute_block_k(
    m: int, k: int, is_persistent: bool, lhs_dtype: Any, rhs_dtype: Any, precision_config: Any,
    has_y_acc_in: bool,
) -> int:  # fmt: skip
    """Elements along k of a tile: 128 bytes of the wider operand, a line of shared memory."""
    widest = max(lhs_dtype.bitwidth, rhs_dtype.bitwidth)
    block_k = 1024 // widest
    if lhs_dtype.bitwidth != rhs_dtype.bitwidth:
        # The narrower operand is widened in registers: longer tiles keep its loads wide.
        block_k = min(2 * block_k, 128)
    scaled = precision_config.a_mx_scale is not None or precision_config.b_mx_scale is not None
    if scaled:
        block_k = max(128, min(block_k, 256))
    elif k:
        block_k = min(block_k, max(32, power_of_two(k)))
    return block_k // 2 if has_y_acc_in and is_persistent and block_k > 128 else block_k


def compute_split_k(block_k: int, k: int | None, grid_size: int) -> int:
    """Parts of the sum that give each processor a program, each of at least four tiles."""
    split_k = max(1, target_info.machine().processors // max(1, grid_size))
    if k is None:
        return min(split_k, 4)
    return max(1, min(split_k, cdiv(k, block_k) // 4))


def compute_num_warps(
    block_m: int, block_n: int, is_persistent: bool, precision_config: Any,
    constraints: dict[str, Any],
) -> int:  # fmt: skip
    """Warps of a program; a layout of scales that is made for some prescribes how many there are
    at most."""
    if constraints.get("num_warps") is not None:
        return int(constraints["num_warps"])
    layout = layout_of(precision_config.b_mx_scale)
    if isinstance(layout, HopperMXScaleLayout):
        # A warp that widens twice as many rows reads a's tile half as often.
        return 4 if block_m <= 64 and block_n <= 128 else layout.num_warps
    return max(4, min(8, block_m * block_n // 2048))


def compute_num_stages(
    precision_config: Any, is_persistent: bool, block_m: int, block_n: int, block_k: int,
    out_dtype: Any, lhs_dtype: Any, rhs_dtype: Any, x_transpose: bool,
    epilogue_effective_itemsize: float | None, has_y_acc_in: bool,
    mx_block_size: int | None = None, epilogue_reduction_n: int = 1, *, epilogue_subtile: int,
    occupancy_target: int, w_transpose: bool = False,
) -> int:  # fmt: skip
    """Tiles of the operands that shared memory holds beside what a result needs, 1 to 5."""
    shared = target_info.machine().shared_bytes // occupancy_target
    stage = block_k * (block_m * lhs_dtype.bitwidth + block_n * rhs_dtype.bitwidth) // 8
    scales = cdiv(block_k, mx_block_size) if mx_block_size else 0
    if scales and not target_info.cuda_capability_geq(10, 0):
        # Narrow operands are widened to bfloat16, which takes room but in registers, but one buffer
        # less of them.
        widened = [(block_m, lhs_dtype)]
        if is_widened_in_registers(precision_config):
            shared += block_k * block_n * rhs_dtype.bitwidth // 8 + block_n * scales
        else:
            widened.append((block_n, rhs_dtype))
        for rows, dtype in widened:
            if dtype.bitwidth <= 8:
                shared -= block_k * rows * (16 - dtype.bitwidth) // 8
    if precision_config.a_mx_scale is not None:
        stage += block_m * scales
    if precision_config.b_mx_scale is not None:
        stage += block_n * scales
    if is_persistent:
        # Results leave through shared memory while the next tile is loaded.
        size = epilogue_effective_itemsize or out_dtype.bitwidth / 8
        columns = block_n // epilogue_subtile // epilogue_reduction_n
        shared -= int(block_m * columns * size)
        if has_y_acc_in:
            shared -= int(block_m * columns * 4)
    elif x_transpose or w_transpose:
        shared -= stage // 2  # room to turn a tile around
    return max(1, min(shared // max(1, stage), 5))


def compute_swap_xw(
    precision_config: Any, block_m: int, is_persistent: bool, lhs_dtype: Any, rhs_dtype: Any
) -> bool:
    """True if (b.T @ a.T).T is computed: tensor cores of Blackwell have at least 128 rows, which b
    fills where a tile has few rows of a."""
    scaled = precision_config.b_mx_scale is not None or (
        lhs_dtype.bitwidth == 8 and rhs_dtype.bitwidth == 8
    )
    return bool(
        scaled and block_m <= 64 and is_persistent and target_info.cuda_capability_geq(10, 0)
        and not is_blackwell_mx_lhs_dense_rhs(precision_config, lhs_dtype, rhs_dtype)
    )  # fmt: skip


def is_faster_apart(expected: int, precision_config: Any) -> bool:
    """True where programs whose warps copy or multiply are faster for slices of `expected` rows on
    average, as measured on an H200 by `benchmarks/experts_ab.py`: MXFP4 weights; not bfloat16."""
    return expected >= 48 and is_widened_in_registers(precision_config)


def make_flags_apart(
    make: Callable[..., Any], expected: int, n: int, precision_config: Any,
    constraints: dict[str, Any],
) -> Any:  # fmt: skip
    """The configuration of programs of which one warp group copies, and others multiply, each 64
    columns; `make`: `OptFlags`. Three groups widen MXFP4 weights where they divide the columns."""
    widened = is_widened_in_registers(precision_config)
    block_m = constraints.get("block_m") or (
        256 if expected >= 192 and not widened else 128 if expected >= 96 else 64
    )
    tail_m = constraints.get("tail_m") or (16 if block_m <= 64 else 32)
    three = widened and block_m <= 128 and n % 192 == 0
    block_n = constraints.get("block_n") or (192 if three else 128)
    for name, value, accepted in (
        ("block_m", block_m, (64, 128, 256)), ("tail_m", tail_m, (16, 32, 64)),
        ("block_n", block_n, (128, 192)),
    ):  # fmt: skip
        if value not in accepted:
            names = ", ".join(map(str, accepted))
            raise InapplicableConstraint(f"{name}={value}: with apart {names}")
    return make(
        block_m=block_m, block_n=block_n,
        block_k=128 if widened else 64, num_warps=4, num_stages=1, group_m=1, xcd_swizzle=1,
        w_cache_modifier="", split_k=1, is_persistent=True,
        idle_sms=constraints.get("idle_sms") or 0, epilogue_subtile=1,
        arch=target_info.machine().arch, occupancy_target=1, target_kernel_kwargs={},
        tail_m=tail_m, apart=True,
    )  # fmt: skip
