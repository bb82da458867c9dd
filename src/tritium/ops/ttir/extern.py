"""Functions of an external library, applied to each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.ir import types as ir
from tritium.ops.base import Effects, Op
from tritium.ops.elementwise import check_same_shape
from tritium.ops.evaluation import Context
from tritium.ops.fields import bool_attr, string_attr, variadic


class ExternElementwiseOp(Op):
    """`symbol` of the library `libname` (at `libpath`, or found by the backend), per element.

    `ExternElementwiseOp.build(arguments, result=type, libname="libdevice", libpath="",
    symbol="__nv_asinf", pure=True)`.
    """

    name = "tt.extern_elementwise"
    syntax = "$arguments attrs : functional"
    arguments = variadic()
    libname = string_attr()
    libpath = string_attr()
    symbol = string_attr()
    pure = bool_attr()

    @classmethod
    def infer(cls, arguments: Sequence[ir.Type], *, result: ir.Type, **attrs: Any) -> ir.Type:
        check_same_shape(cls.name, *arguments, result)
        return result

    def memory_effects(self) -> frozenset[str]:
        return Effects.NONE if self.pure else frozenset({Effects.OTHER})

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        raise NotImplementedError(f"reference semantics of external function {self.symbol}")


OPS: tuple[type[Op], ...] = (ExternElementwiseOp,)
