"""Launch configurations for each class of device; nothing is tuned at a launch.

A class that a table does not name takes the entry of "gpu".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from tritium_kernels.launching.launch import cdiv, device_class, power_of_two, processors


@dataclass(frozen=True)
class RowTable:
    """The division of rows among programs and steps.

    Attributes:
        whole: the longest row that a program holds at once; longer ones are walked over.
        whole_sums: the same where it holds sums over rows besides.
        whole_again: bytes of the longest such row where reading elements again is all that a walk
            costs more.
        chunk: the columns of one step of a walk.
        elements: what a program takes at least of short rows: several rows.
        warp_elements: elements for each warp.
        elements_sums, warp_elements_sums: the same of programs that keep sums over many rows.
        waves: such programs for each processor, if they have no more than `elements_sums`.
        stages: rows of such a program under way at once, that computed on and those loaded.
        copies: bytes of shared memory for those loaded; fewer are under way if they are larger.
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
    elements_sums: int = 4096
    warp_elements_sums: int = 512
    stages: int = 3
    copies: int = 72 << 10
    walk: tuple[int, int] | None = None


ROWS = {
    "cpu": RowTable(
        whole=16384, whole_sums=8192, whole_again=8192, chunk=512, elements=256,
        warp_elements=1 << 30, waves=4, elements_sums=256, warp_elements_sums=1 << 30,
        walk=(4, 64),
    ),
    "hopper": RowTable(
        whole=16384, whole_sums=8192, whole_again=1 << 17, chunk=8192, elements=1024,
        warp_elements=1024, waves=2, stages=4, copies=208 << 10,
    ),
    "gpu": RowTable(
        whole=16384, whole_sums=8192, whole_again=1 << 17, chunk=4096, elements=1024,
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
        stages: rows under way at once in such a program.
        even: tiles have no rows and no columns past the last.
    """

    rows: int
    block: int
    whole: bool
    step: int
    warps: int
    programs: int
    stages: int
    even: bool


@lru_cache(maxsize=4096)
def plan_rows(
    device: torch.device, rows: int, columns: int, sums: int = 0, again: int = 0
) -> RowPlan:
    """The configuration for `rows` rows of `columns` elements. Bytes of an element are given as
    `sums` where there are sums over rows besides, of two tensors and three numbers for each row; as
    `again` where a walk over a row computes no more than one tile of it."""
    table = ROWS[device_class(device)]
    block = power_of_two(columns)
    step = min(block, table.chunk)
    whole = block <= (table.whole_sums if sums else table.whole)
    whole = whole and block * again <= table.whole_again
    block = block if whole else table.chunk
    elements = table.elements_sums if sums else table.elements
    many = max(1, min(elements // block, power_of_two(rows))) if whole else 1
    if again and not whole and table.walk is not None:
        many, block = table.walk  # of several rows at a time memory delivers more
    per_warp = table.warp_elements_sums if sums and whole else table.warp_elements
    warps = min(max(power_of_two(block * many // per_warp), 4), 16)
    waves = 1 if sums and whole and block > table.elements_sums else table.waves
    programs = max(1, min(cdiv(rows, many), processors(device) * waves))
    even = rows % many == 0 and columns % block == 0
    loaded = many * (2 * block * sums + 3 * max(4, sums))
    stages = min(table.stages, 1 + table.copies // loaded)
    return RowPlan(many, block, whole, step, warps, programs, stages, even)


@dataclass(frozen=True)
class FlatTable:
    """Elements of one program in kernels of elements, and its warps."""

    block: int
    warps: int


FLAT = {"cpu": FlatTable(8192, 4), "hopper": FlatTable(2048, 4), "gpu": FlatTable(1024, 4)}


_LEAST_BLOCK = 256


@lru_cache(maxsize=4096)
def plan_flat(device: torch.device, n: int) -> tuple[FlatTable, bool]:
    """The configuration for n elements one by one, and whether programs have no more than these."""
    kind = device_class(device)
    table = FLAT[kind]
    if kind == "cpu" and n < table.block:  # lanes without an element take time there
        table = FlatTable(max(_LEAST_BLOCK, power_of_two(n)), table.warps)
    return table, n % table.block == 0
