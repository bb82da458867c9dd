"""The native end of a launch on AMD GPUs: slots to `hipModuleLaunchKernel`, on the caller's
stream. Each of the kernel's parameters is a slot, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.launch.device_end import Calls, EndWriter, address_of_end, descriptor_slots, slot_of
from tritium.launch.ends import End, Link, Slot
from tritium.native.records import Record, allocate
from tritium.native.writer import NULL, Code, i32

STATE = Record(
    ("function", "ptr"), ("launch", "ptr"), ("stream", "ptr"), ("device", "ptr"),
    ("failed", "ptr"), ("allocate", "ptr"), ("threads", "i32"), ("shared", "i32"),
    ("parameter_count", "i64"),
)  # fmt: skip
"""`launch`: the driver's function, for cooperative launches another."""
ROCM = 10
"""DLPack's number."""


class _Writer(EndWriter):
    """Writes `tritium_hip_end`."""

    state, symbol = STATE, "tritium_hip_end"

    def write(self) -> None:
        self.write_failure()
        arguments = [("ptr", "state"), ("ptr", "grid"), ("i64", "total"), ("ptr", "slots")]
        f = Code(self.module, self.symbol, arguments, "i1", exported=True)
        state, grid, total, slots = f.arguments
        count = f.read(state, STATE, "parameter_count")
        pointers = self.room(f, count)
        with f.counted(count) as (i, _):
            f.put(f.gep("ptr", pointers, i), f.gep("i64", slots, i))
        stream = self.stream(f, state)
        memory = self.scratch(f, state, total, stream, pointers)
        wide = [f.get("i64", f.offset(grid, 8 * axis)) for axis in range(3)]
        sizes = [f.cast("trunc", size, "i32") for size in wide]
        block = [f.read(state, STATE, "threads"), i32(1), i32(1), f.read(state, STATE, "shared")]
        given = [f.read(state, STATE, "function"), *sizes, *block, stream, pointers]
        # The function of cooperative launches lacks the last parameter, which it then does not look
        # at. The driver waits where its queue is full.
        status = self.waiting(f, f.read(state, STATE, "launch"), *given, NULL)
        self.finish(f, state, memory, status)


def slots_of(params: Sequence[tuple[str, str]]) -> list[Slot] | None:
    """The slots of parameters (name, type); None where there is one that is not known. Descriptors
    are passed as their tensor, shape and strides."""
    slots: list[Slot] = []
    for _, kind in params:
        if kind.startswith("tensordesc"):
            slots += descriptor_slots(kind, ROCM)
        elif (slot := slot_of(kind, ROCM)) is not None:
            slots.append(slot)
        else:
            return None
    return slots


def make_end(
    link: Link, calls: Calls, function: int, params: Sequence[tuple[str, str]], metadata: Any
) -> End | None:
    """A kernel's end; None for parameters that it does not know. `function`: the driver's handle;
    `params`: (name, type) of the arguments that the kernel takes."""
    slots = slots_of(params)
    if slots is None:
        return None
    state, memory = allocate(STATE.size, 64)
    values, kept = calls.fields(metadata)
    STATE.write(state, function=function, parameter_count=len(slots), **values)
    return End(address_of_end(_Writer, link), state, slots, (memory, *kept))
