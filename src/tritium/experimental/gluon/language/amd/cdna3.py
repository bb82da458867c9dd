"""CDNA3 (gfx942): MFMA on operands in registers, buffer instructions."""

from __future__ import annotations

from tritium.experimental.gluon.language.amd._buffers import *  # noqa: F403
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout
from tritium.experimental.gluon.language.amd._matmul import in_registers, product
from tritium.experimental.gluon.language.amd._upcast import (
    get_scaled_upcast_fp4_scale_layout as get_scaled_upcast_fp4_scale_layout,
)
from tritium.experimental.gluon.language.amd._upcast import scaled_upcast as scaled_upcast
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor


@builtin
def mfma(a: tensor, b: tensor, acc: tensor, cd_regclass: str | None = None) -> tensor:
    """`a @ b + acc` by MFMA. `acc` has an `AMDMFMALayout`, the operands a `DotOperandLayout` of
    it. `cd_regclass`: the registers of the sums, "a" (AGPRs) or "v" (VGPRs). Raises `ValueError`
    for others."""
    return in_registers(product("mfma", AMDMFMALayout, (1, 2, 3, 4), a, b, acc), cd_regclass)
