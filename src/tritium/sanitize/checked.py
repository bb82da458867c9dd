"""Launches of kernels with checks on a GPU: each is waited for, then its report is read."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from tritium.sanitize.launch import CheckFailed, Checks
from tritium.sanitize.report import REPORT, clear, failed, run_checked


class Device(Protocol):
    """A GPU, as far as checks need it."""

    def host_memory(self, size: int) -> int:
        """The address, for the device and for the host, of memory that lives as long as the
        process. The host can read it after a fault of the device, too."""
        ...

    def moving_memory(self, size: int) -> int:
        """The address of memory that moves between the device and the host."""
        ...

    def free(self, address: int) -> object:
        """Free memory that moves."""
        ...

    def wait(self, stream: int) -> None:
        """Wait for what has been given to a stream."""
        ...


class NativeChecks(NamedTuple):
    """Part of a native launch that kernels with checks need.

    Attributes:
        pointers: the slots of the arguments whose extents follow the address of the report.
        report: that address; of the host's memory, which native launches alone use.
        found: raises `CheckFailed` for what is in the report.
        explain: raises the error to show for it, of a launch with a grid and arguments by name.
    """

    pointers: list[int]
    report: int
    found: Callable[[], NoReturn]
    explain: Callable[[BaseException, tuple[int, int, int], dict[str, Any]], None]


class Checked:
    """The checks in a kernel.

    Args:
        device: what it runs on.
        data: what the kernel's metadata says of them.
        params: the kernel's parameters, (name, type); None for constants.
        kernel: its name.

    Attributes:
        parameters: the further ones.
    """

    def __init__(
        self, device: Device, data: Mapping[str, Any],
        params: Sequence[tuple[str, str] | None], kernel: str,
    ):  # fmt: skip
        self._device = device
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
                self._report = self._device.host_memory(REPORT.itemsize)
            given = list(self._given(args))

            def wait(more: list[int]) -> None:
                launch([*args, *more])
                self._device.wait(stream)

            run_checked(self._checks, given, grid, self._report, wait, zeros=self._zeros)

    def _zeros(self, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """An array in memory that moves between the device and the host."""
        size = 8 * math.prod(shape)
        address = self._device.moving_memory(size)
        ctypes.memset(address, 0, size)
        buffer: Any = (ctypes.c_char * size).from_address(address)
        weakref.finalize(buffer, self._device.free, address)
        return np.frombuffer(buffer, np.int64).reshape(shape)

    def native(self, values: Callable[[Sequence[Any]], Sequence[Any]]) -> NativeChecks | None:
        """The part of native launches for the checks; None where each launch has memory of its own
        or tells watchers. `values`: the kernel's arguments among those of a launch."""
        checks = self._checks
        if checks.granules or checks.chip or checks.orders or not checks.reports:
            return None
        report = self._device.host_memory(REPORT.itemsize)
        clear(report)

        def explain(
            error: BaseException, grid: tuple[int, int, int], arguments: dict[str, Any]
        ) -> None:
            if isinstance(error, CheckFailed):
                given = list(self._given(values(tuple(arguments.values()))))
                raise checks.error(error, given, grid, None) from None

        return NativeChecks(checks.pointers, report, partial(_found, report), explain)

    def _given(self, args: Sequence[Any]) -> Iterator[Any]:
        """The kernel's parameters; a descriptor is several."""
        for rank, arg in zip(self._ranks, args, strict=True):
            if rank:
                yield from (arg.base, *map(int, arg.shape), *map(int, arg.strides))
            elif rank is not None:
                yield arg


def _found(report: int) -> NoReturn:
    """Raise for the failed check in a report, which is free then."""
    record = failed(report)
    assert record is not None, "native code has seen one"
    clear(report)
    raise record


def _rank(kind: str) -> int:
    """The rank of a descriptor; 0 for other parameters."""
    return kind.count(",") + 1 if kind.startswith("tensordesc") else 0


def _names(params: Sequence[tuple[str, str] | None]) -> list[str]:
    names: list[str] = []
    for name, kind in filter(None, params):
        parts = [f".{part}[{i}]" for part in ("shape", "strides") for i in range(_rank(kind))]
        names += [f"{name}.base", *(name + part for part in parts)] if parts else [name]
    return names
