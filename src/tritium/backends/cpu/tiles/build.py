"""Translation of ttir to the tile stage."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.dot.plan import Host
from tritium.backends.cpu.tiles.allocate import Allocate
from tritium.backends.cpu.tiles.fuse import Fuse
from tritium.backends.cpu.tiles.ir import kernel_of
from tritium.backends.cpu.tiles.loop_carried import ProtectCarried
from tritium.backends.cpu.tiles.materialization import Materialize
from tritium.backends.cpu.tiles.plan_products import PlanProducts
from tritium.backends.cpu.tiles.prefetch import Prefetch
from tritium.backends.cpu.tiles.schedule import Schedule
from tritium.backends.cpu.tiles.version import Version
from tritium.backends.pipeline import run_pipeline
from tritium.native.host import CPU
from tritium.passes import Pass, pipelines
from tritium.passes.registry import register

for _pass in (
    Fuse, Materialize, ProtectCarried, Allocate, Schedule, Version, Prefetch, PlanProducts
):  # fmt: skip
    register(_pass)


def passes(processor: CPU) -> list[Pass]:
    """The passes of the stage, for a processor."""
    host = Host.of(processor.architecture, processor.features)
    schedule = Schedule(bits=host.bits, registers=host.registers)
    plan = PlanProducts(str(host), processor.l2)
    prefetch = Prefetch(processor.l2)
    return [
        Fuse(), Materialize(), ProtectCarried(), Allocate(), schedule, Version(), prefetch, plan
    ]  # fmt: skip


def lower_to_tiles(module: ModuleOp, processor: CPU) -> ModuleOp:
    """The tile stage of a ttir module (inlined and canonical; remaining calls stay calls) for a
    processor. The module is changed in place.

    Raises NotImplementedError, naming op and line, for what the backend does not support, and
    `ValueError` for several kernels.
    """
    kernel_of(module)
    return run_pipeline(module, [*pipelines.tiles(), *passes(processor)], "make_tiles")
