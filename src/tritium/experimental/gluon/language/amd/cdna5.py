"""CDNA5 (gfx1250): WMMA on operands in registers, buffer instructions."""

from __future__ import annotations

from tritium.experimental.gluon.language._not_built import not_built
from tritium.experimental.gluon.language.amd._buffers import buffer_load, buffer_store
from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout
from tritium.experimental.gluon.language.amd._products import product
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor

__all__ = ["buffer_load", "buffer_store", "wmma"]

__getattr__ = not_built(
    __name__, "PartitionedSharedLayout",
    "get_scaled_upcast_fp4_scale_layout get_wmma_scale_layout load_shared_fp4_repacked "
    "make_partitioned_dot_layouts scaled_downcast scaled_upcast wmma_scaled",
)  # fmt: skip


@builtin
def wmma(a: tensor, b: tensor, acc: tensor) -> tensor:
    """`a @ b + acc` by WMMA. `acc` has an `AMDWMMALayout` of version 3, the operands a
    `DotOperandLayout` of it. Raises `ValueError` for other layouts."""
    return product("wmma", AMDWMMALayout, (3,), a, b, acc)
