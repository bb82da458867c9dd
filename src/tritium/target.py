"""Compilation targets: a frozen value that backends, options and cache keys share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """A compilation target. The name is the reference's; a CPU is a target as well.

    Attributes:
        backend: which backend compiles for it: `cuda`, `hip`, `cpu`, ...
        arch: what the backend calls the processor: `90` (CUDA), `"gfx942"` (HIP), `"znver4"` (CPU).
        warp_size: threads that run in step: 32 (CUDA), 32 or 64 (HIP), 1 (CPU).
    """

    backend: str
    arch: int | str
    warp_size: int

    def __post_init__(self) -> None:
        if not self.backend:
            raise ValueError("GPUTarget: backend is empty; expected a name such as 'cuda' or 'cpu'")
        if self.warp_size < 0:
            raise ValueError(f"GPUTarget: warp_size is {self.warp_size}; expected at least 0")


_default: list[Callable[[], GPUTarget]] = []


def provide_default(find: Callable[[], GPUTarget]) -> None:
    """Say how the target is found that launches are for (by `backends.active`)."""
    _default[:] = [find]


def default_target() -> GPUTarget | None:
    """The target that launches are for; None if none can be."""
    try:
        return _default[0]() if _default else None
    except RuntimeError:  # no driver, or several
        return None
