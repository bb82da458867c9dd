"""Occupancy: the programs that a multiprocessor holds at a time, by the limits of CUDA's compute
capabilities (CUDA C++ Programming Guide, technical specifications)."""

from __future__ import annotations

from typing import NamedTuple

_LANES, _REGISTERS, _REGISTER_UNIT, _SHARED_UNIT, _RESERVED = 32, 65536, 256, 128, 1024
"""Threads of a warp; registers of a multiprocessor, and how many a warp gets at a time; bytes of
shared memory that a block gets at a time, and those that CUDA keeps of each."""
_LIMITS = {
    75: (1024, 16, 64), 80: (2048, 32, 164), 86: (1536, 16, 100), 87: (1536, 16, 164),
    89: (1536, 24, 100), 90: (2048, 32, 228), 100: (2048, 32, 228), 103: (2048, 32, 228),
    120: (1536, 24, 100), 121: (1536, 24, 100),
}  # fmt: skip
"""Threads, blocks and KiB of shared memory of a multiprocessor."""


class Occupancy(NamedTuple):
    """Blocks of a kernel on a multiprocessor.

    Attributes:
        blocks: how many.
        warps, most_warps: how many warps these have, and how many there may be.
        limit: what allows no more: "threads", "blocks", "registers" or "shared memory".
    """

    blocks: int
    warps: int
    most_warps: int
    limit: str


def occupancy(arch: int, warps: int, registers: int, shared: int) -> Occupancy | None:
    """The occupancy of blocks of `warps` warps with `registers` a thread and `shared` bytes of
    shared memory; None where the limits of `arch` are not known."""
    if arch not in _LIMITS:
        return None
    threads, blocks, memory = _LIMITS[arch]
    of_warp = -(-max(registers, 1) * _LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    used = -(-(shared + (_RESERVED if arch >= 80 else 0)) // _SHARED_UNIT) * _SHARED_UNIT
    limits = {
        "threads": threads // _LANES // warps, "blocks": blocks,
        "registers": _REGISTERS // of_warp // warps,
        "shared memory": memory * 1024 // used if used else blocks,
    }  # fmt: skip
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps, threads // _LANES, limit)
