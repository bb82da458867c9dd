"""The tile program: what the stage between ttir and LLVM IR is, as one printable object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.backends.cpu.tiles.printing import format_function


@dataclass(eq=False)
class TileProgram:
    """All functions of a module; the kernel is the only public one. `str(program)` prints it."""

    functions: list[TileFunction]
    options: Any = None

    @property
    def kernel(self) -> TileFunction:
        """The function that is launched."""
        return next(f for f in self.functions if f.public)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory that one running program needs."""
        return self.kernel.scratch_bytes

    def __str__(self) -> str:
        return "\n\n".join(format_function(f) for f in self.functions) + "\n"
