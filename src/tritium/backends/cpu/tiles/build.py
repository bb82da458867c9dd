"""From ttir to the tile stage: passes over the ops, then over the program of loops."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.tiles.allocate import Allocate
from tritium.backends.cpu.tiles.fuse import Fuse
from tritium.backends.cpu.tiles.loop_carried import ProtectCarried
from tritium.backends.cpu.tiles.materialization import Materialize
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.backends.pipeline import run_pipeline
from tritium.passes import pipelines

PASSES = (Fuse(), Materialize(), ProtectCarried(), Allocate())


def lower_to_tiles(module: ModuleOp, options: Any = None) -> TileProgram:
    """The tile stage of a ttir module (inlined and canonical; remaining calls stay calls).

    Raises NotImplementedError, naming op and line, for what the backend does not support.
    """
    run_pipeline(module, pipelines.tiles(), "make_tiles")
    return run_pipeline(TileProgram.of(module, options), PASSES, "make_tiles")
