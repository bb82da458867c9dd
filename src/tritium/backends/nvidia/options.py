"""Compilation options of kernels for NVIDIA GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tritium import knobs
from tritium.backends.base import SANITIZERS, option_values
from tritium.backends.gpu_options import GPUOptions
from tritium.sanitize.kinds import EXACT


@dataclass(frozen=True)
class CUDAOptions(GPUOptions):
    """Options of a kernel: those of all GPUs, and these.

    Attributes:
        num_ctas: a power of two up to 16; for more than one sm_90 is needed; 16 are not portable.
        maxnreg: most registers a thread may have; None leaves it to ptxas.
        cluster_dims: how the blocks of a program are arranged: (num_ctas, 1, 1).
        ptx_version: PTX version to write, 87 for 8.7; None for the newest that ptxas reads.
        ptx_options: further arguments of ptxas.
        enable_reflect_ftz: have libdevice's float32 functions flush subnormal numbers to zero,
            which is faster.
        launch_pdl: the kernel may start before the one before it has ended.
        extern_libs: name and path of LLVM bitcode to link; a dict becomes sorted pairs.
        arch: what to compile as: `sm80` chooses that pipeline on a newer device; `make_options`
            fills in the target's own.
    """

    maxnreg: int | None = None
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    ptx_version: int | None = None
    ptx_options: str | None = None
    enable_reflect_ftz: bool = True
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5", "fp8e4b15")
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    backend_name: str = "cuda"
    arch: str | None = None
    instrumentations: ClassVar[tuple[str, ...]] = (*SANITIZERS, EXACT, "default")

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(self.cluster_dims) not in ((1, 1, 1), (self.num_ctas, 1, 1)):
            raise ValueError(
                f"cluster_dims is {self.cluster_dims!r}; with num_ctas={self.num_ctas} "
                f"{(self.num_ctas, 1, 1)} is required"
            )
        object.__setattr__(self, "cluster_dims", (self.num_ctas, 1, 1))
        if self.maxnreg is not None and not 1 <= self.maxnreg <= 255:
            raise ValueError(f"maxnreg is {self.maxnreg!r}; 1 to 255 is required")
        libraries: Mapping[str, str] = dict(self.extern_libs)
        object.__setattr__(self, "extern_libs", tuple(sorted(libraries.items())))


def assembler(arch: int) -> knobs.NvidiaTool | None:
    """The ptxas for an architecture: from sm_100 on TRITON_PTXAS_BLACKWELL_PATH may name another
    one. None where there is none."""
    if arch >= 100 and knobs.getenv("TRITON_PTXAS_BLACKWELL_PATH"):
        return knobs.nvidia.ptxas_blackwell
    return knobs.nvidia.ptxas


def check_cluster(num_ctas: int, arch: int) -> None:
    """Raise `ValueError` for clusters that there cannot be."""
    if num_ctas not in (1, 2, 4, 8, 16):
        raise ValueError(f"num_ctas is {num_ctas!r}; 1, 2, 4, 8 or 16 is required")
    if num_ctas > 1 and arch < 90:
        raise ValueError(
            f"num_ctas is {num_ctas}, for sm_{arch}: clusters need sm_90 or later; 1 is required"
        )


_ARCH = re.compile(r"sm(\d+)")


def pipeline_arch(text: str | None, real: int) -> int:
    """The capability to choose the pipeline by. Raises `ValueError`."""
    if text is None:
        return real
    match = _ARCH.fullmatch(text)
    if match is None:
        raise ValueError(f"TRITON_OVERRIDE_ARCH must have the form ^sm(\\d+)$; got {text!r}")
    return int(match[1])


def make_options(given: dict[str, Any], arch: int) -> CUDAOptions:
    """Options from keywords (unknown ones are left out), with the target's defaults."""
    known = option_values(CUDAOptions, given)
    known["arch"] = knobs.runtime.override_arch or known.get("arch") or f"sm{arch}"
    arch = pipeline_arch(known["arch"], arch)
    if "supported_fp8_dtypes" not in known:
        newer = ("fp8e4nv",) if arch >= 89 else ()
        known["supported_fp8_dtypes"] = tuple(sorted({*CUDAOptions.supported_fp8_dtypes, *newer}))
    if "deprecated_fp8_dot_operand_dtypes" not in known and arch >= 90:
        known["deprecated_fp8_dot_operand_dtypes"] = ("fp8e4b15",)
    known.setdefault("max_num_imprecise_acc_default", 2**30 if arch == 90 else 0)
    if known.get("ptx_version") is None:
        known["ptx_version"] = knobs.nvidia.override_ptx_version
    check_cluster(known.get("num_ctas", 1), arch)
    return CUDAOptions(**known)
