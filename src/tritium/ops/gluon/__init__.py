"""`gluon`: encodings that programs leave to the compiler."""

from __future__ import annotations

from typing import Any

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.undecided import AutoEncoding, CoalescedEncoding
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.fields import operand
from tritium.ops.memory import Context


class SetAutoLayoutOp(Op):
    """The tile, whose encoding was left open, in the encoding of the result."""

    name = "gluon.set_auto_layout"
    memory_operands = ("src",)
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        same = ir.shape_of(src) == ir.shape_of(result)
        if not same or ir.element_type(src) != ir.element_type(result):
            raise OpError(f"{cls.name}: from {describe(src)} to {describe(result)}")
        if not isinstance(ir.encoding_of(src), AutoEncoding):
            raise OpError(f"{cls.name}: {describe(src)} has an encoding; only an open one is set")
        found = ir.encoding_of(result)
        if found is None or isinstance(found, AutoEncoding):
            raise OpError(f"{cls.name}: to {describe(result)}; an encoding is required")
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return src


ATTRIBUTES = (AutoEncoding, CoalescedEncoding)
