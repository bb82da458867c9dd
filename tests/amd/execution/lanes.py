"""Moves between the lanes of a wave, and what a wave knows of itself.

DPP, `ds_swizzle_b32`, `ds_bpermute_b32`, `v_permlane*`, `v_readlane`, `v_readfirstlane`, `v_mbcnt`:
after AMD's "Instruction Set Architecture" of MI300 (CDNA3), CDNA4, RDNA3 and RDNA4, the sections
"Data parallel primitives" and the instructions' descriptions, and LLVM's "User Guide for AMDGPU
Backend" (intrinsics). A lane that does not take part gives 0, or leaves what there was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.types import spread


def number(value: Any) -> int:
    """An operand that must be a constant of the instruction."""
    if len(value) != 1:
        raise ExecutionError("an operand that must be a constant is not one")
    return int(value[0])


def _dpp_source(wave: Any, control: int) -> tuple[Any, Any]:
    """The lane that each lane reads under a control of DPP, and whether there is one."""
    lane, gfx9 = np.arange(wave.lanes), wave.arch.startswith("gfx9")
    row, place = lane & ~15, lane & 15
    valid = np.ones(wave.lanes, bool)
    if control < 0x100:  # quad_perm
        return (lane & ~3) | (control >> (2 * (lane & 3)) & 3), valid
    shift = control & 15
    if 0x101 <= control <= 0x10F:  # row_shl: from the lane that is higher by so many
        return row | (place + shift & 15), place + shift < 16
    if 0x111 <= control <= 0x11F:  # row_shr
        return row | (place - shift & 15), place >= shift
    if 0x121 <= control <= 0x12F:  # row_ror
        return row | (place - shift & 15), valid
    if control == 0x140:  # row_mirror
        return row | 15 - place, valid
    if control == 0x141:  # row_half_mirror
        return lane & ~7 | 7 - (lane & 7), valid
    if 0x150 <= control <= 0x15F and (not gfx9 or wave.arch != "gfx908"):  # row_share
        return row | shift, valid
    if 0x160 <= control <= 0x16F and not gfx9:  # row_xmask
        return row | (place ^ shift), valid
    if control in (0x142, 0x143) and gfx9:  # row_bcast15, row_bcast31
        step = 16 if control == 0x142 else 32
        return (lane & ~(step - 1)) - 1, lane >= step
    raise ExecutionError(f"DPP's control {control:#x} is none of {wave.arch}")


def update_dpp(wave: Any, mask: Any, old: Any, source: Any, *numbers: Any) -> Any:
    control, rows, banks, bound = map(number, numbers)
    lane = np.arange(wave.lanes)
    which, valid = _dpp_source(wave, control)
    source, old = spread(source, wave.lanes), spread(old, wave.lanes)
    which = np.where(valid, which, 0)
    valid = valid & mask[which]
    found = np.where(valid, source[which], 0 if bound else old)
    written = (rows >> lane // 16 & 1) & (banks >> lane // 4 % 4 & 1)
    return np.where(written == 1, found, old).astype(source.dtype)


def ds_swizzle(wave: Any, mask: Any, word: Any, offset: Any) -> Any:
    pattern, lane = number(offset), np.arange(wave.lanes)
    word = spread(word, wave.lanes)
    if pattern & 0x8000:
        if pattern & 0x7F00:
            raise NotImplementedError(f"ds_swizzle of the pattern {pattern:#x}")
        which = lane & ~3 | pattern >> 2 * (lane & 3) & 3
    else:
        kept, set_bits, flipped = pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31
        which = lane & ~31 | ((lane & 31 & kept) | set_bits) ^ flipped
    return np.where(mask[which], word[which], 0).astype(word.dtype)


def ds_bpermute(wave: Any, mask: Any, address: Any, word: Any) -> Any:
    which = (spread(address, wave.lanes) >> np.uint32(2)).astype(np.int64) % wave.lanes
    word = spread(word, wave.lanes)
    return np.where(mask[which], word[which], 0).astype(word.dtype)


def _permlane(other: bool) -> Any:
    def permlane(
        wave: Any, mask: Any, old: Any, word: Any, low: Any, high: Any, fetch: Any, bound: Any
    ) -> Any:
        if wave.arch.startswith("gfx9"):
            raise ExecutionError(f"{wave.arch} has no v_permlane16 or v_permlanex16")
        lane = np.arange(wave.lanes)
        places = (number(high) << 32 | number(low)) >> 4 * (lane & 15).astype(object) & 15
        which = (lane & ~15 ^ (16 if other else 0)) | places.astype(np.int64)
        word, old = spread(word, wave.lanes), spread(old, wave.lanes)
        rest = np.zeros_like(word) if number(bound) else old
        return np.where(mask[which] | bool(number(fetch)), word[which], rest)

    return permlane


def _swap(distance: int) -> Any:
    def swap(wave: Any, mask: Any, first: Any, second: Any, fetch: Any, bound: Any) -> Any:
        if wave.arch != "gfx950":
            raise ExecutionError(f"{wave.arch} has no v_permlane{distance}_swap")
        wave.need_all(mask, f"v_permlane{distance}_swap")
        first, second = (spread(v, wave.lanes).copy() for v in (first, second))
        for start in range(0, wave.lanes, 2 * distance):
            lower = slice(start, start + distance)
            upper = slice(start + distance, start + 2 * distance)
            first[upper], second[lower] = second[lower].copy(), first[upper].copy()
        return first, second

    return swap


def readfirstlane(wave: Any, mask: Any, value: Any) -> Any:
    first = int(np.argmax(mask))
    return spread(value, wave.lanes)[first : first + 1]


def readlane(wave: Any, mask: Any, value: Any, lane: Any) -> Any:
    which = int(spread(lane, wave.lanes)[int(np.argmax(mask))]) % wave.lanes
    return spread(value, wave.lanes)[which : which + 1]


def ballot(wave: Any, mask: Any, condition: Any) -> Any:
    bits = spread(condition, wave.lanes) & mask
    total = sum(1 << int(lane) for lane in np.flatnonzero(bits))
    return np.array([total], np.uint32 if wave.lanes == 32 else np.uint64)


def _mbcnt(high: bool) -> Any:
    def mbcnt(wave: Any, mask: Any, bits: Any, base: Any) -> Any:
        lane = np.arange(wave.lanes) - (32 if high else 0)
        below = [(1 << min(max(int(n), 0), 32)) - 1 for n in lane]
        chosen = spread(bits, wave.lanes)
        counts = [(int(b) & m).bit_count() for b, m in zip(chosen, below, strict=True)]
        return (np.array(counts, np.uint32) + base).astype(np.uint32)

    return mbcnt


def _workitem(wave: Any, mask: Any) -> Any:
    return (np.arange(wave.lanes) + wave.number * wave.lanes).astype(np.uint32)


def _program(axis: int) -> Any:
    return lambda wave, mask: np.array([wave.group.place[axis]], np.uint32)


def perm(wave: Any, mask: Any, first: Any, second: Any, selector: Any) -> Any:
    """Bytes 0 to 3 of the second word, 4 to 7 the first's; 8 to 11 repeat the signs of bytes 1, 3,
    5 and 7, 12 is a byte of zeros, and what is above one of ones."""
    words = spread(second, wave.lanes).astype(np.uint64)
    words |= spread(first, wave.lanes).astype(np.uint64) << np.uint64(32)
    found = np.zeros(wave.lanes, np.uint64)
    for byte in range(4):
        source = int(number(selector)) >> 8 * byte & 255
        if source < 8:
            bits = words >> np.uint64(8 * source) & np.uint64(255)
        elif source < 12:
            bits = (words >> np.uint64(16 * (source - 8) + 15) & np.uint64(1)) * np.uint64(255)
        else:
            bits = np.full(wave.lanes, 0 if source == 12 else 255, np.uint64)
        found |= bits << np.uint64(8 * byte)
    return found.astype(np.uint32)


def _nothing(wave: Any, mask: Any, *arguments: Any) -> None:
    """An order of scheduling, which changes no result."""


LANES: dict[str, Any] = {
    "update.dpp": update_dpp, "ds.swizzle": ds_swizzle, "ds.bpermute": ds_bpermute,
    "permlane16": _permlane(False), "permlanex16": _permlane(True),
    "permlane16.swap": _swap(16), "permlane32.swap": _swap(32),
    "readfirstlane": readfirstlane, "readlane": readlane, "ballot": ballot,
    "perm": perm, "mbcnt.lo": _mbcnt(False), "mbcnt.hi": _mbcnt(True),
    "workitem.id.x": _workitem, "workgroup.id.x": _program(0), "workgroup.id.y": _program(1),
    "workgroup.id.z": _program(2),
    "implicitarg.ptr": lambda wave, mask: np.array([wave.group.implicit], np.uint64),
    "s.getreg": lambda wave, mask, register: np.zeros(1, np.uint32),
    "s.setprio": _nothing, "sched.barrier": _nothing, "sched.group.barrier": _nothing,
}  # fmt: skip
"""By LLVM's name without `llvm.amdgcn.` and the types."""
