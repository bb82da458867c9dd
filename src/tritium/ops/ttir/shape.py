"""Making tiles and changing their shape."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.evaluation import Context
from tritium.ops.fields import i32_array_attr, i32_attr, operand, unit_attr


def check_same_element(name: str, source: ir.Type, result: ir.Type) -> None:
    """A change of shape must keep the elements' type."""
    if ir.element_type(source) != ir.element_type(result):
        raise OpError(
            f"{name}: from {describe(source)} to {describe(result)}; the elements must be the same"
        )


def check_tile(name: str, type: ir.Type) -> None:
    """The type must be a tile."""
    if not isinstance(type, ir.TensorType):
        raise OpError(f"{name}: operand has type {describe(type)}; a tensor is required")


class MakeRangeOp(Op):
    """`[start, ..., end - 1]`, a power of two of i32."""

    name = "tt.make_range"
    syntax = "attrs : type(result)"
    start = i32_attr()
    end = i32_attr()

    @classmethod
    def infer(cls, *, start: int, end: int, result: ir.Type | None = None) -> ir.Type:
        size = end - start
        if size <= 0 or size & (size - 1):
            raise OpError(f"{cls.name}: [{start}, {end}); the size must be a power of two")
        inferred = ir.tensor_of((size,), ir.i32)
        if result is None:
            return inferred
        if ir.shape_of(result) != (size,) or ir.element_type(result) != ir.i32:
            raise OpError(f"{cls.name}: result is {describe(result)}; {describe(inferred)} needed")
        return result

    def evaluate(self, context: Context) -> Any:
        return np.arange(self.start, self.end, dtype=np.int32)


class SplatOp(Op):
    """A scalar repeated in a tile."""

    name = "tt.splat"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        if isinstance(src, ir.TensorType):
            raise OpError(f"{cls.name}: operand has type {describe(src)}; a scalar is required")
        check_tile(cls.name, result)
        check_same_element(cls.name, src, result)
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.broadcast_to(src, ir.shape_of(self.result_types[0]))


class UnsplatOp(Op):
    """The only element of a tile, as a scalar."""

    name = "tt.unsplat"
    syntax = "$src attrs : type(src)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type) -> ir.Type:
        check_tile(cls.name, src)
        if prod(ir.shape_of(src)) != 1:
            raise OpError(f"{cls.name}: operand has type {describe(src)}; one element is required")
        return ir.element_type(src)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.asarray(src).reshape(())[()]


class BroadcastOp(Op):
    """Axes of size 1 repeated to a larger size."""

    name = "tt.broadcast"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        check_tile(cls.name, src)
        check_tile(cls.name, result)
        check_same_element(cls.name, src, result)
        before, after = ir.shape_of(src), ir.shape_of(result)
        if len(before) != len(after) or any(b not in (1, a) for b, a in zip(before, after)):
            raise OpError(
                f"{cls.name}: from {describe(src)} to {describe(result)}; only axes of size 1 grow"
            )
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.broadcast_to(src, ir.shape_of(self.result_types[0]))


class ExpandDimsOp(Op):
    """A new axis of size 1 before `axis`."""

    name = "tt.expand_dims"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()
    axis = i32_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, axis: int, result: ir.Type | None = None) -> ir.Type:
        check_tile(cls.name, src)
        shape = ir.shape_of(src)
        if not 0 <= axis <= len(shape):
            raise OpError(f"{cls.name}: axis is {axis}; 0 to {len(shape)} is allowed")
        shape = (*shape[:axis], 1, *shape[axis:])
        return check_result(cls.name, ir.tensor_of(shape, ir.element_type(src)), result)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.expand_dims(src, self.axis)


def check_result(name: str, inferred: ir.Type, result: ir.Type | None) -> ir.Type:
    """The requested type if it agrees with the inferred one in all but the encoding."""
    if result is None or result == inferred:
        return inferred
    same = ir.shape_of(result) == ir.shape_of(inferred)
    if not same or ir.element_type(result) != ir.element_type(inferred):
        raise OpError(f"{name}: result is {describe(result)}; {describe(inferred)} is required")
    return result


class ReshapeOp(Op):
    """The same elements in another shape, in row-major order unless `allow_reorder`."""

    name = "tt.reshape"
    syntax = "$src [$allow_reorder] [$efficient_layout] attrs : type(src) -> type(result)"
    src = operand()
    allow_reorder = unit_attr()
    efficient_layout = unit_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type, **attrs: Any) -> ir.Type:
        check_tile(cls.name, src)
        check_tile(cls.name, result)
        check_same_element(cls.name, src, result)
        if prod(ir.shape_of(src)) != prod(ir.shape_of(result)):
            raise OpError(
                f"{cls.name}: from {describe(src)} to {describe(result)}; "
                "the number of elements must be the same"
            )
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.reshape(src, ir.shape_of(self.result_types[0]))


class TransOp(Op):
    """The axes in another order: result axis i is operand axis `order[i]`."""

    name = "tt.trans"
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()
    order = i32_array_attr()

    @classmethod
    def infer(
        cls, src: ir.Type, *, order: tuple[int, ...], result: ir.Type | None = None
    ) -> ir.Type:
        check_tile(cls.name, src)
        shape = ir.shape_of(src)
        if sorted(order) != list(range(len(shape))):
            raise OpError(f"{cls.name}: order {tuple(order)} does not permute {describe(src)}")
        inferred = ir.tensor_of(tuple(shape[i] for i in order), ir.element_type(src))
        return check_result(cls.name, inferred, result)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.transpose(src, self.order)


OPS: tuple[type[Op], ...] = (
    MakeRangeOp, SplatOp, UnsplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp,
)  # fmt: skip
