"""Padded shared memory for operands of products that copies fill directly."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._layouts import DotOperandLayout, PaddedSharedLayout
from tritium.experimental.gluon.language.amd._layouts import AMDMFMALayout
from tritium.language.values.constexpr import constexpr_function
from tritium.language.values.types import dtype as element_type

_COPY_BYTES = 1024
"""Bytes that the 64 lanes of a wave copy to LDS at once, 16 each, which lie together."""
_LANES = 64
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
    instruction are in different copies, with a gap between them. So are, where neighbours in memory
    are not along K, the rows that groups of lanes read at once.

    Args:
        dot_operand_layout: of an `AMDMFMALayout` of version 4.
        shape: of the operand: [M, K] or [K, N].
        dtype: of 8 or 16 bits.
        is_k_contig: whether neighbours in memory are along K.

    Returns None where no such layout is known: for blocks smaller than what two copies bring.
    Raises `TypeError` or `ValueError` for other operands.
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
    inner, axis = (k, outer) if is_k_contig else (outer, k)
    if dtype.primitive_bitwidth not in (8, 16) or len(shape) != 2:
        return None
    interval = _COPY_BYTES // size
    together = interval // shape[inner]  # rows that a copy brings
    if together < 1 or shape[axis] < 2 * together:
        return None
    rows, width = parent.instr_shape[outer], dot_operand_layout.k_width * size
    steps, first = _powers(shape[axis]), list[int]()
    if is_k_contig:
        gap = _GAPS.get((width, rows), _GAP) // size
    else:
        gap = rows  # what lanes of neighbouring groups read lies side by side
        first = [s for s in _powers(_LANES // rows, dot_operand_layout.k_width) if s in steps]
    near = [*first, *(s for s in steps if s not in first)]
    count = len(near) - (together.bit_length() - 1)
    order = (inner, _powers(shape[inner])), (axis, [*near[count:], *near[:count]])
    bases = [[n, 0] if side == 0 else [0, n] for side, found in order for n in found]
    return PaddedSharedLayout([[interval, gap]], bases, [], list(shape))


def _powers(count: int, first: int = 1) -> list[int]:
    """`first` and its doubles: as many as there are bits in a number less than `count`."""
    return [first << bit for bit in range(int(count).bit_length() - 1)]
