"""Functions for kernels that read and write numbers with scales; see `tritium_kernels.numerics`."""

from __future__ import annotations

from tritium_kernels.moe_kernels.flexpoint import clip as clip
from tritium_kernels.moe_kernels.flexpoint import compute_scale as compute_scale
from tritium_kernels.moe_kernels.flexpoint import flex_to_float as flex_to_float
from tritium_kernels.moe_kernels.flexpoint import float_to_flex as float_to_flex
from tritium_kernels.moe_kernels.flexpoint import load_scale as load_scale
from tritium_kernels.moe_kernels.flexpoint import max_finite as max_finite
from tritium_kernels.moe_kernels.flexpoint import (
    nan_propagating_absmax_reduce as nan_propagating_absmax_reduce,
)
from tritium_kernels.moe_kernels.flexpoint import rcp_max_finite as rcp_max_finite
from tritium_kernels.moe_kernels.flexpoint import (
    sm86_max_nan_xorsign_abs_f32 as sm86_max_nan_xorsign_abs_f32,
)
from tritium_kernels.moe_kernels.flexpoint import (
    sm86_min_nan_xorsign_abs_f32 as sm86_min_nan_xorsign_abs_f32,
)
from tritium_kernels.moe_kernels.flexpoint import update_scale as update_scale
