"""Buffer instructions, and copies to LDS that go on beside the program.

A buffer has a base, a size and flags. Each 32-bit word whose offset is not below the size is out of
range: it is read as 0, and not written (AMD's "Instruction Set Architecture" of MI300, RDNA3,
RDNA4, "Buffer addressing", "Range checking"; raw buffers). A copy to LDS fills, from the first
lane's address on, as many bytes for each lane; lanes that do not take part leave theirs. Nothing is
there before the wave has waited for it (`s_waitcnt vmcnt`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.amd.execution.atomics import compare_and_swap, update
from tests.amd.execution.lanes import number
from tests.amd.execution.memory import ExecutionError
from tests.amd.execution.parse import Instruction
from tests.amd.execution.types import GLOBAL, from_bytes, select, spread, to_bytes, zero

_FLAGS = {"gfx9": 0x00020000, "gfx11": 0x31004000, "gfx12": 0x31004000}
"""The last word of the resource of raw buffers of 32-bit words, whose offsets are checked."""


def make(wave: Any, mask: Any, base: Any, stride: Any, size: Any, flags: Any) -> Any:
    family = wave.arch[:4] if wave.arch.startswith("gfx9") else wave.arch[:5]
    if number(flags) != _FLAGS[family] or number(stride):
        raise ExecutionError(f"a buffer of flags {number(flags):#x} on {wave.arch}")
    parts = np.broadcast_arrays(base, size.astype(np.uint64), flags.astype(np.uint64))
    return np.stack(parts, axis=1)


def _places(wave: Any, resource: Any, offset: Any, more: Any, size: int) -> tuple[Any, Any]:
    """The addresses of each lane's words, and whether they are in range: (lanes, words)."""
    word = min(size, 4)
    start = spread(offset, wave.lanes).astype(np.uint64)[:, None]
    steps = np.arange(0, size, word, dtype=np.uint64)
    within = start + steps  # no wrapping: wider than 32 bits
    resource = spread(resource, wave.lanes)
    rest = resource[:, 1:2] - spread(more, wave.lanes).astype(np.uint64)[:, None]
    addresses = resource[:, 0:1] + within + spread(more, wave.lanes).astype(np.uint64)[:, None]
    return addresses, within + np.uint64(word) <= rest


def _read(wave: Any, resource: Any, offset: Any, more: Any, size: int, mask: Any) -> Any:
    addresses, inside = _places(wave, resource, offset, more, size)
    word = min(size, 4)
    data = np.zeros((*addresses.shape, word), np.uint8)
    chosen = inside & mask[:, None]
    data[chosen] = wave.memory.read(addresses[chosen], word, word)
    return data.reshape(wave.lanes, size)


def load(wave: Any, ins: Instruction, mask: Any, resource: Any, offset: Any, more: Any,
         policy: Any) -> Any:  # fmt: skip
    return from_bytes(ins.type, _read(wave, resource, offset, more, ins.type.size, mask))


def store(wave: Any, ins: Instruction, mask: Any, value: Any, resource: Any, offset: Any,
          more: Any, policy: Any) -> None:  # fmt: skip
    type = ins.types[0]
    addresses, inside = _places(wave, resource, offset, more, type.size)
    word = min(type.size, 4)
    data = to_bytes(type, spread(value, wave.lanes)).reshape(*addresses.shape, word)
    chosen = inside & mask[:, None]
    wave.memory.write(addresses[chosen], data[chosen], word)


def atomic(wave: Any, ins: Instruction, mask: Any, value: Any, resource: Any, offset: Any,
           more: Any, policy: Any) -> Any:  # fmt: skip
    kind = ins.what.split(".")[6]
    addresses, inside = _places(wave, resource, offset, more, ins.type.size)
    whole = inside.all(axis=1)
    old = update(wave, kind, ins.type, GLOBAL, addresses[:, 0], value, mask & whole)
    return select(whole, old, zero(ins.type))


