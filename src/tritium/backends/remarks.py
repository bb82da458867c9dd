"""Remarks on what makes a kernel slow, for `MLIR_ENABLE_DIAGNOSTICS=remarks`: what backends share.

A kernel's remarks are one line: equal ones are grouped, with the places of all,

    file.py:12:8: remark: TEXT (also at 15:8, 18:8); file.py:30:4: remark: OTHER TEXT

and a line is written only if it says something new: not for each candidate of an autotuner.
`knobs.compilation.diagnostics` is a list of words: `remarks` asks for them, `operations` adds the
operations, `stacktraces` where in the compiler the remarks were made.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from tritium import knobs
from tritium.ir.locations import source_position

said: set[tuple[str, str, frozenset[str]]] = set()
"""(place, text without its numbers, words) of the remarks written by this process."""


def wanted() -> bool:
    """True if remarks are asked for."""
    return "remarks" in _asked_for()


def _asked_for() -> frozenset[str]:
    words = knobs.compilation.diagnostics
    return words | {"remarks"} if knobs.compilation.remark else words


def is_new(remarks: Iterable[tuple[str, str]]) -> bool:
    """True if one of some (place, text) was not written yet; all count as written from now on."""
    told = {(place, re.sub(r"\d+", "#", text), _asked_for()) for place, text in remarks}
    new = not told <= said
    said.update(told)
    return new


class Remarks:
    """The remarks on a kernel."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[str, ...]]] = {}
        self._notes: list[str] = []

    def add(self, op: Any, text: str) -> None:
        """A remark on an op."""
        position = source_position(op.location) if op.location is not None else None
        place = ("<unknown>",) if position is None else tuple(map(str, position))
        places = self._places.setdefault(text, [])
        if place not in places:
            places.append(place)
        words, where = _asked_for(), ":".join(place)
        if "operations" in words:
            self._notes.append(f"{where}: note: see current operation: {op}")
        if "stacktraces" in words:
            self._notes.append(f"{where}: note: diagnostic emitted with trace:")
            self._notes += [line.rstrip() for line in traceback.format_stack(limit=8)]

    def write(self) -> None:
        """Write them to standard error, as far as they are new."""
        told = {(":".join(p), text) for text, places in self._places.items() for p in places}
        if not is_new(told):
            return
        parts: list[str] = []
        for text, (first, *others) in self._places.items():
            more = f" (also at {', '.join(_place(p, first[0]) for p in others)})" if others else ""
            parts.append(f"{':'.join(first)}: remark: {text}{more}")
        sys.stderr.write("\n".join(["; ".join(parts), *self._notes]) + "\n")


def _place(place: tuple[str, ...], file: str) -> str:
    """The text of a place; without the file, if that is known."""
    return ":".join(place[1:] if len(place) > 1 and place[0] == file else place)
