"""The passes that instrument kernels, by mode."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.ir.printing import print_module
from tritium.passes.base import Pass
from tritium.passes.ttir.tensor_pointers import TensorPointers
from tritium.sanitize.bounds import CheckBounds
from tritium.sanitize.floats import CheckFloats
from tritium.sanitize.guards import GuardBounds
from tritium.sanitize.races import CheckRaces
from tritium.sanitize.records import WriteRecords
from tritium.sanitize.sites import Site

RECORDS = "default"
"""The mode of the profiler."""


def on_gpu(module: ModuleOp, mode: str) -> tuple[list[Pass], dict[str, Any]]:
    """`sanitizer` for the ttir of a GPU's kernel; of checks `bounds` alone."""
    if mode.partition(":")[0] == RECORDS:
        return sanitizer(module, mode)
    sites: list[Site] = []
    pointers: list[int] = []
    passes: list[Pass] = [TensorPointers(), GuardBounds(sites=sites, pointers=pointers)]
    return passes, {"sites": sites, "pointers": pointers, "report": True}


def sanitizer(module: ModuleOp, mode: str) -> tuple[list[Pass], dict[str, Any]]:
    """The passes that put the checks of a mode (`bounds`, `bounds,fp`), or the profiler's records
    (`default:...`), into ttir, and the part of the kernel's metadata that they fill."""
    if mode.partition(":")[0] == RECORDS:
        labels: list[str] = []
        return [WriteRecords(labels=labels)], {"labels": labels}
    sites: list[Site] = []
    pointers: list[int] = []
    passes: list[Pass] = [TensorPointers()]
    data: dict[str, Any] = {"sites": sites, "pointers": pointers}
    modes = mode.split(",")
    if "bounds" in modes:
        passes.append(CheckBounds(sites=sites, pointers=pointers))
    if "races" in modes:
        races = CheckRaces(sites=sites)
        data["granules"] = races.granules
        passes.append(races)
    if "fp" in modes:
        data["ttir"] = print_module(module)
        passes.append(CheckFloats(sites=sites))
    return passes, data
