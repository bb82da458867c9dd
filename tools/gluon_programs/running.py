"""Make a Gluon program, run it, compare what it leaves in memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tools.gluon_programs import blocks, products, shared
from tools.gluon_programs.program import GluonProgram
from tools.tile_programs.control import Control
from tools.tile_programs.program import Program, Tile
from tools.tile_programs.running import outcome

BODY = (
    blocks.two, blocks.two, blocks.with_number, blocks.chosen, blocks.cast, blocks.converted,
    blocks.converted, blocks.turned, blocks.reshaped, blocks.reshaped, blocks.joined,
    blocks.gathered, blocks.combined, blocks.combined, blocks.custom, blocks.counted,
    blocks.added, blocks.loaded, blocks.masked, shared.allocated, shared.viewed, shared.viewed,
    shared.stored, shared.stored, shared.read, shared.read, shared.gathered, shared.scattered,
    shared.counted, products.product, products.product, products.multiplied,
    products.of_warp_groups,
)  # fmt: skip


class GluonControl(Control):
    """Loops and branches around statements of Gluon."""

    stages = ()

    def turned(self, p: Program, tile: Tile) -> Tile | None:
        assert isinstance(p, GluonProgram)
        return blocks.turned_tile(p, tile)


_CONTROL = GluonControl(BODY)
STATEMENTS = (
    *BODY, *(shared.allocated,) * 3, *(shared.viewed,) * 3, blocks.ranges, blocks.ranges,
    blocks.filled, blocks.automatic, blocks.loaded, *(_CONTROL.loop,) * 3, _CONTROL.choice,
)  # fmt: skip
GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1))
ABILITIES = {
    "interpreter": "mma wgmma", "simt32": "mma", "simt64": "mfma3", "cuda": "mma wgmma",
    "gfx942": "mfma3", "gfx950": "mfma4", "gfx1100": "wmma1", "gfx1200": "wmma2",
}  # fmt: skip
"""What each device has besides blocks and shared memory."""


def program_of(seed: int, device: str) -> GluonProgram:
    """The program of this number for a device."""
    source = random.Random(seed)
    lanes = 64 if device == "simt64" or device.startswith("gfx9") else 32
    grid, warps = source.choice(GRIDS), source.choice((1, 2, 4, 4, 8))
    abilities = frozenset(ABILITIES[device].split())
    made = GluonProgram(source, grid, lanes=lanes, warps=warps, abilities=abilities)
    wanted = source.choice((2, 3, 4, 6, 8, 12))
    blocks.ranges(made)
    with np.errstate(all="ignore"):
        for _ in range(400):
            wanted -= source.choice(STATEMENTS)(made)
            if wanted <= 0:
                break
        blocks.results(made, source.choice((1, 2, 4)))
    return made


def check(seed: int, device: str, show: bool = False) -> dict[str, Any]:
    """Run the program of a seed on a device; its outcome."""
    made = program_of(seed, device)
    return outcome(made, made.text(), seed, {"num_warps": made.warps}, show, device)
