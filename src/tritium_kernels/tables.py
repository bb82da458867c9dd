"""Launch configurations for each class of device; nothing is tuned at a launch.

A class that a table does not name takes the entry of "gpu".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tritium_kernels.launch import cdiv, device_class, power_of_two, processors


@dataclass(frozen=True)
class RowTable:
    """How rows are cut.

    Attributes:
        whole: the longest row that a program holds at once; longer ones are walked over.
        whole_sums: the same where it holds sums over rows besides.
        whole_again: the same where reading elements again is all that a walk costs more.
        chunk: the columns of one step of a walk.
        elements: what a program takes at least of short rows: several rows.
        warp_elements: elements for each warp.
        waves: programs for each processor, where programs keep sums over many rows.
        walk: rows and columns of a step, and sums over rows are kept in memory; None: steps are of
            one row and `chunk` columns, and sums over rows are kept in registers.
    """

    whole: int
    whole_sums: int
    whole_again: int
    chunk: int
    elements: int
    warp_elements: int
    waves: int
    walk: tuple[int, int] | None = None


ROWS = {
    "cpu": RowTable(
        whole=16384, whole_sums=8192, whole_again=2048, chunk=512, elements=256,
        warp_elements=1 << 30, waves=4, walk=(4, 64),
    ),
    "hopper": RowTable(
        whole=16384, whole_sums=8192, whole_again=16384, chunk=8192, elements=1024,
        warp_elements=1024, waves=2,
    ),
    "gpu": RowTable(
        whole=16384, whole_sums=8192, whole_again=16384, chunk=4096, elements=1024,
        warp_elements=1024, waves=2,
    ),
}


@dataclass(frozen=True)
class RowPlan:
    """One launch over rows.

    Attributes:
        rows: rows of one program at a time.
        block: columns of a tile.
        whole: a block holds a whole row.
        step: columns of one step in kernels that walk over every row, short ones too.
        warps: of a program.
        programs: of a launch in which each program takes many rows.
        even: tiles have no rows and no columns past the last.
    """

    rows: int
    block: int
    whole: bool
    step: int
    warps: int
    programs: int
    even: bool


def plan_rows(
    device: torch.device, rows: int, columns: int, sums: bool = False, again: bool = False
) -> RowPlan:
    """The configuration for `rows` rows of `columns` elements; `sums`: over rows besides; `again`:
    a walk over a row computes no more than one tile of it."""
    table = ROWS[device_class(device)]
    block = power_of_two(columns)
    step = min(block, table.chunk)
    whole = block <= (
        table.whole_sums if sums else table.whole_again if again else table.whole
    )  # fmt: skip
    block = block if whole else table.chunk
    many = max(1, min(table.elements // block, power_of_two(rows))) if whole else 1
    if again and not whole and table.walk is not None:
        many, block = table.walk  # of several rows at a time memory delivers more
    warps = min(max(power_of_two(block * many // table.warp_elements), 4), 16)
    programs = max(1, min(cdiv(rows, many), processors(device) * table.waves))
    even = rows % many == 0 and columns % block == 0
    return RowPlan(many, block, whole, step, warps, programs, even)


@dataclass(frozen=True)
class FlatTable:
    """Elements of one program in kernels of elements, and its warps."""

    block: int
    warps: int


FLAT = {"cpu": FlatTable(8192, 4), "hopper": FlatTable(2048, 4), "gpu": FlatTable(1024, 4)}


def plan_flat(device: torch.device, n: int) -> tuple[FlatTable, bool]:
    """The configuration for n elements one by one, and whether programs have no more than these."""
    table = FLAT[device_class(device)]
    return table, n % table.block == 0
