"""The tile program: what the stage between ttir and LLVM IR is, as one printable object.

Its text ends with the ops that it is about. These are what is read back where the stage is replaced
by a file (`TRITON_KERNEL_OVERRIDE`) or compiled from one, and may be changed; the loops follow from
them, and are found anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.backends.cpu.tiles.printing import format_function
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module

_OPS = "\n// ops (these may be changed; the loops above are found anew), of loops "


@dataclass(eq=False)
class TileProgram:
    """All functions of a module; the kernel is the only public one. `str(program)` prints it."""

    functions: list[TileFunction]
    options: Any = None

    @property
    def module(self) -> ModuleOp:
        """The ops, as they were when the loops were found."""
        module: Any = self.kernel.op.parent_op()
        return module

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

    @property
    def loops(self) -> str:
        """The text of the loops."""
        return "\n\n".join(format_function(f) for f in self.functions) + "\n"

    def __str__(self) -> str:
        loops = self.loops
        return f"{loops}{_OPS}{_digest(loops)}\n{print_module(self.module, locations=False)}"


def _digest(loops: str) -> str:
    lines = [line.rstrip() for line in loops.splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def parse_program(text: str, lower: Callable[[ModuleOp], TileProgram]) -> TileProgram:
    """The program that a text stands for: `lower` of its ops.

    Raises `ValueError` if it has no ops, or if its loops have been changed to others than follow
    from the ops; `ParseError` for bad IR.
    """
    program = lower(parse_ops(text))
    loops, _, rest = text.partition(_OPS)
    digest = rest.partition("\n")[0]
    if _digest(loops) not in (digest.strip(), _digest(program.loops)):
        raise ValueError(
            "the loops of the tile stage have been changed, which has no effect: they are found "
            "anew from the ops below them; change those, or the stages ttir or llir"
        )
    return program


def parse_ops(text: str) -> ModuleOp:
    """The ops of a program's text. Raises `ValueError` if it has none, `ParseError` for bad IR."""
    _, found, rest = text.partition(_OPS)
    if not found:
        raise ValueError(
            "the tile stage is read back from its ops, which this text has not: take all of "
            'kernel.asm["tile"], or of the file that TRITON_KERNEL_DUMP=1 writes'
        )
    ops = rest.partition("\n")[2]
    line = text.count("\n", 0, len(text) - len(ops))
    return parse_module("\n" * line + ops, "<tile>")  # errors name the file's lines