def swap(wave: Any, ins: Instruction, mask: Any, new: Any, wanted: Any, resource: Any,
         offset: Any, more: Any, policy: Any) -> Any:  # fmt: skip
    addresses, inside = _places(wave, resource, offset, more, ins.type.size)
    whole = inside.all(axis=1)
    old, _ = compare_and_swap(wave, ins.type, GLOBAL, addresses[:, 0], wanted, new, mask & whole)
    return select(whole, old, zero(ins.type))


def copy_from_buffer(wave: Any, ins: Instruction, mask: Any, resource: Any, to: Any, size: Any,
                     offset: Any, more: Any, fixed: Any, policy: Any) -> None:  # fmt: skip
    if number(fixed):
        raise NotImplementedError("an offset of a copy to LDS for both addresses")
    bytes_ = number(size)
    arguments = resource, spread(offset, wave.lanes).copy(), more, bytes_, mask.copy()
    _start(wave, mask, to, bytes_, lambda: _read(wave, *arguments))


def copy_from_pointer(wave: Any, ins: Instruction, mask: Any, source: Any, to: Any, size: Any,
                      fixed: Any, policy: Any) -> None:  # fmt: skip
    bytes_, addresses = number(size), spread(source, wave.lanes)

    def read() -> Any:
        data = np.zeros((wave.lanes, bytes_), np.uint8)
        data[mask] = wave.memory.read(addresses[mask], bytes_, 4)
        return data

    if number(fixed):
        raise NotImplementedError("an offset of a copy to LDS for both addresses")
    _start(wave, mask, to, bytes_, read)


def _start(wave: Any, mask: Any, to: Any, size: int, read: Any) -> None:
    if size not in ({4, 16} if wave.arch == "gfx950" else {4}) or wave.lanes != 64:
        raise ExecutionError(f"{wave.arch} copies no {size} bytes a lane to LDS")
    mask = mask.copy()
    first = spread(to, wave.lanes)[int(np.argmax(mask))]
    places = first + np.arange(wave.lanes, dtype=np.uint64) * np.uint64(size)

    def write(data: Any) -> None:
        wave.group.lds.write(places[mask], data[mask], 4, wave.number)

    write(np.full((wave.lanes, size), 0xC5, np.uint8))  # any time from now on
    wave.copies.append(lambda: write(read()))


def wait(wave: Any, ins: Instruction, mask: Any, code: Any) -> None:
    """`s_waitcnt` of gfx9: of copies to LDS, no more than so many stay under way; accesses of LDS
    are done where their count is 0."""
    bits = number(code)
    wave.finish_copies(bits & 15 | bits >> 14 << 4)
    if bits >> 8 & 15 == 0:
        wave.open_lds = False


def async_copy(wave: Any, ins: Instruction, mask: Any, source: Any, to: Any, fixed: Any,
               policy: Any) -> None:  # fmt: skip
    """`global_load_async_to_lds` of gfx1250: each lane has an address in LDS of its own."""
    size = int(ins.what.rsplit(".b", 1)[1]) // 8
    if wave.arch != "gfx1250" or number(fixed):
        raise ExecutionError(f"{wave.arch} has no {ins.what}")
    mask, from_, places = mask.copy(), spread(source, wave.lanes), spread(to, wave.lanes)

    def write(data: Any) -> None:
        wave.group.lds.write(places[mask], data, size, wave.number)

    write(np.full((int(mask.sum()), size), 0xC5, np.uint8))
    wave.copies.append(lambda: write(wave.memory.read(from_[mask], size, size)))


def wait_for_async(wave: Any, ins: Instruction, mask: Any, count: Any) -> None:
    wave.finish_copies(number(count))


BUFFERS: dict[str, Any] = {
    "raw.ptr.buffer.load.lds": copy_from_buffer, "raw.ptr.buffer.load": load,
    "raw.ptr.buffer.store": store, "raw.ptr.buffer.atomic.cmpswap": swap,
    "raw.ptr.buffer.atomic": atomic,
    "global.load.lds": copy_from_pointer, "s.waitcnt": wait,
    "global.load.async.to.lds": async_copy, "s.wait.asynccnt": wait_for_async,
}  # fmt: skip
"""By the beginning of LLVM's name behind `llvm.amdgcn.`; the functions get the instruction too."""
