"""Lowering of inline assembly to LLVM, for all backends."""

from __future__ import annotations

from typing import Any

from tritium.errors import CompilationError
from tritium.ir.locations import source_position


def assembly_error(op: Any, why: str) -> CompilationError:
    """The error for an op's assembly, at the place in the user's program."""
    found = source_position(op.location)
    place = "" if found is None else ' at "{}":{}:{}'.format(*found)
    return CompilationError(None, None, f"inline_asm_elementwise{place}: {why}")
