"""Records that kernels write for the host, and their text. Launches and code generation import
this, so that launches import nothing that compiles."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SYMBOL = "tritium.output"
CAPACITY, HEAD_BYTES = 1 << 20, 8
"""Bytes of the buffer, and of what is in front of the records."""
_CONVERSION = re.compile(r"%(\d*)(?:ll)?([dufxp%])")
_STORED = {"d": "q", "u": "Q", "x": "Q", "p": "Q", "f": "d"}


class Format(NamedTuple):
    """A form of records: a format of C's `printf`, and whether it tells a failed assertion."""

    text: str
    fails: bool


def _python(conversion: re.Match[str]) -> str:
    """Python's form of a conversion of C's."""
    width, kind = conversion.groups()
    return "%#x" if kind == "p" else f"%{width}{kind}"


def show(data: bytes, formats: Sequence[Sequence[Any]]) -> None:
    """Print the records in a copy of the buffer. Raises `RuntimeError` for an assertion that
    failed. `formats`: as of `Format`."""
    failed = list[str]()
    for form, line in lines(data, [Format(*f) for f in formats]):
        failed += [line] if form.fails else []
        print(line, end="", file=sys.stderr if form.fails else sys.stdout)
    if failed:
        raise RuntimeError(f"device-side assert: {failed[0].rstrip()}")


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
