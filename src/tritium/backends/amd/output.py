"""Output of kernels and failed assertions: the records of `lower.host` in a buffer of each
device, whose address a code object has in a variable. Launches of kernels that have such ops wait
for the kernel, and read the buffer."""

from __future__ import annotations

import functools
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from ctypes import byref, create_string_buffer
from typing import Any, NamedTuple

from tritium.backends.amd.libhip import check, library

SYMBOL = "tritium.output"
CAPACITY, HEAD_BYTES = 1 << 20, 8
"""Bytes of the buffer, and of what is in front of the records."""
_CONVERSION = re.compile(r"%(\d*)(?:ll)?([dufxp%])")
_STORED = {"d": "q", "u": "Q", "x": "Q", "p": "Q", "f": "d"}


class Format(NamedTuple):
    """A form of records: a format of C's `printf`, and whether it tells a failed assertion."""

    text: str
    fails: bool


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
    failed = list[str]()
    for form, line in lines(data.raw, [Format(*f) for f in formats]):
        failed += [line] if form.fails else []
        print(line, end="", file=sys.stderr if form.fails else sys.stdout)
    if failed:
        raise RuntimeError(f"device-side assert: {failed[0].rstrip()}")


def _python(conversion: re.Match[str]) -> str:
    """Python's form of a conversion of C's."""
    width, kind = conversion.groups()
    return "%#x" if kind == "p" else f"%{width}{kind}"


def lines(data: bytes, formats: Sequence[Format]) -> Iterator[tuple[Format, str]]:
    """The records in a copy of the buffer, as text."""
    (used,) = struct.unpack_from("<Q", data)
    place, end = HEAD_BYTES, HEAD_BYTES + used
    while place < min(end, CAPACITY) and (number := struct.unpack_from("<Q", data, place)[0]):
        form = formats[number - 1]
        kinds = [kind for _, kind in _CONVERSION.findall(form.text) if kind != "%"]
        codes = "".join(_STORED[kind] for kind in kinds)
        values = struct.unpack_from(f"<{codes}", data, place + 8)
        yield form, _CONVERSION.sub(_python, form.text) % values
        place += 8 * (1 + len(kinds))
    if place < end:
        lost = f"{end - place} bytes of what kernels print are lost: {CAPACITY} have room\n"
        yield Format("", False), lost
