"""Facts about the device that kernels are launched on."""

from __future__ import annotations

import torch

from tritium.runtime import driver
from tritium_kernels.launch import processors


def is_cpu() -> bool:
    """Whether kernels run on the CPU."""
    return driver.active.get_current_target().backend == "cpu"


def is_cuda() -> bool:
    """Whether kernels run on an NVIDIA GPU."""
    return driver.active.get_current_target().backend == "cuda"


def is_hip() -> bool:
    """Whether kernels run on an AMD GPU."""
    return driver.active.get_current_target().backend == "hip"


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether kernels run on an NVIDIA GPU of at least this compute capability."""
    return is_cuda() and torch.cuda.get_device_capability() >= (major, minor)


def has_native_mxfp() -> bool:
    """Whether the tensor cores multiply MX formats."""
    return cuda_capability_geq(10, 0)


def has_tma_gather() -> bool:
    """Whether the bulk copy engine gathers and scatters rows."""
    return cuda_capability_geq(10, 0)


def num_sms() -> int:
    """Multiprocessors of the current GPU; threads of the CPU."""
    return processors(torch.device("cpu" if is_cpu() else f"cuda:{torch.cuda.current_device()}"))
