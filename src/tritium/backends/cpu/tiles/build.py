"""From ttir to the tile stage."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.tiles.allocate import Allocate
from tritium.backends.cpu.tiles.fuse import Fuse
from tritium.backends.cpu.tiles.ir import kernel_of
from tritium.backends.cpu.tiles.loop_carried import ProtectCarried
from tritium.backends.cpu.tiles.materialization import Materialize
from tritium.backends.pipeline import run_pipeline
from tritium.passes import pipelines
from tritium.passes.registry import register

PASSES = tuple(register(cls)() for cls in (Fuse, Materialize, ProtectCarried, Allocate))


def lower_to_tiles(module: ModuleOp) -> ModuleOp:
    """The tile stage of a ttir module (inlined and canonical; remaining calls stay calls), which
    is changed in place.

    Raises NotImplementedError, naming op and line, for what the backend does not support, and
    `ValueError` for several kernels.
    """
    kernel_of(module)
    return run_pipeline(module, [*pipelines.tiles(), *PASSES], "make_tiles")
