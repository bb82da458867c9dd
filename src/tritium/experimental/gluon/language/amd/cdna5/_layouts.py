"""Shared memory in partitions, which have banks of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.experimental.gluon.language._layouts import Layout, PaddedSharedLayout, SharedLayout
from tritium.experimental.gluon.language.amd._layouts import AMDWMMALayout
from tritium.ir.layouts.partitioned import PartitionedSharedEncoding
from tritium.language.values.constexpr import constexpr_function

__all__ = ["PartitionedSharedLayout", "make_partitioned_dot_layouts"]

_PARTITIONS = 2
_ROWS_OF_PIECES = {"M": 2, "N": 1}
"""The least instruction tiles of a piece along each axis of a product."""


@dataclass(frozen=True)
class PartitionedSharedLayout(SharedLayout):
    """A block in `num_partitions` * `num_groups` pieces along the axis `partition_dim`, each in
    `partition_layout`. Pieces are in the partitions in turn."""

    ENCODING = PartitionedSharedEncoding
    KEYS = ("numPartitions", "numGroups", "partitionDim", "partitionLayout")
    TAG = "Partitioned"
    num_partitions: int
    num_groups: int
    partition_dim: int
    partition_layout: SharedLayout
    __hash__ = Layout.__hash__


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(f"make_partitioned_dot_layouts: {message}")


def _doubled(count: int, unit: list[int]) -> list[list[int]]:
    """The bases that repeat something `count` times along an axis."""
    return [[x << bit for x in unit] for bit in range(count.bit_length() - 1)]


def _operand(layout: Any, axis: int, groups: int) -> PartitionedSharedLayout:
    """The layout of an operand in partitions along the axis, with the gaps of a layout."""
    if not isinstance(layout, PaddedSharedLayout):
        raise TypeError(f"make_partitioned_dot_layouts: {layout!r}; a PaddedSharedLayout is "
                        "required")  # fmt: skip
    shape, pieces = list(layout.shape), _PARTITIONS * groups
    _check(shape[axis] % pieces == 0,
           f"{pieces} pieces of a block of {shape} along the axis {axis}")  # fmt: skip
    shape[axis] //= pieces
    piece = PaddedSharedLayout.with_identity_for(
        layout.interval_padding_pairs, shape, [1, 0], layout.cga_layout
    )
    return PartitionedSharedLayout(_PARTITIONS, groups, axis, piece)


@constexpr_function
def make_partitioned_dot_layouts(
    block_m: int, block_n: int, original_layout_a: Any, original_layout_b: Any, num_warps: int,
    instr_shape: Any, a_transposed: bool = False, b_transposed: bool = False,
    slice_m: int | None = None, slice_n: int | None = None, transposed: bool = True,
) -> tuple[PartitionedSharedLayout, PartitionedSharedLayout, AMDWMMALayout]:  # fmt: skip
    """Layouts of both operands in two partitions, and of a product whose warps read from both at
    the same time.

    Args:
        block_m, block_n: of the operands in shared memory.
        original_layout_a, original_layout_b: a `PaddedSharedLayout` of each operand, [M, K] and
            [K, N], or the other way round where it is transposed.
        num_warps: 4 or 8.
        instr_shape: (M, N, K) of the instruction.
        slice_m, slice_n: the part of a block of one product; the whole block by default.
        transposed: whether the result is.

    Raises `ValueError` for sizes of which there are no such layouts.
    """
    sizes = {"M": (block_m, slice_m or block_m), "N": (block_n, slice_n or block_n)}
    tile = dict(zip("NM" if transposed else "MN", instr_shape, strict=False))
    _check(num_warps in (4, 8), f"num_warps is {num_warps}; 4 or 8 is required")
    pieces: dict[str, int] = {}
    for axis, (whole, part) in sizes.items():
        least = _PARTITIONS * _ROWS_OF_PIECES[axis] * tile[axis]
        fits = whole % part == 0 and part >= least and part & (part - 1) == 0
        _check(fits, f"a part of {part} along {axis}, of {whole}; a power of two that divides it, "
                     f"{least} or more, is required")  # fmt: skip
        pieces[axis] = part // least
    m, n = pieces["M"], pieces["N"]
    # Of two warps that differ in the first bit, one reads the other partition of both operands.
    warps = [[2 * m, n], [m, 0]]
    registers = [*_doubled(n, [0, 1]), *_doubled(m, [1, 0])]
    (warps if num_warps == 8 else registers).append([2 * m, 0])
    result = AMDWMMALayout(3, transposed, warps, registers, list(instr_shape))
    groups = {axis: whole // part for axis, (whole, part) in sizes.items()}
    left = _operand(original_layout_a, 1 if a_transposed else 0, groups["M"])
    right = _operand(original_layout_b, 0 if b_transposed else 1, groups["N"])
    return left, right, result
