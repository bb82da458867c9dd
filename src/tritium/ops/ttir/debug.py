"""Printing and assertions in kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.integer import unsigned
from tritium.ops.base import Op
from tritium.ops.effects import opaque
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, i32_array_attr, operand, string_attr, variadic
from tritium.ops.memory import Context, EvaluationError


class PrintOp(Op):
    """Print every element of the operands, a line each:
    `pid (x, y, z) idx (i, j) PREFIX value`."""

    name = "tt.print"
    effects = (opaque(),)
    per_operand = True
    syntax = "$prefix attrs [: $arguments : type(arguments)]"
    takes_any_layout = True
    arguments = variadic()
    prefix = string_attr()
    hex = bool_attr()
    isSigned = i32_array_attr()

    @classmethod
    def infer(
        cls, arguments: Sequence[ir.Type], *, isSigned: tuple[int, ...], **attrs: Any
    ) -> None:
        if len(isSigned) != len(arguments):
            raise OpError(
                f"{cls.name}: isSigned has {len(isSigned)} entries for {len(arguments)} operands"
            )

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> None:
        program = ", ".join(map(str, context.program_id))
        if not arguments:
            context.print(f"pid ({program}){self.prefix}")
        for n, argument in enumerate(arguments):
            array = np.asarray(argument)
            is_pointer = array.dtype == np.uint64
            which = f"(operand {n}) " if len(arguments) > 1 else ""
            if array.dtype.kind == "i" and not self.isSigned[n]:
                array = unsigned(array)
            widths = [len(str(size - 1)) for size in array.shape]
            at: tuple[int, ...]
            for at in np.ndindex(array.shape):  # pyright: ignore[reportUnknownVariableType]
                place = ", ".join(f"{i:{w}}" for i, w in zip(at, widths, strict=True))  # pyright: ignore[reportUnknownArgumentType]
                text = self._element(array[at], is_pointer)
                context.print(f"pid ({program}) idx ({place}){self.prefix}{which}{text}")

    def _element(self, value: Any, is_pointer: bool) -> str:
        if is_pointer:  # as `%p` of C's printf
            return f"{int(value):#x}" if value else "(nil)"
        if self.hex:
            bits = int.from_bytes(value.tobytes(), "little")
            return f"0x{bits:0{2 * value.dtype.itemsize}x}"
        if value.dtype.kind in "iub":
            return str(int(value))
        return f"{float(value):f}"


class AssertOp(Op):
    """Abort with `message` if any element of the condition is false."""

    name = "tt.assert"
    effects = (opaque(),)
    syntax = "$condition, $message attrs : type(condition)"
    takes_any_layout = True
    condition = operand()
    message = string_attr()

    @classmethod
    def infer(cls, condition: ir.Type, *, message: str) -> None:
        if not ir.is_integer(condition):
            raise OpError(f"{cls.name}: condition is {describe(condition)}; i1 is required")

    def evaluate(self, context: Context, condition: Any) -> None:
        if not np.all(condition):
            place = ", ".join(map(str, context.program_id))
            raise EvaluationError(
                f"device-side assert triggered in program ({place}): {self.message}"
            )
