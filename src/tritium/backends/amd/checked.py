"""Memory for the sanitizer's checks on an AMD GPU (`sanitize.checked.Device`)."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import Any

import numpy as np

from tritium.backends.amd.libhip import check, library

_COHERENT, _GLOBAL = 0x40000000, 1


def host_memory(size: int) -> int:
    """The address, for the device and for the host, of memory that lives as long as the process.
    The host can read it after a fault of the device, too."""
    hip, found = library(), library().pointer()
    check(hip.hipHostMalloc(ctypes.byref(found), size, _COHERENT), hip)
    return found.value or 0


def zeros(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An array in memory that moves between the device and the host."""
    hip, found, size = library(), library().pointer(), 8 * math.prod(shape)
    check(hip.hipMallocManaged(ctypes.byref(found), size, _GLOBAL), hip)
    address = found.value or 0
    ctypes.memset(address, 0, size)
    buffer: Any = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, hip.hipFree, address)
    return np.frombuffer(buffer, np.int64).reshape(shape)


def wait(stream: int) -> None:
    """Wait for what has been given to a stream."""
    check(library().hipStreamSynchronize(stream), library())
