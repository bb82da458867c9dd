"""All modules that register lowering rules: importing this one fills the registry."""

from __future__ import annotations

from types import ModuleType

from tritium.backends.nvidia.lower import (
    access,
    assembly,
    async_copy,
    atomic,
    atomic_access,
    bulk_copy,
    bulk_rows,
    calls,
    casts,
    control,
    debug,
    elementwise,
    functions,
    gather,
    mma,
    reduce,
    regions,
    scan,
    shape,
    shared,
    tensor_maps,
    wgmma,
)
from tritium.lowering.registry import RULES

MODULES: tuple[ModuleType, ...] = (
    access, assembly, async_copy, atomic, atomic_access, bulk_copy, bulk_rows, calls,
    casts, control, debug, elementwise, functions, gather, mma, reduce, regions, scan, shape,
    shared, tensor_maps, wgmma,
)  # fmt: skip


def check(backend: str) -> None:
    """An invariant: each module's rules are in the table of `backend` or a part of it."""
    known = {rule.__module__ for name, table in RULES.items() if name.startswith(backend)
             for rule in table.values()}  # fmt: skip
    missing = [m.__name__ for m in MODULES if m.__name__ not in known]
    assert not missing, f"{missing} define no rule of {backend}"
