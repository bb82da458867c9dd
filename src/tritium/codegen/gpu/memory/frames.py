"""The shared memory of functions, fitted to what the processor has.

Where a kernel needs more, scratch that is small shares its place too, and then changes of layout
work in rounds, each through half of the memory of before: the largest first, of those that live
beside what is beyond the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritium.analysis.memory_aliases import replaced_uses
from tritium.analysis.regions import calls_in
from tritium.analysis.shared_memory import ALIGNMENT, Allocation, allocate
from tritium.codegen.gpu.hardware import Hardware
from tritium.codegen.gpu.partitions import STATE_BYTES, plan_bytes
from tritium.ir.locations import source_position
from tritium.ir.source_errors import error_at
from tritium.ops.attributes import PARTS

LEAST_BYTES = 2048
"""Scratch that is not made smaller."""


@dataclass(frozen=True)
class Frame:
    """A function's shared memory: `allocation`, from `start` on."""

    allocation: Allocation
    start: int

    @property
    def end(self) -> int:
        return self.start + self.allocation.size


@dataclass(frozen=True)
class Frames:
    """The frames of the functions that a kernel calls, the bytes that they need together, and the
    ops that work in rounds: log2 of how many."""

    of: Mapping[Any, Frame]
    size: int
    rounds: Mapping[Any, int] = field(default_factory=dict[Any, int])


def frames(functions: Sequence[Any], kernel: Any, hardware: Hardware) -> Frames:
    """The frames of all functions that the kernel calls, each above those of its callers. Changes
    of layout work in rounds where they say so (`ttg.parts`)."""
    rounds = {op: n for f in functions for op in f.walk() if (n := _asked_rounds(op, hardware))}
    sizes = _scratch_sizes(rounds, hardware)
    found = _placed(functions, kernel, sizes, True)
    if found.size > hardware.max_shared:
        found = _placed(functions, kernel, sizes, False)
    _check_replaced(found)
    return Frames(found.of, found.size, rounds)


def _check_replaced(found: Frames) -> None:
    """Raise `CompilationError` for a use of memory that the iteration's own allocation replaced."""
    for function, frame in found.of.items():
        uses = replaced_uses(function.regions[0].blocks, frame.allocation.aliases)
        if (first := next(uses, None)) is not None:
            use, allocation = first
            position = source_position(allocation.location)
            where = f" at line {position[1]}" if position else ""
            raise error_at(
                use.location,
                "shared memory that the iteration before allocated is used behind the allocation"
                f"{where} that takes it again in this one; allocate it before the loop, with an "
                "axis of buffers, or use it before",
            )


def fitted_frames(functions: Sequence[Any], kernel: Any, hardware: Hardware) -> Frames:
    """The frames of all functions, within the memory of the processor if that is possible, else the
    smallest that were found."""
    found = frames(functions, kernel, hardware)
    rounds = dict(found.rounds)
    sizes = _scratch_sizes(rounds, hardware)
    while found.size > hardware.max_shared:
        op = _to_halve(found, rounds, hardware)
        if op is None:
            break
        rounds[op] = rounds.get(op, 0) + 1
        found = _placed(functions, kernel, sizes, False)
    return Frames(found.of, found.size, rounds)


def _asked_rounds(op: Any, hardware: Hardware) -> int:
    """The log2 of the rounds that an op asks for, or of the most below that it can work in."""
    if PARTS not in op.attributes:
        return 0
    asked = op.attributes[PARTS].value.data.bit_length() - 1
    able = (n for n in range(asked, 0, -1) if hardware.scratch_in_rounds(op, n) is not None)
    return next(able, 0)


def _scratch_sizes(rounds: Mapping[Any, int], hardware: Hardware) -> Callable[[Any], int]:
    """A function that gives the scratch bytes of an op, in its rounds at the time of the call."""

    def scratch_bytes(op: Any) -> int:
        size = hardware.scratch_in_rounds(op, rounds[op]) if op in rounds else None
        return hardware.scratch_bytes(op) if size is None else size

    return scratch_bytes


def _to_halve(found: Frames, rounds: Mapping[Any, int], hardware: Hardware) -> Any:
    """The op with the most scratch of those that can work in twice as many rounds; None without
    any."""
    able = [
        (place.end - place.start, op)
        for op, place in _beside_the_excess(found, hardware.max_shared)
        if place.end - place.start > LEAST_BYTES
        and hardware.scratch_in_rounds(op, rounds.get(op, 0) + 1) is not None
    ]
    return max(able, key=lambda pair: pair[0], default=(0, None))[1]


def _beside_the_excess(found: Frames, limit: int) -> Iterator[tuple[Any, Any]]:
    """The ops whose memory is in use while something is beyond the limit, with their ranges."""
    for frame in found.of.values():
        places = frame.allocation.places
        beyond = [p for p in places.values() if frame.start + p.end > limit]
        for op, place in places.items():
            if any(place.first <= p.last and p.first <= place.last for p in beyond):
                yield op, place


def _placed(
    functions: Sequence[Any], kernel: Any, scratch_bytes: Callable[[Any], int], apart: bool
) -> Frames:
    """`apart`: small scratch has memory of its own."""
    by_name = {f.sym_name: f for f in functions}
    placed: dict[Any, Frame] = {}

    def place(op: Any, start: int) -> None:
        known = placed.get(op)
        if known is None:
            known = Frame(allocate(op.regions[0].blocks, scratch_bytes, apart=apart), -1)
        if known.start >= start:
            return
        placed[op] = frame = Frame(known.allocation, start)
        for call in calls_in(op):
            place(by_name[call.callee], -(-frame.end // ALIGNMENT) * ALIGNMENT)

    place(kernel, 0)
    size = max((f.end for f in placed.values() if f.allocation.size), default=0)
    if more := plan_bytes(kernel):
        size = -(-size // STATE_BYTES) * STATE_BYTES + more
    return Frames(placed, size)
