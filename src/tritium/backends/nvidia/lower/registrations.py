"""All modules that register rules for NVIDIA GPUs alone: importing this one fills the registry."""

from __future__ import annotations

from types import ModuleType

from tritium.backends.nvidia.lower import (
    blackwell,
    cluster_store,
    tcgen05,
    tensor_maps,
    tensor_memory,
    tma,
    tma_gather,
    wgmma,
)
from tritium.backends.nvidia.lower.hardware import NVIDIA, Nvidia
from tritium.codegen.gpu.registrations import check

MODULES: tuple[ModuleType, ...] = (
    blackwell, cluster_store, tcgen05, tensor_maps, tensor_memory, tma, tma_gather, wgmma,
)  # fmt: skip


def hardware(arch: int) -> Nvidia:
    """The hardware of a compute capability (90, say), its rules registered."""
    check(NVIDIA, MODULES)
    return Nvidia(arch)
