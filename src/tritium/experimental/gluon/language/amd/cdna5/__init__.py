"""CDNA5 (gfx1250): WMMA on operands in registers, with scales or without, buffer instructions,
asynchronous copies, of tensors' blocks too, barriers."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.amd._buffers import buffer_load, buffer_store
from tritium.experimental.gluon.language.amd._downcast import scaled_downcast as scaled_downcast
from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout
from tritium.experimental.gluon.language.amd._matmul import product, scaled_product
from tritium.experimental.gluon.language.amd._matmul import scale_layout as get_wmma_scale_layout
from tritium.experimental.gluon.language.amd._repacked import (
    load_shared_fp4_repacked as load_shared_fp4_repacked,
)
from tritium.experimental.gluon.language.amd._upcast import (
    get_scaled_upcast_fp4_scale_layout as get_scaled_upcast_fp4_scale_layout,
)
from tritium.experimental.gluon.language.amd._upcast import scaled_upcast as scaled_upcast
from tritium.experimental.gluon.language.amd.cdna5 import async_copy as async_copy
from tritium.experimental.gluon.language.amd.cdna5 import cluster as cluster
from tritium.experimental.gluon.language.amd.cdna5 import mbarrier as mbarrier
from tritium.experimental.gluon.language.amd.cdna5 import tdm as tdm
from tritium.experimental.gluon.language.amd.cdna5._layouts import (
    PartitionedSharedLayout,
    make_partitioned_dot_layouts,
)
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor

__all__ = [
    "PartitionedSharedLayout",
    "async_copy",
    "buffer_load",
    "buffer_store",
    "cluster",
    "get_wmma_scale_layout",
    "make_partitioned_dot_layouts",
    "mbarrier",
    "tdm",
    "wmma",
    "wmma_scaled",
]  # fmt: skip


@builtin
def wmma(a: tensor, b: tensor, acc: tensor) -> tensor:
    """`a @ b + acc` by WMMA. `acc` has an `AMDWMMALayout` of version 3, the operands a
    `DotOperandLayout` of it. Raises `ValueError` for other layouts."""
    return product("wmma", AMDWMMALayout, (3,), a, b, acc)


@builtin
def wmma_scaled(
    a: tensor, a_scale: Any, a_format: str, b: tensor, b_scale: Any, b_format: str, acc: tensor
) -> tensor:
    """`(a * a_scale) @ (b * b_scale) + acc` by WMMA; arguments as of `cdna4.mfma_scaled`. `acc` has
    an `AMDWMMALayout` of version 3, scales the layout of `get_wmma_scale_layout`."""
    given = (a, b), (a_scale, b_scale), (a_format, b_format)
    return scaled_product("wmma_scaled", AMDWMMALayout, 3, *given, acc)
