"""Ampere (sm_80): copies from global to shared memory that go on while the kernel computes,
mbarriers, and tensor cores that take their operands from registers."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._layouts import DotOperandLayout, NVMMADistributedLayout
from tritium.experimental.gluon.language.nvidia._cache_policy import CachePolicy as CachePolicy
from tritium.experimental.gluon.language.nvidia._cache_policy import (
    FractionalEvictionPolicy as FractionalEvictionPolicy,
)
from tritium.experimental.gluon.language.nvidia.ampere import async_copy as async_copy
from tritium.experimental.gluon.language.nvidia.ampere import mbarrier as mbarrier
from tritium.language import core as tl
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor

__all__ = ["async_copy", "mbarrier", "mma_v2"]


def check_operand(name: str, value: Any, index: int, parent: NVMMADistributedLayout) -> None:
    """Raise `ValueError` for an operand in registers that is none of the product's."""
    layout = getattr(value.type, "layout", None)
    fits = isinstance(layout, DotOperandLayout) and layout.parent == parent
    if not fits or layout.operand_index != index:  # pyright: ignore
        raise ValueError(
            f"{name}: operand {index} has {layout}; a DotOperandLayout({index}, {parent}, ...) is "
            "required"
        )


@builtin
def mma_v2(a: tensor, b: tensor, acc: tensor, input_precision: Any = None) -> tensor:
    """`a @ b + acc` by mma.sync. `acc` has an `NVMMADistributedLayout` of version [2, 0], the
    operands a `DotOperandLayout` of it, with one `k_width`. Raises `ValueError` for others."""
    layout = getattr(acc.type, "layout", None)
    if not isinstance(layout, NVMMADistributedLayout) or layout.version != [2, 0]:
        raise ValueError(
            f"mma_v2: acc has {layout}; an NVMMADistributedLayout of version [2, 0] is required"
        )
    for index, operand in enumerate((a, b)):
        check_operand("mma_v2", operand, index, layout)
    widths = [x.type.layout.k_width for x in (a, b)]  # pyright: ignore
    if widths[0] != widths[1]:
        raise ValueError(f"mma_v2: operands with k_width {widths[0]} and {widths[1]}; one is "
                         "required, so that both have the same elements along K")  # fmt: skip
    return tl.dot(a, b, acc, input_precision=input_precision, out_dtype=acc.dtype)
