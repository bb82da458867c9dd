"""Facts about the device that kernels are launched on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tritium.runtime import driver
from tritium_kernels.launching.launch import processors


@dataclass(frozen=True)
class Machine:
    """Facts on which configurations depend.

    Attributes:
        backend: "cuda", "hip" or "cpu".
        arch: compute capability times ten; AMD's gfx name; empty for CPUs.
        processors: multiprocessors, compute units, threads.
        shared_bytes: shared memory that a program can have.
    """

    backend: str
    arch: int | str
    processors: int
    shared_bytes: int


_SHARED = {75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448,
           103: 232448, 110: 232448, 120: 101376, 121: 101376, "gfx950": 163840}  # fmt: skip


def machine() -> Machine:
    """The device that kernels are launched on."""
    target = driver.active.get_current_target()
    arch = _amd_arch() or ("" if is_cpu() else int(target.arch))
    return Machine(target.backend, arch, num_sms(), _SHARED.get(arch, 65536))


def is_cpu() -> bool:
    """True if kernels run on the CPU."""
    return driver.active.get_current_target().backend == "cpu"


def is_cuda() -> bool:
    """True if kernels run on an NVIDIA GPU."""
    return driver.active.get_current_target().backend == "cuda"


def is_hip() -> bool:
    """True if kernels run on an AMD GPU."""
    return driver.active.get_current_target().backend == "hip"


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """True if kernels run on an NVIDIA GPU of at least this compute capability."""
    return is_cuda() and torch.cuda.get_device_capability() >= (major, minor)


def _amd_arch() -> str:
    """The name of the AMD GPU that kernels run on; empty on other devices."""
    target = driver.active.get_current_target()
    return str(target.arch).split(":")[0] if target.backend == "hip" else ""


def get_cdna_version() -> int:
    """1 to 4 on AMD's CDNA GPUs (MI100 to MI350); -1 on others."""
    return {"gfx908": 1, "gfx90a": 2, "gfx942": 3, "gfx950": 4}.get(_amd_arch(), -1)


def get_rdna_version() -> int:
    """1 to 4 on AMD's RDNA GPUs (gfx101x to gfx120x); -1 on others."""
    return {"gfx101": 1, "gfx103": 2, "gfx110": 3, "gfx115": 3, "gfx120": 4}.get(
        _amd_arch()[:6], -1
    )


def has_native_mxfp() -> bool:
    """True if the tensor cores multiply MX formats."""
    return cuda_capability_geq(10, 0)


def has_tma_gather() -> bool:
    """True if the bulk copy engine gathers and scatters rows."""
    return cuda_capability_geq(10, 0)


def num_sms() -> int:
    """Multiprocessors of the current GPU; threads of the CPU."""
    return processors(torch.device("cpu" if is_cpu() else f"cuda:{torch.cuda.current_device()}"))
