"""Special registers of NVIDIA GPUs."""

from __future__ import annotations

from typing import Any

from tritium.language.decorators import builtin
from tritium.language.external import inline_asm_elementwise
from tritium.language.types import int32, int64


@builtin
def globaltimer() -> Any:
    """Nanoseconds of the GPU's global timer: an int64 scalar."""
    return inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], int64, False, 1)


@builtin
def smid() -> Any:
    """The number of the multiprocessor that runs the program: an int32 scalar."""
    return inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], int32, True, 1)
