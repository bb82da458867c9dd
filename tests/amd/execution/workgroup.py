"""Workgroups: waves in turn, from barrier to barrier, and the programs of a grid."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.amd.execution.memory import ExecutionError, LocalMemory, Memory
from tests.amd.execution.parse import parse
from tests.amd.execution.types import LDS
from tests.amd.execution.wave import Code, Wave
from tritium.native.loader import lock
from tritium.native.loader import parse as parse_llvm

_CLOCK = 1000


class Workgroup:
    """A program: its LDS, and its place in the grid."""

    def __init__(
        self, arch: str, memory: Memory, shared: int, place: Sequence[int], implicit: int
    ):
        self.arch, self.memory, self.lds = arch, memory, LocalMemory(shared)
        self.place, self.implicit, self._time = place, implicit, 0

    def clock(self) -> Any:
        """A counter that only grows."""
        self._time += _CLOCK
        return np.array([self._time], np.uint64)


class Kernel:
    """A kernel of LLVM IR; calling it runs a grid.

    `last_first`: the last wave and the last program run first.
    """

    def __init__(
        self, text: str, arch: str, lanes: int, num_warps: int, shared: int, *,
        last_first: bool = False,
    ):  # fmt: skip
        with lock, llvm.create_context() as context, parse_llvm(text, context) as module:
            module.verify()
            printed = str(module)
        self._module, self._arch, self._lanes = parse(printed), arch, lanes
        self._waves, self._shared, self._last_first = num_warps, shared, last_first
        self.variables = {
            v.name: np.frombuffer(v.data, np.uint8).copy() for v in self._module.globals
            if v.data is not None
        }  # fmt: skip
        addresses = {name: array.ctypes.data for name, array in self.variables.items()}
        local = {v.name: 0 for v in self._module.globals if v.space == LDS}
        self._code = Code(self._module, addresses | local)
        self._entry = next(
            f for f in self._code.functions.values()
            if f"amdgpu_kernel void @{f.name}(" in printed or
            f'amdgpu_kernel void @"{f.name}"(' in printed
        )  # fmt: skip
        self._types = self._module.functions[self._entry.name].types

    def __call__(
        self, slots: Sequence[int], grid: Sequence[int], ranges: Sequence[tuple[int, int]]
    ) -> None:
        """Run with arguments as they are in slots of 8 bytes; `ranges`: the addresses that the
        kernel may access."""
        sizes = [*grid, 1, 1][:3]
        implicit = np.array([*sizes, *[0] * 61], np.uint32)
        own = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in self.variables.values()]
        own.append((implicit.ctypes.data, implicit.ctypes.data + implicit.nbytes))
        memory, arguments = Memory([*ranges, *own]), self._arguments(slots)
        places = [tuple(reversed(p)) for p in product(*(range(n) for n in reversed(sizes)))]
        with np.errstate(all="ignore"):
            for place in reversed(places) if self._last_first else places:
                group = Workgroup(self._arch, memory, self._shared, place, implicit.ctypes.data)
                try:
                    self._run(group, arguments)
                except ExecutionError as error:
                    raise ExecutionError(f"{error} [program {place}]") from None

    def _arguments(self, slots: Sequence[int]) -> list[Any]:
        found = list[Any]()
        words = [np.array([slot & (1 << 64) - 1], np.uint64) for slot in slots]
        for word, type in zip(words, self._types, strict=True):
            size = 8 if type.kind == "ptr" else type.dtype.itemsize
            found.append(word.view(np.uint8)[:size].copy().view(type.dtype))
        return found

    def _run(self, group: Workgroup, arguments: Sequence[Any]) -> None:
        waves = [Wave(group, i, self._lanes) for i in range(self._waves)]
        running: list[Generator[None, None, Any]] = [
            w.run(self._code, self._entry, arguments, w.alive.copy()) for w in waves
        ]
        if self._last_first:
            running.reverse()
        while running:
            running = [wave for wave in running if _goes_on(wave)]
            group.lds.barriers += 1


def _goes_on(wave: Generator[None, None, Any]) -> bool:
    """Run a wave up to its next barrier."""
    try:
        next(wave)
    except StopIteration:
        return False
    return True
