"""Remarks on what makes a kernel slow, for `MLIR_ENABLE_DIAGNOSTICS=remarks`: what backends share.

`knobs.compilation.diagnostics` is a list of words: `remarks` asks for them, `operations` adds the
operation, `stacktraces` where in the compiler the remark was made.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from typing import Any

from tritium import knobs
from tritium.ir.locations import source_position


def wanted() -> bool:
    """Whether remarks are asked for."""
    return "remarks" in _asked_for()


def _asked_for() -> frozenset[str]:
    words = knobs.compilation.diagnostics
    return words | {"remarks"} if knobs.compilation.remark else words


def remark(op: Any, text: str, note: str = "") -> None:
    """Write a remark on an op to standard error: the place, the source line, a caret under it."""
    words = _asked_for()
    position = source_position(op.location) if op.location is not None else None
    where = "<unknown>" if position is None else ":".join(map(str, position))
    lines = [f"{where}: remark: {text}"]
    if position is not None:
        file, number, column = position
        source = linecache.getline(file, number).rstrip()
        lines += [source, f"{' ' * column}^"] if source else []
    if note:
        lines.append(f"{where}: note: {note}")
    if "operations" in words:
        lines.append(f"{where}: note: see current operation: {op}")
    if "stacktraces" in words:
        lines.append(f"{where}: note: diagnostic emitted with trace:")
        lines += [line.rstrip() for line in traceback.format_stack(limit=8)]
    sys.stderr.write("\n".join(lines) + "\n")
