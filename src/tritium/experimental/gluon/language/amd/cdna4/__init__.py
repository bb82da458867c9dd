"""CDNA4 (gfx950): what CDNA3 has."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.amd._buffers import *  # noqa: F403
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout
from tritium.experimental.gluon.language.amd._products import check_class, product
from tritium.experimental.gluon.language.amd.cdna4 import async_copy as async_copy
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor

__getattr__ = not_built(
    __name__, "",
    "compute_efficient_padded_shared_layout get_mfma_scale_layout "
    "get_scaled_upcast_fp4_scale_layout load_shared_fp4_repacked mfma_scaled scaled_downcast "
    "scaled_upcast",
)  # fmt: skip


@builtin
def mfma(a: tensor, b: tensor, acc: tensor, cd_regclass: Any = None) -> tensor:
    """`a @ b + acc` by MFMA; as `cdna3.mfma`."""
    check_class(cd_regclass)
    return product("mfma", AMDMFMALayout, (4,), a, b, acc)
