"""Matrix products."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.evaluation import Context
from tritium.ops.fields import enum_attr, i32_attr, operand


class InputPrecision(IntEnum):
    """How float32 operands may be rounded before they are multiplied."""

    TF32, TF32X3, IEEE, BF16X3, BF16X6 = range(5)


class DotOp(Op):
    """`a @ b + c` for tiles (M, K), (K, N) and (M, N), with an optional batch axis in front.

    `evaluate` multiplies and sums in float64 (int32, wrapping, for integers) and rounds once to
    the type of `c`; operands are taken exactly, whatever `inputPrecision` would allow.
    """

    name = "tt.dot"
    syntax = (
        "$a, $b, $c [, 'inputPrecision' = $inputPrecision] attrs "
        ": type(a) * type(b) -> type(result)"
    )
    a = operand()
    b = operand()
    c = operand()
    inputPrecision = enum_attr(InputPrecision, InputPrecision.IEEE)
    maxNumImpreciseAcc = i32_attr(0)

    @classmethod
    def infer(cls, a: ir.Type, b: ir.Type, c: ir.Type, **attrs: Any) -> ir.Type:
        left, right, out = ir.shape_of(a), ir.shape_of(b), ir.shape_of(c)
        fits = len(left) == len(right) == len(out) in (2, 3) and left[:-2] == right[:-2]
        if not fits or left[-1] != right[-2] or out != (*left[:-1], right[-1]):
            raise OpError(
                f"{cls.name}: shapes of {describe(a)} * {describe(b)} -> {describe(c)}; "
                "(M, K) * (K, N) -> (M, N) is required"
            )
        if ir.is_integer(a) != ir.is_integer(c) or ir.is_integer(a) != ir.is_integer(b):
            raise OpError(f"{cls.name}: {describe(a, b, c)} mix integers and floats")
        return c

    def evaluate(self, context: Context, a: Any, b: Any, c: Any) -> Any:
        wide = np.int32 if ir.is_integer(self.result_types[0]) else np.float64
        product = np.matmul(np.asarray(a).astype(wide), np.asarray(b).astype(wide))
        return (product + np.asarray(c).astype(wide)).astype(np.asarray(c).dtype)


OPS: tuple[type[Op], ...] = (DotOp,)
