"""All modules that register shared lowering rules: importing this one fills the registry."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from tritium.codegen.gpu import (
    calls,
    casts,
    control,
    debug,
    elementwise,
    functions,
    partitions,
    program_code,
    scratch,
    shape,
)
from tritium.codegen.gpu.collective import gather, reduce, scan
from tritium.codegen.gpu.matmul import fma, scaled
from tritium.codegen.gpu.memory import (
    access,
    async_copy,
    atomic,
    atomic_access,
    buffers,
    chip_races,
    convert_layout,
    local_gather,
    repacked,
    shared,
)
from tritium.codegen.registry import RULES

MODULES: tuple[ModuleType, ...] = (
    access, async_copy, atomic, atomic_access, buffers, calls, casts, chip_races, control,
    convert_layout, debug, elementwise, fma, functions, gather, local_gather, partitions,
    program_code, reduce, repacked, scaled, scan, scratch, shape, shared,
)  # fmt: skip


def check(name: str, modules: Iterable[ModuleType]) -> None:
    """Assert that each module has rules in the table `name` or in a part of it."""
    known = {rule.__module__ for table, rules in RULES.items() if table.startswith(name)
             for rule in rules.values()}  # fmt: skip
    missing = [m.__name__ for m in modules if m.__name__ not in known]
    assert not missing, f"{missing} define no rule of {name}"
