"""All modules that register lowering rules: importing this one fills the registry."""

from __future__ import annotations

from tritium.backends.nvidia.lower import (
    access,
    async_copy,
    bulk_copy,
    control,
    elementwise,
    mma,
    reduce,
    shape,
    shared,
    wgmma,
)

MODULES = (
    access, async_copy, bulk_copy, control, elementwise, mma, reduce, shape, shared, wgmma,
)  # fmt: skip


def load() -> None:
    """Make sure that every rule is registered (importing this module did it)."""
    assert MODULES
