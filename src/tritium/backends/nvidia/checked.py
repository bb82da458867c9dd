"""Launches of kernels with checks of the sanitizer: each is waited for, then its report is read."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tritium.backends.nvidia.libcuda import check, library
from tritium.sanitize.launch import Checks
from tritium.sanitize.report import REPORT, run_checked


class Checked:
    """The checks in a kernel.

    Args:
        data: what the kernel's metadata says of them.
        params: the kernel's parameters, (name, type); None for constants.
        kernel: its name.

    Attributes:
        parameters: the further ones.
    """

    def __init__(
        self, data: Mapping[str, Any], params: Sequence[tuple[str, str] | None], kernel: str
    ):
        self._ranks = [None if param is None else _rank(param[1]) for param in params]
        self._checks = Checks(data, _names(params), kernel)
        self.parameters = [(name, "i64") for name in self._checks.parameters]
        self._running = threading.Lock()
        self._report: int | None = None

    def run(
        self, launch: Callable[[list[Any]], None], args: Sequence[Any], grid: Sequence[int],
        stream: int,
    ) -> None:  # fmt: skip
        """Launch with these arguments, and wait. Raises `SanitizerError` for a failed check."""
        with self._running:
            if self._report is None:
                self._report = host_memory(REPORT.itemsize)
            given = list(self._given(args))
            wait = partial(_launch_and_wait, launch, args, stream)
            run_checked(self._checks, given, grid, self._report, wait, zeros=managed_zeros)

    def _given(self, args: Sequence[Any]) -> Iterator[Any]:
        """The kernel's parameters; a descriptor is several."""
        for rank, arg in zip(self._ranks, args, strict=True):
            if rank:
                yield from (arg.base, *map(int, arg.shape), *map(int, arg.strides))
            elif rank is not None:
                yield arg


def _rank(kind: str) -> int:
    """The rank of a descriptor; 0 for other parameters."""
    return kind.count(",") + 1 if kind.startswith("tensordesc") else 0


def _names(params: Sequence[tuple[str, str] | None]) -> list[str]:
    names: list[str] = []
    for name, kind in filter(None, params):
        parts = [f".{part}[{i}]" for part in ("shape", "strides") for i in range(_rank(kind))]
        names += [f"{name}.base", *(name + part for part in parts)] if parts else [name]
    return names


def _launch_and_wait(
    launch: Callable[[list[Any]], None], args: Sequence[Any], stream: int, more: list[int]
) -> None:
    launch([*args, *more])
    driver = library()
    check(driver.cuStreamSynchronize(driver.CUstream(stream)))


def host_memory(size: int) -> int:
    """The address, for the device and for the host, of memory that lives as long as the process.
    The host can read it after a fault of the device, too."""
    driver = library()
    flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
    return int(check(driver.cuMemHostAlloc(size, flags)))


def managed_zeros(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array in memory that moves between the device and the host."""
    driver, size = library(), 8 * math.prod(shape)
    address = int(check(driver.cuMemAllocManaged(
        size, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    )))  # fmt: skip
    ctypes.memset(address, 0, size)
    buffer: Any = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, driver.cuMemFree, address)
    return np.frombuffer(buffer, np.int64).reshape(shape)
