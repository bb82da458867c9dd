"""Make a Gluon program, run it, compare what it leaves in memory."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import tritium
from tools.gluon_programs import blocks, engines, pipelines, products, shared
from tools.gluon_programs.program import GluonProgram
from tools.tile_programs import arithmetic, combining
from tools.tile_programs.control import Control
from tools.tile_programs.program import Program, Tile
from tools.tile_programs.running import outcome
from tritium.experimental import gluon
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

_COMBINED = functools.partial(
    arithmetic.combined, names=("sum", "max", "min", "xor_sum", "cumsum", "kept")
)
BODY = (
    arithmetic.two, arithmetic.two, arithmetic.compared, arithmetic.with_number,
    arithmetic.chosen, blocks.cast, blocks.converted,
    blocks.converted, blocks.turned, blocks.reshaped, blocks.reshaped, arithmetic.joined,
    arithmetic.gathered, _COMBINED, _COMBINED, combining.custom, blocks.counted,
    blocks.added, blocks.loaded, blocks.masked, shared.allocated, shared.viewed, shared.viewed,
    shared.stored, shared.stored, shared.read, shared.read, shared.gathered, shared.scattered,
    shared.counted, products.product, products.product, products.multiplied,
    products.of_warp_groups, pipelines.copied, pipelines.buffered,
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
    engines.copied, engines.stored, engines.patches, engines.rows, pipelines.partitioned,
    pipelines.partitioned,
)  # fmt: skip
GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1))
ABILITIES = {
    "interpreter": "mma wgmma copies bulk patches rows partitions clusters",
    "simt32": "mma copies partitions clusters", "simt64": "mfma3 buffers",
    "cuda": "mma wgmma copies bulk patches partitions clusters",
    "gfx942": "mfma3 buffers", "gfx950": "mfma4 buffers copies4", "gfx1100": "wmma1 buffers",
    "gfx1200": "wmma2 buffers", "sm_80": "mma copies no_e4m3",
    "sm_90": "mma wgmma copies bulk patches partitions clusters no_integer_wgmma",
    "sm_100": "mma copies bulk patches rows partitions clusters",
    "sm_120": "mma copies bulk patches partitions clusters",
}  # fmt: skip
"""The features of each device besides blocks and shared memory."""


def program_of(seed: int, device: str) -> GluonProgram:
    """The program of this number for a device."""
    source = random.Random(seed)
    lanes = 64 if device == "simt64" or device.startswith("gfx9") else 32
    grid, warps = source.choice(GRIDS), source.choice((1, 2, 4, 4, 8))
    abilities = frozenset(ABILITIES[device].split())
    ctas = source.choice((1, 1, 2, 4)) if "clusters" in abilities else 1
    made = GluonProgram(source, grid, lanes=lanes, warps=warps, blocks=ctas, abilities=abilities)
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
    """Run the program of a seed on a device; its outcome. What is compiled for sm_90 is executed by
    the engine of `tests.simt`; programs for other GPUs of NVIDIA are only compiled."""
    made = program_of(seed, device)
    text, options = made.text(), {"num_warps": made.warps}
    options |= {"num_ctas": made.blocks} if made.blocks > 1 else {}
    if not device.startswith("sm_"):
        return outcome(made, text, seed, options, show, device)
    arch, executed = int(device[3:]), device == "sm_90"
    launch = functools.partial(_compile, arch)
    if executed:
        launch = functools.partial(_execute, arch, seed if made.blocks > 1 else 0)
    else:
        for pointer in made.pointers:
            pointer.base.data = pointer.base.first
    return outcome(made, text, seed, options, show, device, launch)


def _compile(arch: int, kernel: Any, grid: Sequence[int], *arguments: Any, **options: Any) -> Any:
    """The kernel for these arguments, through ptxas."""
    from tests.gluon.support import type_of

    signature, attrs = dict[str, str](), dict[tuple[int, ...], Any]()
    for number, (name, given) in enumerate(zip(kernel.arg_names, arguments, strict=True)):
        signature[name] = type_of(given)
        place = given.ctypes.data if isinstance(given, np.ndarray) else given
        if not isinstance(place, int) or place % 16 == 0:
            attrs[(number,)] = [["tt.divisibility", 16]]
    source = gluon.GluonASTSource(kernel, signature, {}, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def _execute(
    arch: int, order: int, kernel: Any, grid: Sequence[int], *arguments: Any, **options: Any
) -> Any:
    """The kernel, run in an order (0: the usual one)."""
    from tests.gluon.support import slots_of
    from tests.simt.backend.compiler import run_ttgir
    from tests.simt.hardware import Simt

    made = _compile(arch, kernel, grid, *arguments, **options)
    kept: list[np.ndarray] = []
    slots = slots_of(arguments, kept)
    module = parse_module(made.asm["ttgir"])
    run_ttgir(module, options["num_warps"], slots, grid, Simt(32), seed=order)
    return made
