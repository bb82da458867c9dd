"""Padded shared memory for operands of products that copies fill directly."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._layouts import DotOperandLayout, PaddedSharedLayout
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout
from tritium.language.values.constexpr import constexpr_function
from tritium.language.values.types import dtype as element_type

_COPY_BYTES = 1024
"""Bytes that the 64 lanes of a wave copy to LDS at once, 16 each, which lie together."""
_GAPS = {(16, 16): 32, (16, 32): 16}
"""Bytes of a gap by the bytes that a lane reads along K and the rows of an instruction: a wave
reads 16 bytes of 16 lanes at a time, of 16 rows two neighbours along K of eight."""
_GAP = 8
"""The same of other reads, of 8 bytes each."""


@constexpr_function
def compute_efficient_padded_shared_layout(
    dot_operand_layout: Any, shape: Any, dtype: element_type, is_k_contig: bool = True
) -> PaddedSharedLayout | None:
    """The layout of an operand in shared memory that copies to LDS fill (`async_copy`) and from
    which the lanes of a wave read rows in different banks.

    What a wave copies at once are rows that are far apart: the neighbours among the rows of an
    instruction are in different copies, with a gap between them.

    Args:
        dot_operand_layout: of an `AMDMFMALayout` of version 4.
        shape: of the operand: [M, K] or [K, N].
        dtype: of 8 or 16 bits.
        is_k_contig: whether neighbours in memory are along K.

    Returns None where no such layout is known: for operands whose neighbours are not along K, and
    for blocks smaller than what two copies bring. Raises `TypeError` or `ValueError` for other
    operands.
    """
    parent = getattr(dot_operand_layout, "parent", None)
    if not isinstance(dot_operand_layout, DotOperandLayout) \
            or not isinstance(parent, AMDMFMALayout) or parent.version != 4:  # fmt: skip
        raise TypeError(
            f"compute_efficient_padded_shared_layout: {dot_operand_layout!r}; a DotOperandLayout "
            "of an AMDMFMALayout of version 4 is required"
        )
    size, index = dtype.primitive_bitwidth // 8, dot_operand_layout.operand_index
    k, outer = (1, 0) if index == 0 else (0, 1)
    if dtype.primitive_bitwidth not in (8, 16) or not is_k_contig or len(shape) != 2:
        return None
    interval = _COPY_BYTES // size
    together = interval // shape[k]  # rows that a copy brings
    if together < 1 or shape[outer] < 2 * together:
        return None
    rows, width = parent.instr_shape[outer], dot_operand_layout.k_width * size
    gap = _GAPS.get((width, rows), _GAP) // size
    bits = [1 << bit for bit in range(int(shape[outer]).bit_length() - 1)]
    count = together.bit_length() - 1
    near, far = bits[: len(bits) - count], bits[len(bits) - count :]
    along_k = [1 << bit for bit in range(int(shape[k]).bit_length() - 1)]
    bases = [[n, 0] if axis == 0 else [0, n]
             for axis, steps in ((k, along_k), (outer, [*far, *near])) for n in steps]  # fmt: skip
    return PaddedSharedLayout([[interval, gap]], bases, [], list(shape))
