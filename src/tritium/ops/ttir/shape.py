"""Making tiles and changing their shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from tritium.errors import OpError
from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import Encoding
from tritium.ops import axis_info as facts
from tritium.ops.arith.integer import unsigned
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Movement, Op, repeated
from tritium.ops.elementwise import check_same, describe
from tritium.ops.fields import i32_array_attr, i32_attr, operand, optional, unit_attr
from tritium.ops.memory import Context


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
    builders = ("create_make_range result start end",)
    cost = 0
    tile_source = True
    syntax = "attrs : type(result)"
    start = i32_attr()
    end = i32_attr()

    @classmethod
    def infer(cls, *, start: int, end: int, result: ir.Type | None = None) -> ir.Type:
        size = end - start
        if size <= 0 or size & (size - 1):
            problem = "range must be a power of 2"
            if size <= 0:
                problem = "end argument must be greater than the start argument"
            raise OpError(f"{cls.name}: [{start}, {end}); arange's {problem}")
        return check_result(cls.name, ir.tensor_of((size,), ir.i32), result)

    def evaluate(self, context: Context) -> Any:
        return np.arange(self.start, self.end, dtype=np.int32)

    def stated_number(self) -> int | None:
        return self.start if self.end - self.start == 1 else None

    def spacing(self, axis: int) -> int:
        return 1

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.known(self.start, self.end - 1)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        size = self.end - self.start
        start = facts.power_of_two_in(self.start)
        return AxisInfo((size,), (start,), (1,), None, self.start >= 0)


class AxesOp(Op):
    """The operand repeated along axes of the result, or with its axes in another order: all of it
    is in `source_axes`."""

    movement = Movement.IN_ORDER
    cost = 0
    memory_operands = ("src",)
    syntax = "$src attrs : type(src) -> type(result)"
    src = operand()


class SplatOp(AxesOp):
    """A scalar repeated in a tile."""

    name = "tt.splat"
    builders = ("create_splat result src",)
    tile_source = True
    repeats = True

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        if isinstance(src, ir.TensorType):
            raise OpError(f"{cls.name}: operand has type {describe(src)}; a scalar is required")  # pyright: ignore[reportUnknownArgumentType]
        check_tile(cls.name, result)
        check_same_element(cls.name, src, result)
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        shape = ir.shape_of(self.result_types[0])
        if np.ndim(src) == 0:
            return np.broadcast_to(src, shape)
        # In a region that runs for all elements of some tiles: a tile for each, its axes last.
        each = np.expand_dims(src, tuple(range(-len(shape), 0)))
        return np.broadcast_to(each, (*np.shape(src), *shape))

    def source_axes(self) -> Sequence[int | None]:
        return [None] * len(ir.shape_of(self.results[0].type))

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.splat(self.results[0].type, operands[0])


def splat_source(value: SSAValue) -> SSAValue | None:
    """The scalar that a splat repeats in a tile."""
    source = repeated(value)
    return None if source is None or isinstance(source.type, ir.TensorType) else source


class UnsplatOp(Op):
    """The only element of a tile, as a scalar."""

    name = "tt.unsplat"
    extracts = True
    movement = Movement.IN_ORDER
    cost = 0
    memory_operands = ("src",)
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


class BroadcastOp(AxesOp):
    """Axes of size 1 repeated to a larger size. The encodings may differ, as in what Triton 3.9
    writes, as long as no element moves to another thread."""

    name = "tt.broadcast"
    builders = ("create_broadcast src shape",)
    repeats = True
    follows_layout = True
    layouts_from = "results"

    @classmethod
    def infer(cls, src: ir.Type, *, result: ir.Type) -> ir.Type:
        check_tile(cls.name, src)
        check_tile(cls.name, result)
        check_same_element(cls.name, src, result)
        before, after = ir.shape_of(src), ir.shape_of(result)
        problem = None
        if len(before) != len(after):
            problem = "rank mismatch: the number of axes must be the same"
            after = before
        for axis, (have, want) in enumerate(zip(before, after, strict=True)):
            if have not in (1, want):
                problem = (
                    f"only axes of size 1 grow: the new size ({want}) must match the existing "
                    f"size ({have}) at non-singleton axis {axis}"
                )
        if (ir.encoding_of(src) is None) != (ir.encoding_of(result) is None):
            problem = "both must have an encoding, or none"
        if problem is not None:
            raise OpError(f"{cls.name}: from {describe(src)} to {describe(result)}; {problem}")
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.broadcast_to(src, ir.shape_of(self.result_types[0]))

    def source_axes(self) -> Sequence[int | None]:
        before, after = (ir.shape_of(v.type) for v in (self.operands[0], self.results[0]))
        return [axis if before[axis] == size else None for axis, size in enumerate(after)]

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        before, after = ir.shape_of(self.src.type), ir.shape_of(self.results[0].type)
        return facts.broadcast(operands[0], before, after)

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return operand if moves.covers(operand, ir.shape_of(self.results[0].type)) else None


class ExpandDimsOp(AxesOp):
    """A new axis of size 1 before `axis`."""

    name = "tt.expand_dims"
    follows_layout = True
    layouts_from = "results"
    axis = i32_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, axis: int, result: ir.Type | None = None) -> ir.Type:
        check_tile(cls.name, src)
        shape = ir.shape_of(src)
        if not 0 <= axis <= len(shape):
            raise OpError(f"{cls.name}: axis is {axis}; 0 to {len(shape)} is allowed")
        shape = (*shape[:axis], 1, *shape[axis:])
        inferred = ir.tensor_of(shape, ir.element_type(src), _parent(cls.name, src, axis))
        if ir.encoding_of(inferred) is not None:
            return check_exactly(cls.name, inferred, result)
        return check_result(cls.name, inferred, result)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.expand_dims(src, self.axis)

    def source_axes(self) -> Sequence[int | None]:
        rank, new = len(ir.shape_of(self.operands[0].type)), self.axis
        return [*range(new), None, *range(new, rank)]

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.expand_dims(operands[0], self.axis)

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        return [moves.sliced(result, self.axis)]

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.parent(operand, self.axis)


def repetition(source: ir.Type) -> type[AxesOp]:
    """The op that repeats a scalar, or a tile along its axes of size 1."""
    return BroadcastOp if isinstance(source, ir.TensorType) else SplatOp


def _parent(name: str, source: ir.Type, axis: int) -> Attribute | None:
    """The encoding of a tile that was given an axis, if the tile has one: it must be a slice."""
    encoding = ir.encoding_of(source)
    if encoding is None:
        return None
    parent = moves.parent(encoding, axis)
    if parent is None:
        raise OpError(
            f"{name}: operand has type {describe(source)}; #ttg.slice<{{dim = {axis}, ...}}> needed"
        )
    return parent


def _moved(source: ir.Type, move: Callable[[Encoding], Encoding]) -> Encoding | None:
    """The encoding of a tile made of another one, if that has an encoding."""
    encoding = ir.encoding_of(source)
    return None if encoding is None else move(encoding)


def check_exactly(name: str, inferred: ir.Type, result: ir.Type | None) -> ir.Type:
    """The inferred type; a requested one must be that."""
    if result is not None and result != inferred:
        raise OpError(f"{name}: result is {describe(result)}; {describe(inferred)} is required")
    return inferred


def check_result(name: str, inferred: ir.Type, result: ir.Type | None) -> ir.Type:
    """The requested type if it agrees with the inferred one in all but the encoding, which is the
    inferred one where none is requested."""
    if result is None or result == inferred:
        return inferred
    if ir.encoding_of(result) is None:
        result = ir.tensor_of(ir.shape_of(result), ir.element_type(result),
                              ir.encoding_of(inferred))  # fmt: skip
    same = ir.shape_of(result) == ir.shape_of(inferred)
    if not same or ir.element_type(result) != ir.element_type(inferred):
        raise OpError(f"{name}: result is {describe(result)}; {describe(inferred)} is required")
    return result


class ReshapeOp(Op):
    """The same elements in another shape, in row-major order unless `allow_reorder`."""

    name = "tt.reshape"
    builders = ("create_reshape src shape allow_reorder",)
    reshapes = True
    movement = Movement.IN_ORDER
    cost = 0
    follows_layout = True
    layouts_from = "operands"
    memory_operands = ("src",)
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
                "reshape() cannot change total number of elements in tensor"
            )
        before, after = ir.shape_of(src), ir.shape_of(result)
        found = _moved(src, lambda encoding: moves.reshaped(encoding, before, after))
        return check_result(cls.name, ir.tensor_of(after, ir.element_type(src), found), result)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.reshape(src, ir.shape_of(self.result_types[0]))

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        return [moves.reshaped(result, *map(ir.shape_of, (self.results[0].type, self.src.type)))]

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.reshaped(operand, *map(ir.shape_of, (self.src.type, self.results[0].type)))


class TransOp(AxesOp):
    """The axes in another order: result axis i is operand axis `order[i]`."""

    name = "tt.trans"
    movement = Movement.REORDERED
    follows_layout = True
    layouts_from = "operands"
    order = i32_array_attr()

    @classmethod
    def infer(
        cls, src: ir.Type, *, order: tuple[int, ...], result: ir.Type | None = None
    ) -> ir.Type:
        check_tile(cls.name, src)
        shape = ir.shape_of(src)
        if sorted(order) != list(range(len(shape))):
            wanted = "be a permutation of 0, 1, ..., n-1"
            if len(order) != len(shape):
                wanted = "have the same length as input shape"
            raise OpError(
                f"{cls.name}: axes {list(order)} of {describe(src)}; permute dims must {wanted}"
            )
        found = _moved(src, lambda encoding: moves.transposed(encoding, tuple(order), shape))
        moved = tuple(shape[i] for i in order)
        inferred = ir.tensor_of(moved, ir.element_type(src), found)
        return check_result(cls.name, inferred, result)

    @property
    def permuted_axes(self) -> tuple[int, ...]:
        return tuple(self.order)

    def evaluate(self, context: Context, src: Any) -> Any:
        return np.transpose(src, self.order)

    def source_axes(self) -> Sequence[int | None]:
        return self.order

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.permute(operands[0], self.order)

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        inverse = tuple(self.order.index(i) for i in range(len(self.order)))
        return [moves.transposed(result, inverse, ir.shape_of(self.results[0].type))]

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.transposed(operand, tuple(self.order), ir.shape_of(self.src.type))


class _PairOp(Op):
    """The elements of two tiles in one."""

    movement = Movement.REORDERED
    layouts_from = "operands"
    memory_operands = ("lhs", "rhs")
    syntax = "$lhs, $rhs attrs : type(lhs) -> type(result)"
    lhs = operand()
    rhs = operand()


class JoinOp(_PairOp):
    """Two tiles side by side in a new last axis of size 2."""

    name = "tt.join"
    interleaves = True
    follows_layout = True
    cost = 0

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, *, result: ir.Type | None = None) -> ir.Type:
        check_tile(cls.name, check_same(cls.name, lhs, rhs))
        shape = ir.shape_of(lhs)
        found = _moved(lhs, lambda encoding: moves.joined(encoding, shape))
        inferred = ir.tensor_of((*shape, 2), ir.element_type(lhs), found)
        return check_result(cls.name, inferred, result)

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return np.stack([lhs, rhs], axis=-1)

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.joined(operand, ir.shape_of(self.lhs.type))

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        return [moves.unjoined(result, ir.shape_of(self.results[0].type))] * 2


class SplitOp(Op):
    """The two halves along a last axis of size 2, without that axis: the inverse of `tt.join`."""

    name = "tt.split"
    movement = Movement.REORDERED
    cost = 0
    follows_layout = True
    layouts_from = "results"
    memory_operands = ("src",)
    syntax = "$src attrs : type(src) -> type(outLHS)"
    result_names = ("outLHS", "outRHS")
    src = operand()

    @classmethod
    def infer(cls, src: ir.Type, *, result: Any = None) -> tuple[ir.Type, ir.Type]:
        check_tile(cls.name, src)
        shape = ir.shape_of(src)
        if shape[-1] != 2 or len(shape) < 2:
            raise OpError(
                f"{cls.name}: operand has type {describe(src)}; two or more axes, the last of "
                "size 2, are required"
            )
        given: Any = result[0] if isinstance(result, (tuple, list)) and result else None  # pyright: ignore[reportUnknownVariableType]
        found = _moved(src, lambda encoding: moves.halved(encoding, shape))
        inferred = ir.tensor_of(shape[:-1], ir.element_type(src), found)
        half = check_result(cls.name, inferred, given)  # pyright: ignore[reportUnknownArgumentType]
        return half, half

    def evaluate(self, context: Context, src: Any) -> Any:
        return src[..., 0], src[..., 1]

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        return [moves.joined(result, ir.shape_of(self.results[0].type))]

    def result_layout(self, operand: Encoding) -> Encoding | None:
        shape = ir.shape_of(self.src.type)
        return moves.halved(operand, shape) if moves.can_halve(operand, shape) else None


class CatOp(_PairOp):
    """The elements of two tiles of one axis in one tile. The order is unspecified; `evaluate`
    concatenates."""

    name = "tt.cat"

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, *, result: ir.Type | None = None) -> ir.Type:
        check_tile(cls.name, lhs)
        check_same_element(cls.name, lhs, rhs)
        left, right = ir.shape_of(lhs), ir.shape_of(rhs)
        if len(left) != 1 or len(right) != 1:
            raise OpError(
                f"{cls.name}: operands have types {describe(lhs, rhs)}; one axis is required"
            )
        inferred = ir.tensor_of((left[0] + right[0],), ir.element_type(lhs))
        return check_result(cls.name, inferred, result)

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return np.concatenate([lhs, rhs])

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.concatenated(operand, ir.shape_of(self.lhs.type))


class GatherOp(Op):
    """Elements of `src` at positions along an axis: `src[indices[i, j], j]` for axis 0."""

    name = "tt.gather"
    movement = Movement.REORDERED
    whole_operands = ("src",)
    placed_by = "indices"
    cost = 12
    memory_operands = ("src",)
    syntax = "$src ~ '[' $indices ']' attrs : functional"
    src = operand()
    indices = operand()
    axis = i32_attr()
    efficient_layout = unit_attr()

    @classmethod
    def infer(cls, src: ir.Type, indices: ir.Type, *, axis: int, **attrs: Any) -> ir.Type:
        check_tile(cls.name, src)
        shape, where = ir.shape_of(src), ir.shape_of(indices)
        problem = None
        if not ir.is_integer(indices):
            problem = "integers are required"
        elif len(shape) != len(where):
            problem = "source and index ranks must match"
        elif not 0 <= axis < len(shape):
            problem = f"the axis is {axis}, and 0 to {len(shape) - 1} is allowed"
        elif any(s != w for i, (s, w) in enumerate(zip(shape, where, strict=True)) if i != axis):
            problem = f"their shapes may only differ in axis {axis}"
        if problem is not None:
            given = f"indices {describe(indices)} into {describe(src)}"
            raise OpError(f"{cls.name}: {given}; {problem}")
        return ir.with_element(indices, ir.element_type(src))

    def evaluate(self, context: Context, src: Any, indices: Any) -> Any:
        return np.take_along_axis(src, np.asarray(indices).astype(np.int64), self.axis)


class HistogramOp(Op):
    """The number of times that each of 0 ... n - 1 occurs among unsigned integers where the mask
    is true; other values are ignored."""

    name = "tt.histogram"
    whole_operands = ("src", "mask")
    syntax = "$src [, $mask] attrs : type(src) -> type(result)"
    src = operand()
    mask = optional()

    @classmethod
    def infer(cls, src: ir.Type, mask: ir.Type | None, *, result: ir.Type) -> ir.Type:
        check_tile(cls.name, src)
        one_axis = len(ir.shape_of(src)) == 1
        if not one_axis or not ir.is_integer(src):
            kind = "integer" if one_axis else "1D"
            raise OpError(
                f"{cls.name}: operand is {describe(src)}; histogram only supports {kind} input"
            )
        if mask is not None and mask != ir.with_element(src, ir.i1):
            raise OpError(f"{cls.name}: mask is {describe(mask)}; i1 of the same shape required")
        if len(ir.shape_of(result)) != 1 or not ir.is_integer(result):
            raise OpError(f"{cls.name}: result is {describe(result)}; integers, one axis, required")
        return result

    def evaluate(self, context: Context, src: Any, mask: Any) -> Any:
        (bins,) = ir.shape_of(self.result_types[0])
        values = unsigned(np.asarray(src))
        counted = values < bins
        counted = counted if mask is None else counted & mask
        counts = np.bincount(values[counted].astype(np.int64), minlength=bins)
        return counts.astype(ir.numpy_dtype(self.result_types[0]))
