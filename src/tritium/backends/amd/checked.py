"""Memory for the sanitizer's checks on an AMD GPU (`sanitize.checked.Device`)."""

from __future__ import annotations

import ctypes

from tritium.backends.amd.libhip import check, library

_COHERENT, _GLOBAL = 0x40000000, 1


def host_memory(size: int) -> int:
    """The address, for the device and for the host, of memory that lives as long as the process.
    The host can read it after a fault of the device, too."""
    hip, found = library(), library().pointer()
    check(hip.hipHostMalloc(ctypes.byref(found), size, _COHERENT), hip)
    return found.value or 0


def moving_memory(size: int) -> int:
    """The address of memory that moves between the device and the host."""
    hip, found = library(), library().pointer()
    check(hip.hipMallocManaged(ctypes.byref(found), size, _GLOBAL), hip)
    return found.value or 0


def free(address: int) -> None:
    """Free memory that moves."""
    library().hipFree(address)


def wait(stream: int) -> None:
    """Wait for what has been given to a stream."""
    check(library().hipStreamSynchronize(stream))
