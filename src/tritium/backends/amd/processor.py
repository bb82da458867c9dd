"""AMD GPUs as passes see them: `target.Processor`, by LLVM's name of the processor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tritium.backends.amd.matrix import matrix_cores
from tritium.target import Banks, Processor

SIMDS = 4
"""SIMDs that run a workgroup."""
MOST_WAVES = 8
"""The most waves of a SIMD that LLVM is asked for. Those of gfx9 have no more."""


@dataclass(frozen=True)
class AMDProcessor(Processor):
    """The facts about a processor.

    Attributes:
        units: compute units that run a workgroup, each with as much LDS.
        barriers: whether threads and copies arrive at barriers in LDS, and a data mover copies
            blocks of tensors.
        cluster: the most workgroups of a cluster.
    """

    units: int = 1
    barriers: bool = False
    cluster: int = 1


_CDNA = AMDProcessor(
    name="", lanes=64, max_shared=1 << 16, sum_widths=(("f16", 2), ("bf16", 2)), least_k_bytes=32,
    buffers=True, buffer_atomics=("i32", "i64", "f32", "f64"), lane_copy_bytes=(4,),
    even_accesses=True, ahead_in_registers=True, transposes_in_threads=True, bfloat_by_float=True,
    registers=(4 * 512 * 64, 512),
)  # fmt: skip
_RDNA4 = replace(_CDNA, lanes=32, units=2, buffer_atomics=("i32", "i64", "f32"),
                 lane_copy_bytes=(), registers=(4 * 1536 * 32, 256))  # fmt: skip
_RDNA3 = replace(_RDNA4, sum_widths=())
PROCESSORS = {
    "gfx90a": replace(_CDNA, sum_widths=(("f16", 2),)), "gfx942": _CDNA,
    "gfx950": replace(_CDNA, max_shared=160 << 10, banks=Banks(64), lane_copy_bytes=(4, 16)),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151"), _RDNA3),
    **dict.fromkeys(("gfx1102", "gfx1150"), replace(_RDNA3, registers=(4 * 1024 * 32, 256))),
    **dict.fromkeys(("gfx1200", "gfx1201"), _RDNA4),
    "gfx1250": replace(_RDNA4, units=1, max_shared=320 << 10, banks=Banks(64), barriers=True,
                       cluster=16, registers=(4 * 1024 * 32, 1024), bfloat_by_float=False),
}  # fmt: skip
"""The processors by name. Waves of 64 on the processors from gfx10 on are not used, as the
reference has it."""


@cache
def processor(arch: object) -> AMDProcessor:
    """The processor of a name: gfx942. Raises `ValueError` for one that is not known."""
    found = PROCESSORS.get(arch) if isinstance(arch, str) else None
    if found is None:
        raise ValueError(f"GPUTarget('hip', {arch!r}, ...): the architecture must be one of "
                         f"{', '.join(PROCESSORS)}")  # fmt: skip
    unit = matrix_cores(str(arch))
    return replace(found, name=f"hip:{arch}", matrix_units=(unit,),
                   float8_products=tuple(map(str, unit.float8)))  # fmt: skip


def check_cluster(num_ctas: int, arch: str) -> None:
    """Raise `ValueError` for clusters of workgroups that the processor does not have."""
    most = processor(arch).cluster
    if num_ctas > most or num_ctas & (num_ctas - 1):
        allowed = "1" if most == 1 else f"a power of two up to {most}"
        why = "a program is one workgroup, " if most == 1 else ""
        raise ValueError(f"num_ctas is {num_ctas}, for {arch}: {why}{allowed} is required")


def waves_beside_lds(arch: str, num_warps: int, shared: int) -> str:
    """The least and the most waves of a SIMD, for LLVM, of workgroups of `num_warps` waves
    and `shared` bytes of LDS."""
    facts = processor(arch)
    workgroups = facts.max_shared * facts.units // max(shared, 1)
    least, most = (max(1, count * num_warps // SIMDS) for count in (1, workgroups))
    return f"{least},{min(most, MOST_WAVES)}"
