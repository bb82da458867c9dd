"""Queries about the target, for kernels at compile time and for programs at any time.

Outside of kernels the answers are about the active driver's target.
"""

from __future__ import annotations

from tritium.language import emitter
from tritium.language.values.constexpr import constexpr_function
from tritium.target import GPUTarget, default_target

__all__ = ["cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3",
           "is_hip_cdna4", "is_hip_gfx1250"]  # fmt: skip


def current_target() -> GPUTarget | None:
    """The target of the kernel that is being compiled; elsewhere that of the active driver. None
    in the interpreter, and where no driver can be used."""
    return emitter.current().features.target if emitter.active() else default_target()


def _is(backend: str, *archs: str) -> bool:
    target = current_target()
    return target is not None and target.backend == backend and (
        not archs or str(target.arch).split(":")[0] in archs
    )  # fmt: skip


@constexpr_function
def is_cuda() -> bool:
    """True if the target is a GPU of NVIDIA's."""
    return _is("cuda")


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """True if the target is a GPU of NVIDIA's of at least this capability."""
    target = current_target()
    return _is("cuda") and target is not None and int(target.arch) >= major * 10 + minor


@constexpr_function
def is_hip() -> bool:
    """True if the target is a GPU of AMD's."""
    return _is("hip")


@constexpr_function
def is_hip_cdna3() -> bool:
    """True if the target is AMD's CDNA 3 (MI300)."""
    return _is("hip", "gfx942")


@constexpr_function
def is_hip_cdna4() -> bool:
    """True if the target is AMD's CDNA 4 (MI350)."""
    return _is("hip", "gfx950")


@constexpr_function
def is_hip_gfx1250() -> bool:
    """True if the target is an AMD GPU of the gfx1250 family."""
    target = current_target()
    return _is("hip") and target is not None and str(target.arch).startswith("gfx1250")
