"""Shared memory that an op needs for itself, in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.backends.nvidia.lower import atomic, bulk_rows, gather, reduce, shared, tensor_maps

_SIZES: dict[str, Callable[[Any], int]] = {
    "tt.reduce": reduce.scratch_bytes,
    "tt.scan": reduce.scratch_bytes,
    "tt.gather": gather.gather_bytes,
    "tt.histogram": gather.histogram_bytes,
    "tt.atomic_rmw": atomic.scratch_bytes,
    "tt.atomic_cas": atomic.scratch_bytes,
    "ttng.async_tma_gather": bulk_rows.scratch_bytes,
    "ttng.async_tma_scatter": bulk_rows.scratch_bytes,
    "ttng.tensormap_create": tensor_maps.scratch_bytes,
    "ttg.convert_layout": shared.conversion_bytes,
}


def scratch_bytes(op: Any) -> int:
    """0 for ops that need none."""
    size = _SIZES.get(op.name)
    return size(op) if size is not None else 0
