"""Remarks on what makes a kernel slow, for `MLIR_ENABLE_DIAGNOSTICS=remarks`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium import knobs
from tritium.ir.locations import source_position

_NO_WGMMA = "MMA version 3 acceleration not applied due to unsupported shapes or data types."


def remark_on(module: ModuleOp, capability: int) -> None:
    """Write remarks on a finished ttgir module to standard error, if they are asked for.

    `knobs.compilation.diagnostics` is a list of words: `remarks` asks for them, `operations` adds
    the operation, `stacktraces` where in the compiler the remark was made.
    """
    words = _asked_for()
    if "remarks" not in words:
        return
    for op in module.walk():
        if capability // 10 == 9 and op.name == "tt.dot":
            _write(op, _NO_WGMMA, words)


def remark_on_resources(name: str, facts: Mapping[str, int], shared: int) -> None:
    """Write what a kernel takes of the processor to standard error, if remarks are asked for.
    `facts` are those of `ptx.report`, `shared` is in bytes."""
    if "remarks" in _asked_for():
        sys.stderr.write(
            f"{name}: remark: {facts['n_regs']} registers a thread, {4 * facts['n_spills']} bytes "
            f"spilled, {shared} bytes of shared memory\n"
        )


def _asked_for() -> frozenset[str]:
    words = knobs.compilation.diagnostics
    return words | {"remarks"} if knobs.compilation.remark else words


def _write(op: Any, text: str, words: frozenset[str]) -> None:
    position = source_position(op.location) if op.location is not None else None
    where = "<unknown>" if position is None else ":".join(map(str, position))
    lines = [f"{where}: remark: {text}"]
    if "operations" in words:
        lines.append(f"{where}: note: see current operation: {op}")
    if "stacktraces" in words:
        lines.append(f"{where}: note: diagnostic emitted with trace:")
        lines += [line.rstrip() for line in traceback.format_stack(limit=8)]
    sys.stderr.write("\n".join(lines) + "\n")
