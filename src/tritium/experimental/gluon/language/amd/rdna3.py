"""RDNA3 (gfx11): WMMA on operands in registers."""

from __future__ import annotations

from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout
from tritium.experimental.gluon.language.amd._matmul import product
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor


@builtin
def wmma(a: tensor, b: tensor, acc: tensor) -> tensor:
    """`a @ b + acc` by WMMA. `acc` has an `AMDWMMALayout` of version 1, the operands a
    `DotOperandLayout` of it. Raises `ValueError` for other layouts."""
    return product("wmma", AMDWMMALayout, (1,), a, b, acc)
