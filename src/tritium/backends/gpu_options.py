"""Compilation options that kernels for GPUs have on each backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tritium.backends.base import check_counts, check_threads, digest_of_options


@dataclass(frozen=True)
class GPUOptions:
    """Options of a kernel.

    Attributes:
        num_warps: warps of a thread block, a power of two.
        num_ctas: thread blocks of a program; more than one are a cluster, and share the program's
            tiles.
        num_stages: stages of software pipelining.
        ir_override: a file that replaces a stage's result.
        enable_fp_fusion: let a multiplication and an addition become one fused operation.
        launch_cooperative_grid: all programs run at the same time and may wait for each other.
        extern_libs: name and path of LLVM bitcode to link.
        debug: compile in `device_assert`.
        sanitize_overflow: with `debug`, check integer arithmetic for overflow.
        instrumentation_mode: the sanitizer's checks, or the profiler's mode, as
            `TRITON_INSTRUMENTATION_MODE` names them: one of `instrumentations`.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    ir_override: str | None = None
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    sanitize_overflow: bool = True
    instrumentation_mode: str = ""
    instrumentations: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_counts(self.num_warps, self.num_stages, self.num_ctas)
        check_threads(self.num_warps, self.warp_size)

    def hash(self) -> str:
        """A digest of all options and of the contents of the linked libraries."""
        return digest_of_options(self)
