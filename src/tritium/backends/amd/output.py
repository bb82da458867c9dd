"""Output of kernels and failed assertions: records in a buffer of each device, whose address a code
object has in a variable. Launches of kernels that have such ops wait for the kernel, and read the
buffer."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from ctypes import byref, create_string_buffer
from typing import Any

from tritium.backends.amd.libhip import check, library
from tritium.system.record_format import CAPACITY, HEAD_BYTES, SYMBOL, show


@functools.cache
def _buffer(device: int) -> int:
    """The address of a device's buffer, which is the current one."""
    hip, found = library(), library().pointer()
    check(hip.hipMalloc(byref(found), CAPACITY), hip)
    check(hip.hipMemcpyHtoD(found, bytes(CAPACITY), CAPACITY), hip)
    return found.value or 0


def connect(module: Any, kernel: bytes, device: int) -> None:
    """Tell a module that has been loaded where the buffer is."""
    if SYMBOL.encode() + b"\0" not in kernel:
        return
    hip, place, size = library(), library().pointer(), library().size()
    check(hip.hipModuleGetGlobal(byref(place), byref(size), module, SYMBOL.encode()), hip)
    check(hip.hipMemcpyHtoD(place, struct.pack("<Q", _buffer(device)), 8), hip)


def report(formats: Sequence[Sequence[Any]], stream: int) -> None:
    """Wait for a kernel and print what it has written. Raises `RuntimeError` for an assertion that
    failed."""
    hip, number = library(), library().int32()
    check(hip.hipStreamSynchronize(stream), hip)
    check(hip.hipGetDevice(byref(number)), hip)
    address, data = _buffer(number.value), create_string_buffer(CAPACITY)
    check(hip.hipMemcpyDtoH(data, address, HEAD_BYTES), hip)
    (used,) = struct.unpack_from("<Q", data)
    if used == 0:
        return
    size = min(HEAD_BYTES + used, CAPACITY)
    check(hip.hipMemcpyDtoH(data, address, size), hip)
    check(hip.hipMemcpyHtoD(address, bytes(size), size), hip)
    show(data.raw, formats)
