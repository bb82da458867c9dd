"""Pools of GPU memory that the search for races watches in every launch, by the reference's names.

    from tritium.experimental import gsan

    pool = gsan.create_mem_pool(write_once=True)
    with torch.cuda.use_mem_pool(pool):
        out = torch.empty(n, device="cuda")
    kernel[grid](x, out, n, instrumentation_mode="races")

`docs/sanitizer.md` says what pools add to the search.
"""

from __future__ import annotations

import importlib
from typing import Any

from tritium.experimental.gsan.allocator import (
    create_mem_pool,
    get_allocator,
    has_live_allocations,
    reset,
)
from tritium.experimental.gsan.settings import ShareableHandleType, configure, freeze_config

__all__ = [
    "ShareableHandleType", "configure", "create_mem_pool", "freeze_config", "get_allocator",
    "has_live_allocations", "reset",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "symmetric_memory":  # it needs torch.distributed
        return importlib.import_module(f"{__name__}.{name}")
    if name == "graph":
        raise NotImplementedError(
            f"{__name__}.{name}: the search for races does not watch the order of the nodes of "
            "CUDA graphs"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
