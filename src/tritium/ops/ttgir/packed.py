"""Ops on elements in pairs: `ttng.packed_arith`, arithmetic of which one instruction does two
elements (Blackwell), and `ttg.fp4_to_fp`, bytes that hold two numbers of 4 bits."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.elementwise import check_same, describe
from tritium.ops.fields import enum_attr, i32_attr, operand, variadic
from tritium.ops.math import fused
from tritium.ops.memory import Context
from tritium.ops.ttir.dot import unpack_fp4


class PackedKind(IntEnum):
    """The operation."""

    ADD = 0
    SUB, MUL, FMA, MAX, MIN = range(1, 6)


_EXACT = {
    PackedKind.ADD: "sum", PackedKind.SUB: "difference", PackedKind.MUL: "product",
    PackedKind.FMA: "fused", PackedKind.MAX: "greatest", PackedKind.MIN: "least",
}  # fmt: skip


_COMPUTE: dict[PackedKind, Any] = {
    PackedKind.ADD: np.add, PackedKind.SUB: np.subtract, PackedKind.MUL: np.multiply,
    PackedKind.MAX: np.fmax, PackedKind.MIN: np.fmin,
}  # fmt: skip


class PackedArithOp(Op):
    """`a + b`, `a - b`, `a * b`, `a * b + c` (rounded once), and of float16 and bfloat16 the larger
    and the smaller (the other one if one is NaN)."""

    name = "ttng.packed_arith"
    capabilities = 100, 999
    elementwise = True
    syntax = "$kind $values attrs : functional"
    values = variadic()
    kind = enum_attr(PackedKind)

    @property
    def exact(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _EXACT[self.kind]

    @classmethod
    def infer(cls, types: Sequence[ir.Type], *, kind: PackedKind) -> ir.Type:
        count = 3 if kind is PackedKind.FMA else 2
        if len(types) != count:
            raise OpError(f"{cls.name}: {kind.name.lower()} of {len(types)} operands")
        type = check_same(cls.name, *types)
        halves = (ir.f16, ir.bf16)
        picks = kind in (PackedKind.MAX, PackedKind.MIN)
        allowed = halves if picks else (ir.f32, *halves)
        if ir.element_type(type) not in allowed:
            words = " or ".join(str(t) for t in allowed)
            raise OpError(f"{cls.name}: {kind.name.lower()} of {describe(type)}; {words} only")
        return type

    def evaluate(self, context: Context, values: Sequence[Any]) -> Any:
        if self.kind is not PackedKind.FMA:
            return _COMPUTE[self.kind](*values)
        return fused(*values)


class Fp4ToFpOp(Op):
    """The numbers of bytes that hold two e2m1 codes along an axis, the lower half first."""

    name = "ttg.fp4_to_fp"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()
    axis = i32_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, axis: int, result: Any) -> ir.Type:
        shape, allowed = ir.shape_of(src), (ir.f16, ir.bf16, ir.f32)
        if not 0 <= axis < len(shape):
            raise OpError(f"{cls.name}: axis {axis} of {describe(src)}")
        wide = tuple(2 * n if i == axis else n for i, n in enumerate(shape))
        found = ir.element_type(src), ir.shape_of(result), ir.element_type(result) in allowed
        if found != (ir.i8, wide, True):
            raise OpError(
                f"{cls.name}: from {describe(src)} to {describe(result)}, axis {axis}; i8 to "
                f"{'x'.join(map(str, wide))} elements of f16, bf16 or f32 is required"
            )
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return unpack_fp4(src, self.axis).astype(ir.numpy_dtype(self.result_types[0]))
