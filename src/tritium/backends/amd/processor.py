"""AMD GPUs as passes see them: `target.Processor`, by LLVM's name of the processor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tritium.backends.amd.matrix import matrix_cores
from tritium.target import Banks, Processor

SIMDS = 4
"""SIMDs that run a workgroup."""
MOST_WAVES = 8
"""The most waves of a SIMD that LLVM is asked for. Those of gfx9 have no more."""


@dataclass(frozen=True)
class Facts:
    """The facts about a processor.

    Attributes:
        lanes: the threads of a wave.
        shared: bytes of LDS that a workgroup may have.
        units: compute units that run a workgroup, each with as much LDS.
        banks: of LDS.
        pairs: the 16-bit floats of which one instruction adds two to global memory.
        copies: the bytes that a lane copies to LDS beside the program.
        barriers: whether threads and copies arrive at barriers in LDS.
        cluster: the most workgroups of a cluster.
        registers: of 32 bits, of all SIMDs that run a workgroup, and the most of a thread.
    """

    lanes: int
    shared: int = 1 << 16
    units: int = 1
    banks: int = 32
    pairs: tuple[str, ...] = ("f16", "bf16")
    copies: tuple[int, ...] = ()
    barriers: bool = False
    cluster: int = 1
    registers: tuple[int, int] = (4 * 512 * 64, 512)

    @property
    def buffer_atomics(self) -> tuple[str, ...]:
        """The element types of atomic operations on buffers."""
        return ("i32", "i64", "f32", *(["f64"] if self.lanes == 64 else []))


_RDNA3 = Facts(32, units=2, pairs=(), registers=(4 * 1536 * 32, 256))
FACTS = {
    "gfx90a": Facts(64, pairs=("f16",), copies=(4,)),
    "gfx942": Facts(64, copies=(4,)),
    "gfx950": Facts(64, shared=160 << 10, banks=64, copies=(4, 16)),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151"), _RDNA3),
    **dict.fromkeys(("gfx1102", "gfx1150"), replace(_RDNA3, registers=(4 * 1024 * 32, 256))),
    **dict.fromkeys(("gfx1200", "gfx1201"), Facts(32, units=2, registers=_RDNA3.registers)),
    "gfx1250": Facts(32, shared=320 << 10, banks=64, barriers=True, cluster=16,
                     registers=(4 * 1024 * 32, 1024)),
}
"""The processors by name. Waves of 64 on the processors from gfx10 on are not used, as the
reference has it."""


def facts_of(arch: object) -> Facts:
    """The facts about a processor. Raises `ValueError` for one that is not known."""
    found = FACTS.get(arch) if isinstance(arch, str) else None
    if found is None:
        raise ValueError(
            f"GPUTarget('hip', {arch!r}, ...): the architecture must be one of {', '.join(FACTS)}"
        )
    return found


def check_cluster(num_ctas: int, arch: str) -> None:
    """Raise `ValueError` for clusters of workgroups that the processor does not have."""
    most = facts_of(arch).cluster
    if num_ctas > most or num_ctas & (num_ctas - 1):
        allowed = "1" if most == 1 else f"a power of two up to {most}"
        why = "a program is one workgroup, " if most == 1 else ""
        raise ValueError(f"num_ctas is {num_ctas}, for {arch}: {why}{allowed} is required")


def waves_beside_lds(arch: str, num_warps: int, shared: int) -> str:
    """The least and the most waves of a SIMD, for LLVM, of workgroups of `num_warps` waves
    and `shared` bytes of LDS."""
    facts = facts_of(arch)
    workgroups = facts.shared * facts.units // max(shared, 1)
    least, most = (max(1, count * num_warps // SIMDS) for count in (1, workgroups))
    return f"{least},{min(most, MOST_WAVES)}"


@lru_cache
def processor(arch: str) -> Processor:
    """The processor of a name: gfx942."""
    facts, unit = facts_of(arch), matrix_cores(arch)
    return Processor(
        name=f"hip:{arch}", lanes=facts.lanes, max_shared=facts.shared,
        sum_widths=tuple((kind, 2) for kind in facts.pairs), banks=Banks(facts.banks),
        buffers=True, even_accesses=True, ahead_in_registers=True, transposes_in_threads=True,
        lane_copy_bytes=facts.copies, registers=facts.registers, bfloat_by_float=arch != "gfx1250",
        buffer_atomics=facts.buffer_atomics,
        least_k_bytes=32, matrix_units=(unit,), float8_products=tuple(map(str, unit.float8)),
    )  # fmt: skip
