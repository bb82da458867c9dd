"""Layouts by the device that is to read them, and names of all layouts."""

from __future__ import annotations

from typing import Any

from tritium_kernels import target_info
from tritium_kernels.tensor_details.layout_details.base import Layout as Layout
from tritium_kernels.tensor_details.layout_details.blackwell_scale import (
    BlackwellActMXScaleLayout as BlackwellActMXScaleLayout,
)
from tritium_kernels.tensor_details.layout_details.blackwell_scale import (
    BlackwellMXScaleLayout as BlackwellMXScaleLayout,
)
from tritium_kernels.tensor_details.layout_details.blackwell_value import (
    BlackwellMXValueLayout as BlackwellMXValueLayout,
)
from tritium_kernels.tensor_details.layout_details.blackwell_value_shuffled import (
    BlackwellMX4ValueShuffledLayout as BlackwellMX4ValueShuffledLayout,
)
from tritium_kernels.tensor_details.layout_details.cdna4_scale import (
    CDNA4MXScaleLayout as CDNA4MXScaleLayout,
)
from tritium_kernels.tensor_details.layout_details.gfx1250_scale import (
    GFX1250MXScaleLayout as GFX1250MXScaleLayout,
)
from tritium_kernels.tensor_details.layout_details.hopper_scale import (
    HopperMXScaleLayout as HopperMXScaleLayout,
)
from tritium_kernels.tensor_details.layout_details.hopper_value import (
    HopperMXValueLayout as HopperMXValueLayout,
)
from tritium_kernels.tensor_details.layout_details.strided import StridedLayout as StridedLayout


def layout_of(x: Any) -> Layout | None:
    """The layout of a `Tensor`; None for torch's tensors, and where there is none."""
    storage = getattr(x, "storage", None)
    return getattr(storage, "layout", None)


def make_default_matmul_mxfp4_w_layout(
    mx_axis: int, allow_blackwell_value_shuffle: bool = False, block_k: int = 128,
    block_n: int = 256,
) -> Layout:  # fmt: skip
    """The layout of FP4 values of b for the current device; k runs along `mx_axis`."""
    if target_info.cuda_capability_geq(10, 0):
        if allow_blackwell_value_shuffle:
            return BlackwellMX4ValueShuffledLayout(block_k, block_n)
        return BlackwellMXValueLayout()
    if target_info.cuda_capability_geq(9, 0):
        return HopperMXValueLayout(mx_axis, mma_version=3)
    if target_info.cuda_capability_geq(8, 0):
        return HopperMXValueLayout(mx_axis, mma_version=2)
    return StridedLayout(mx_axis)


def make_default_matmul_mxfp4_w_scale_layout(mx_axis: int, num_warps: int = 8) -> Layout:
    """The layout of the scales of FP4 b for the current device, whose programs have `num_warps`
    warps."""
    if target_info.get_cdna_version() == 4:
        return CDNA4MXScaleLayout()
    if target_info.machine().arch == "gfx1250":
        return GFX1250MXScaleLayout()
    if target_info.cuda_capability_geq(10, 0):
        return BlackwellMXScaleLayout()
    if target_info.cuda_capability_geq(8, 0):
        return HopperMXScaleLayout(mx_axis, num_warps)
    return StridedLayout(-1)


def make_default_matmul_mx_act_scale_layout(ragged_metadata: Any) -> Layout:
    """The layout of the scales of a for the current device; `ragged_metadata`: of its rows, or
    None."""
    if target_info.cuda_capability_geq(10, 0):
        return BlackwellActMXScaleLayout(ragged_metadata)
    return StridedLayout(-1)


def make_default_matmul_mxfp8_act_scale_layout(ragged_metadata: Any) -> Layout:
    """The same for an a of 8 bits: the layout depends on the scales alone."""
    return make_default_matmul_mx_act_scale_layout(ragged_metadata)
