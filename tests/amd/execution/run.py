"""Kernels that the AMD backend has compiled, executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.amd.execution.memory import extent
from tests.amd.execution.workgroup import Kernel


def execute(
    kernel: Any, grid: tuple[int, ...], arguments: Sequence[Any], *,
    change: Callable[[str], str] = str, last_first: bool = False,
) -> None:  # fmt: skip
    """Run a compiled kernel with NumPy arrays, integers, and NumPy scalars. `change`: makes other
    LLVM IR of its own."""
    slots, ranges = list[int](), list[tuple[int, int]]()
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            slots.append(argument.ctypes.data)
            ranges.append(extent(argument))
        elif isinstance(argument, np.generic):
            slots.append(int.from_bytes(argument.tobytes(), "little"))
        else:
            slots.append(argument)
    facts = kernel.metadata
    target = facts.target
    text = change(kernel.asm["llir"])
    made = Kernel(text, str(target.arch), target.warp_size, facts.num_warps, facts.shared,
                  last_first=last_first)  # fmt: skip
    made(slots, grid, ranges)
