"""Operands of two e2m1 numbers a byte that are packed along rows or columns, as products take them:
packed along K."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._core import checked
from tritium.experimental.gluon.language._layouts import DotOperandLayout
from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout, AMDWMMALayout
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int8, uint8
from tritium.ops import ttgir


@builtin
def load_shared_fp4_repacked(mem_desc: Any, layout: Any) -> tensor:
    """The contents of shared memory, bytes of two e2m1 numbers along M (of the right operand N), as
    an operand in the `DotOperandLayout`, whose bytes have two numbers along K. Raises `TypeError`
    for other memory and layouts, `ValueError` for an odd number of bytes along K."""
    name = "load_shared_fp4_repacked"
    if not isinstance(mem_desc, shared_memory_descriptor) or mem_desc.dtype not in (int8, uint8):
        raise TypeError(f"{name}: {mem_desc!r}; shared memory of bytes is required")
    parent = getattr(layout, "parent", None)
    fits = isinstance(layout, DotOperandLayout) and len(mem_desc.shape) in (2, 3)
    if not fits or not isinstance(parent, (AMDMFMALayout, AMDWMMALayout)):
        raise TypeError(f"{name}: {layout} for {mem_desc!r}; a DotOperandLayout of AMD's matrix "
                        "units, for matrices, is required")  # fmt: skip
    k = -2 if layout.operand_index == 1 else -1
    shape = list(mem_desc.shape)
    if shape[k] % 2:
        raise ValueError(f"{name}: {shape[k]} bytes along K of {mem_desc!r}; an even number is "
                         "required")  # fmt: skip
    shape[k], shape[-3 - k] = shape[k] // 2, 2 * shape[-3 - k]
    type = checked(layout, shape, mem_desc.dtype)
    memory: Any = mem_desc
    return build(
        ttgir.LocalLoadPackedTransposedOp, memory, None, like=mem_desc.dtype, result=type.to_ir()
    )
