"""The tile program: what the stage between ttir and LLVM IR is, as one printable object.

Its text ends with the ops that it is about. These are what is read back where the stage is replaced
by a file (`TRITON_KERNEL_OVERRIDE`) or compiled from one, and may be changed; the loops follow from
them, and are found anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tritium.backends.cpu.tiles.grouping import Grouping
from tritium.backends.cpu.tiles.ir import Nest, Root, RootKind, TileFunction
from tritium.backends.cpu.tiles.printing import format_function
from tritium.ir import types as ir
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.function import FuncOp

_OPS = "\n// ops (these may be changed; the loops above are found anew), of loops "


@dataclass(eq=False)
class TileProgram:
    """All functions of a module; the kernel is the only public one. `str(program)` prints it.

    The passes of this stage transform it (`build.PASSES`); `groupings` is what `tile-fuse` found
    out about each function for those after it.
    """

    functions: list[TileFunction]
    options: Any = None
    groupings: dict[TileFunction, Grouping] = field(default_factory=dict[TileFunction, Grouping])

    @classmethod
    def of(cls, module: ModuleOp, options: Any = None) -> TileProgram:
        """The functions of a module, with no loops yet. Raises `ValueError` for several kernels."""
        functions = [
            TileFunction(op.sym_name, op, op.sym_visibility == "public")
            for op in module.body.block.ops if isinstance(op, FuncOp)
        ]  # fmt: skip
        if sum(f.public for f in functions) != 1:
            if len(functions) != 1:
                names = ", ".join(f.name for f in functions if f.public)
                raise ValueError(f"a module has one public function, the kernel; found: {names}")
            functions[0].public = True
        return cls(functions, options)

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

    def verify(self) -> None:
        """Steps are in order, and roots fit the loops and buffers. Raises `VerifyException`."""
        for body in (b for g in self.groupings.values() for b in g.body_of.values()):
            at = [step.position for step in body.steps]
            if at != sorted(at):
                raise VerifyException(f"steps are not in order: {at}")
            for nest in (step for step in body.steps if isinstance(step, Nest)):
                for root in nest.roots:
                    _verify_root(nest, root)

    def __str__(self) -> str:
        loops = self.loops
        return f"{loops}{_OPS}{_digest(loops)}\n{print_module(self.module, locations=False)}"


def _verify_root(nest: Nest, root: Root) -> None:
    shapes = {v.shape for v in (*root.buffers, root.source) if v is not None}
    if root.domain != nest.domain:
        problem = f"runs over {root.domain}"
    elif root.kind == RootKind.COPY and shapes != {ir.shape_of(root.values[0].type)}:
        problem = f"fills buffers of shapes {shapes} with {root.values[0].type}"
    else:
        return
    raise VerifyException(f"{root.kind.value} in loops over {nest.domain} {problem}")


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
