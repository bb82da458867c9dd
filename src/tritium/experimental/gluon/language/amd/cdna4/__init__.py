"""CDNA4 (gfx950): what CDNA3 has; products of operands with scales, asynchronous copies."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.amd._buffers import *  # noqa: F403
from tritium.experimental.gluon.language.amd._downcast import scaled_downcast as scaled_downcast
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout
from tritium.experimental.gluon.language.amd._matmul import (
    in_registers,
    scale_layout,
    scaled_product,
)
from tritium.experimental.gluon.language.amd._repacked import (
    load_shared_fp4_repacked as load_shared_fp4_repacked,
)
from tritium.experimental.gluon.language.amd._upcast import (
    get_scaled_upcast_fp4_scale_layout as get_scaled_upcast_fp4_scale_layout,
)
from tritium.experimental.gluon.language.amd._upcast import scaled_upcast as scaled_upcast
from tritium.experimental.gluon.language.amd.cdna3 import mfma as mfma
from tritium.experimental.gluon.language.amd.cdna4 import async_copy as async_copy
from tritium.experimental.gluon.language.amd.cdna4._padding import (
    compute_efficient_padded_shared_layout as compute_efficient_padded_shared_layout,
)
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor

get_mfma_scale_layout = scale_layout


@builtin
def mfma_scaled(
    a: tensor, a_scale: Any, a_format: str, b: tensor, b_scale: Any, b_format: str, acc: tensor,
    cd_regclass: str | None = None,
) -> tensor:  # fmt: skip
    """`(a * a_scale) @ (b * b_scale) + acc` by MFMA.

    Args:
        a, b: in a `DotOperandLayout` of `acc`'s layout; of "e2m1" bytes with two elements along K.
        a_scale, b_scale: bytes (powers of two, 127 is 1), one for 32 elements along K, in the
            layout of `get_mfma_scale_layout`; one number for all; or None.
        a_format, b_format: "e2m1", "e4m3" or "e5m2".
        acc: float32 in an `AMDMFMALayout` of version 4.
        cd_regclass: as of `mfma`.

    Raises `ValueError` for other layouts.
    """
    given = (a, b), (a_scale, b_scale), (a_format, b_format)
    result = scaled_product("mfma_scaled", AMDMFMALayout, 4, *given, acc)
    return in_registers(result, cd_regclass)
