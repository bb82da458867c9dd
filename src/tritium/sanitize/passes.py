"""The passes that instrument kernels, by mode."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.ir.printing import print_module
from tritium.passes.base import Pass
from tritium.passes.ttir.scaled_dot import ScaledDot
from tritium.passes.ttir.tensor_pointers import TensorPointers
from tritium.sanitize.bounds import CheckBounds
from tritium.sanitize.chip.compiled import CheckChipRaces
from tritium.sanitize.exact.algebra import ExactAlgebra
from tritium.sanitize.floats import CheckFloats
from tritium.sanitize.guards import GuardBounds
from tritium.sanitize.kinds import Site
from tritium.sanitize.races import CheckRaces
from tritium.sanitize.records import WriteRecords
from tritium.sanitize.sites import add_arguments, kernel_of
from tritium.sanitize.unwritten import CheckUnwritten

RECORDS = "default"
"""The mode of the profiler."""


def sanitizer(
    module: ModuleOp, mode: str, *, on_gpu: bool = False, gluon: bool = False
) -> tuple[list[Pass], dict[str, Any]]:
    """The passes that put the checks of a mode (`bounds`, `bounds,fp`), or the profiler's records
    (`default:...`), into ttir, and the part of the kernel's metadata that they fill.

    Args:
        on_gpu: programs go on after a failed check. The kernel gets the address of a report.
        gluon: it is a Gluon kernel, whose descriptors stay what the copy engine takes.
    """
    if mode.partition(":")[0] == RECORDS:
        labels: list[str] = []
        return [WriteRecords(labels=labels)], {"labels": labels}
    sites: list[Site] = []
    pointers: list[int] = []
    passes: list[Pass] = [] if gluon else [TensorPointers()]
    data: dict[str, Any] = {"sites": sites, "pointers": pointers, "report": on_gpu}
    modes = mode.split(",")
    if "exact" in modes:
        if "fp" in modes:
            raise ValueError(f"instrumentation_mode is {mode!r}: 'exact' leaves no floats for 'fp'")
        passes += [ScaledDot(), ExactAlgebra()]
    if modes == ["exact"]:
        return passes, {}
    if "fp" in modes:
        data["ttir"] = print_module(module)
    reports = add_arguments(kernel_of(module), ("report",)) if on_gpu else []
    if "bounds" in modes and on_gpu:
        passes.append(GuardBounds(sites=sites, pointers=pointers, reports=reports))
    elif "bounds" in modes:
        passes.append(CheckBounds(sites=sites, pointers=pointers))
    if "races" in modes:
        races = CheckRaces(sites=sites)
        data["granules"], data["ordering"] = races.granules, races.ordering
        data["clocks"] = races.clocks
        passes.append(races)
        if on_gpu:
            chip = CheckChipRaces(sites=sites)
            data["chip"], data["unwatched"] = chip.sizes, chip.unwatched
            passes.append(chip)
    if "unwritten" in modes:
        passes.append(CheckUnwritten(sites=sites, reports=reports))
    if "fp" in modes:
        passes.append(CheckFloats(sites=sites, reports=reports))
    return passes, data
