"""Memory for the sanitizer's checks on an NVIDIA GPU (`sanitize.checked.Device`)."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any

import numpy as np

from tritium.backends.nvidia.libcuda import check, library


def host_memory(size: int) -> int:
    """The address, for the device and for the host, of memory that lives as long as the process.
    The host can read it after a fault of the device, too."""
    driver = library()
    flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
    return int(check(driver.cuMemHostAlloc(size, flags)))


def zeros(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array in memory that moves between the device and the host."""
    driver, size = library(), 8 * math.prod(shape)
    address = int(check(driver.cuMemAllocManaged(
        size, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    )))  # fmt: skip
    ctypes.memset(address, 0, size)
    buffer: Any = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, driver.cuMemFree, address)
    return np.frombuffer(buffer, np.int64).reshape(shape)


def wait(stream: int) -> None:
    """Wait for what has been given to a stream."""
    driver = library()
    check(driver.cuStreamSynchronize(driver.CUstream(stream)))
