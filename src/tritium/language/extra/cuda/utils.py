"""The launch as NVIDIA GPUs see it, and their special registers."""

from __future__ import annotations

from typing import Any

from tritium.language.constexpr import constexpr
from tritium.language.decorators import builtin
from tritium.language.emitter import current
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


@builtin
def num_warps() -> constexpr:
    """The launch's `num_warps`, at compile time."""
    return constexpr(current().features.num_warps)


@builtin
def num_threads() -> constexpr:
    """The threads that run one program, 32 a warp, at compile time."""
    return constexpr(32 * current().features.num_warps)
