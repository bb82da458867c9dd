"""Products by AMD's matrix units, of operands in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.experimental.gluon.language._layouts import DotOperandLayout
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout, AMDWMMALayout
from tritium.language import core as tl
from tritium.language.values.tensor import tensor


def product(
    name: str, kind: type[AMDMFMALayout | AMDWMMALayout], versions: Sequence[int], a: tensor,
    b: tensor, acc: tensor,
) -> tensor:  # fmt: skip
    """`a @ b + acc`. Raises `ValueError` for other layouts than those of the matrix unit."""
    layout = getattr(acc.type, "layout", None)
    if not isinstance(layout, kind) or layout.version not in versions:
        wanted = " or ".join(map(str, versions))
        raise ValueError(
            f"{name}: acc has {layout}; an {kind.__name__} of version {wanted} is required"
        )
    for index, operand in enumerate((a, b)):
        found = getattr(operand.type, "layout", None)
        fits = isinstance(found, DotOperandLayout) and found.parent == layout
        if not fits or found.operand_index != index:  # pyright: ignore
            raise ValueError(
                f"{name}: operand {index} has {found}; a DotOperandLayout({index}, {layout}, ...) "
                "is required"
            )
    return tl.dot(a, b, acc, input_precision="ieee", out_dtype=acc.dtype)


def check_class(value: Any) -> None:
    """Raise `NotImplementedError` where a program chooses the class of registers of sums."""
    if value is not None:
        raise NotImplementedError("mfma(cd_regclass=...) is not built")
