"""Time on an AMD GPU: events, as `torch.cuda` has them."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_float

from tritium.backends.amd.libhip import check, library

CACHE_BYTES = 256 << 20
"""More than the last level of any GPU's caches."""


class Event:
    """A point of a stream."""

    def __init__(self, stream: Callable[[], int], enable_timing: bool = True):
        """`stream` tells the current one."""
        self._stream, self._hip = stream, library()
        self._handle = self._hip.pointer()
        flags = 0 if enable_timing else 2  # hipEventDisableTiming
        check(self._hip.hipEventCreateWithFlags(byref(self._handle), flags), self._hip)

    def record(self, stream: int | None = None) -> None:
        """Mark what has been given to the stream so far."""
        place = self._stream() if stream is None else stream
        check(self._hip.hipEventRecord(self._handle, place), self._hip)

    def synchronize(self) -> None:
        """Wait until the device has come here."""
        check(self._hip.hipEventSynchronize(self._handle), self._hip)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        found = c_float()
        status = self._hip.hipEventElapsedTime(byref(found), self._handle, end._handle)
        check(status, self._hip)
        return found.value

    def __del__(self) -> None:
        self._hip.hipEventDestroy(self._handle)


class Interface:
    """Events and synchronization of the current device."""

    def __init__(self, stream: Callable[[], int]):
        self._stream = stream

    def Event(self, enable_timing: bool = True) -> Event:
        return Event(self._stream, enable_timing)

    def synchronize(self) -> None:
        """Wait for all that the device has been given."""
        check(library().hipDeviceSynchronize())


class Cache:
    """Memory larger than the caches."""

    def __init__(self) -> None:
        self._hip = library()
        self._address = self._hip.pointer()
        check(self._hip.hipMalloc(byref(self._address), CACHE_BYTES), self._hip)

    def zero_(self) -> None:
        """Write all of it, which evicts what the caches hold."""
        check(self._hip.hipMemset(self._address, 0, CACHE_BYTES), self._hip)

    def __del__(self) -> None:
        self._hip.hipFree(self._address)
