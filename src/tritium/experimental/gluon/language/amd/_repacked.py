"""Operands of two e2m1 numbers a byte that are packed along rows or columns, as products take them:
packed along K."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._core import convert_layout
from tritium.experimental.gluon.language._layouts import BlockedLayout, DotOperandLayout
from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout, AMDWMMALayout
from tritium.language import core as tl
from tritium.language import emitter
from tritium.language.decorators import builtin
from tritium.language.jit.function import device_function
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int8, uint8


@device_function
def _along_k(bytes: Any, halves: Any, turned: Any) -> Any:
    """Bytes (rows / 2, K) of numbers packed along rows as bytes (rows, K / 2); `halves`: the shape
    (rows / 2, K / 2, 2). `turned`: both have K first."""
    x = tl.trans(bytes) if turned else bytes
    even, odd = tl.split(tl.reshape(x, halves))
    first, second = even & 15 | odd << 4, even >> 4 | odd & 240
    rows = tl.permute(tl.join(first, second), (0, 2, 1))
    found = tl.reshape(rows, (2 * halves[0], halves[1]))
    return tl.trans(found) if turned else found


@builtin
def load_shared_fp4_repacked(mem_desc: Any, layout: Any) -> tensor:
    """The contents of shared memory, bytes of two e2m1 numbers along M (of the right operand N), as
    an operand in the `DotOperandLayout`, whose bytes have two numbers along K. Raises `TypeError`
    for other memory and layouts."""
    name = "load_shared_fp4_repacked"
    if not isinstance(mem_desc, shared_memory_descriptor) or mem_desc.dtype not in (int8, uint8):
        raise TypeError(f"{name}: {mem_desc!r}; shared memory of bytes is required")
    parent = getattr(layout, "parent", None)
    fits = isinstance(layout, DotOperandLayout) and len(mem_desc.shape) == 2
    if not fits or not isinstance(parent, (AMDMFMALayout, AMDWMMALayout)):
        raise TypeError(f"{name}: {layout} for {mem_desc!r}; a DotOperandLayout of AMD's matrix "
                        "units, for a matrix, is required")  # fmt: skip
    turned, features = layout.operand_index == 1, emitter.current().features
    lanes = 64 if features.target is None else features.target.warp_size
    k = 0 if turned else 1
    sizes = [2 if axis == k else 1 for axis in range(2)]
    threads = [lanes // 8 if axis == k else 8 for axis in range(2)]
    warps = [1 if axis == k else features.asked_num_warps() for axis in range(2)]
    bytes = tl.cast(mem_desc.load(BlockedLayout(sizes, threads, warps, [k, 1 - k])), uint8,
                    bitcast=True)  # fmt: skip
    halves = [mem_desc.shape[1 - k], mem_desc.shape[k] // 2, 2]
    found = _along_k(bytes, halves, turned)
    return convert_layout(tl.cast(found, mem_desc.dtype, bitcast=True), layout)
