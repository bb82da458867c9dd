"""Reductions with a combine region."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar, TypeGuard

import numpy as np
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import Encoding
from tritium.ops.base import Op
from tritium.ops.elementwise import BinaryOp, check_same_shape, describe
from tritium.ops.fields import bool_attr, i32_attr, variadic
from tritium.ops.memory import Context
from tritium.ops.terminators import RegionEnd


def check_axis(name: str, axis: int, types: Sequence[ir.Type]) -> tuple[int, ...]:
    """The common shape of some tiles, which must have axis `axis`."""
    if not types:
        raise OpError(f"{name}: no operands; at least one tensor is required")
    shape = check_same_shape(name, *types)
    if not 0 <= axis < len(shape):
        raise OpError(f"{name}: axis is {axis}; {describe(types[0])} has axes 0 to {len(shape)-1}")
    return shape


def verify_combine(op: Op, operands: Sequence[Any], terminator: type[Op]) -> None:
    """The region must take two elements of each operand and return one of each."""
    elements = [ir.element_type(v.type) for v in operands]
    blocks = op.regions[0].blocks if op.regions else ()
    if not blocks or [a.type for a in blocks[0].args] != elements * 2:
        want = ", ".join(map(str, elements * 2))
        raise VerifyException(f"{op.name}: the combine region must take ({want})")
    for block in blocks:
        last = block.last_op
        if isinstance(last, terminator) and [v.type for v in last.operands] != elements:
            want = ", ".join(map(str, elements))
            raise VerifyException(f"{op.name}: the combine region must return ({want})")


def combining_op(block: Block) -> type[BinaryOp] | None:
    """The class of the op that a combine region of two arguments consists of, if it is one."""
    ops = list(block.ops)
    single = (
        len(ops) == 2
        and isinstance(ops[0], BinaryOp)
        and len(block.args) == 2
        and set(ops[0].operands) == set(block.args)
        and ops[1].operands[0] is ops[0].results[0]
    )
    return type(ops[0]) if single else None  # pyright: ignore


class CombiningOp(Op):
    """Combines the elements of its inputs along an axis, pairwise, by its region, which takes
    (a..., b...) and returns the combined elements."""

    builders = None
    recursive_effects = True
    running: ClassVar[bool] = False
    """True if each element of the axis has a result: what is combined up to there."""
    inputs = variadic()
    axis = i32_attr()


def is_reduction(op: object) -> TypeGuard[CombiningOp]:
    """True if an op combines all elements along an axis in one."""
    return isinstance(op, CombiningOp) and not op.running


class ReduceReturnOp(RegionEnd):
    """Ends the combine region of a reduction."""

    name = "tt.reduce.return"
    syntax = "$values attrs : type(values)"


class ReduceOp(CombiningOp):
    """Combine the elements along an axis, pairwise and in any order.

    `ReduceOp.build(inputs, regions=[combine], axis=0)`: one result for each input, a scalar when
    it has no other axis. The region takes (a..., b...) and returns the combined elements.
    `evaluate` combines neighbours, halving the axis again and again.
    """

    name = "tt.reduce"
    layouts_from = "operands"
    takes_any_layout = True

    @classmethod
    def infer(
        cls, inputs: Sequence[ir.Type], *, axis: int, result: Any = None
    ) -> Sequence[ir.Type]:
        shape = check_axis(cls.name, axis, inputs)
        shape = (*shape[:axis], *shape[axis + 1 :])
        given = (result,) if isinstance(result, Attribute) else tuple(result or ())
        encoding = ir.encoding_of(inputs[0])
        if encoding is not None:
            encoding = moves.sliced(encoding, axis)
            return [ir.tensor_of(shape, ir.element_type(t), encoding) for t in inputs]
        inferred = [ir.tensor_of(shape, ir.element_type(t)) for t in inputs]
        if [(ir.shape_of(t), ir.element_type(t)) for t in given] == [
            (ir.shape_of(t), ir.element_type(t)) for t in inferred
        ]:
            return given
        return inferred

    def evaluate(self, context: Context, inputs: tuple[Any, ...]) -> Any:
        values = [np.moveaxis(v, self.axis, 0) for v in inputs]
        while (size := values[0].shape[0]) > 1:
            even = size // 2 * 2
            pairs = [v[i:even:2] for i in (0, 1) for v in values]
            combined = context.run_elementwise(self.regions[0], *pairs)
            rest = [v[even:] for v in values]
            values = [np.concatenate(pair) for pair in zip(combined, rest, strict=True)]
        results = tuple(v[0] for v in values)
        return results[0] if len(results) == 1 else results

    def verify_structure(self) -> None:
        verify_combine(self, self.inputs, ReduceReturnOp)

    def result_layout(self, operand: Encoding) -> Encoding | None:
        return moves.sliced(operand, self.axis)

    def operand_layouts(self, result: Encoding) -> list[Encoding | None]:
        return [moves.parent(result, self.axis)] * len(self.operands)

    @property
    def separate_axis(self) -> int | None:
        return self.axis


def reduction(value: Any, axis: int, combine: type[Op], location: Any = None) -> ReduceOp:
    """A new op, in no block, that reduces a tile along an axis by an op of two scalars."""
    element = ir.element_type(value.type)
    body = Block(arg_types=[element, element])
    combined: Any = combine.build(*body.args)
    body.add_ops([combined, ReduceReturnOp.build([combined.results[0]])])
    return ReduceOp.build([value], axis=axis, regions=[Region(body)], location=location)


class ScanReturnOp(RegionEnd):
    """Ends the combine region of a scan."""

    name = "tt.scan.return"
    syntax = "$values attrs : type(values)"


class ScanOp(CombiningOp):
    """Running combination along an axis: element i of the result combines elements 0 to i, or
    with `reverse` the last one down to i.

    `ScanOp.build(inputs, regions=[combine], axis=0, reverse=False)`. `evaluate` combines at
    distance 1, 2, 4, ... (Hillis and Steele), so the operation must be associative.
    """

    name = "tt.scan"
    running = True
    reverse = bool_attr()

    @classmethod
    def infer(cls, inputs: Sequence[ir.Type], *, axis: int, reverse: bool) -> Sequence[ir.Type]:
        check_axis(cls.name, axis, inputs)
        return tuple(inputs)

    def evaluate(self, context: Context, inputs: tuple[Any, ...]) -> Any:
        step = -1 if self.reverse else 1
        values = [np.moveaxis(v, self.axis, 0)[::step].copy() for v in inputs]
        distance = 1
        while distance < values[0].shape[0]:
            earlier = [v[:-distance] for v in values]
            later = [v[distance:] for v in values]
            combined = context.run_elementwise(self.regions[0], *earlier, *later)
            for value, new in zip(values, combined, strict=True):
                value[distance:] = new
            distance *= 2
        results = tuple(np.moveaxis(v[::step], 0, self.axis) for v in values)
        return results[0] if len(results) == 1 else results

    def verify_structure(self) -> None:
        verify_combine(self, self.inputs, ScanReturnOp)

    @property
    def ordered_axis(self) -> int | None:
        return self.axis


class MapElementwiseReturnOp(RegionEnd):
    """Ends the region of `tt.map_elementwise`."""

    name = "tt.map_elementwise.return"
    syntax = "attrs [$values : type(values)]"


class MapElementwiseOp(Op):
    """Run a region of scalars, which may branch, for every element (or every `pack` neighbours).

    The region takes `pack` elements of the first input, then of the second, ...; it returns
    `pack` elements of each result in the same way.
    """

    name = "tt.map_elementwise"
    builders = None
    recursive_effects = True
    inputs = variadic()
    pack = i32_attr()

    @classmethod
    def infer(cls, inputs: Sequence[ir.Type], *, pack: int, result: Any) -> Sequence[ir.Type]:
        results = (result,) if isinstance(result, Attribute) else tuple(result or ())
        check_same_shape(cls.name, *inputs, *results)
        size = prod(ir.shape_of(inputs[0])) if inputs else 0
        if pack < 1 or not inputs or size % pack:
            raise OpError(f"{cls.name}: pack is {pack}; a divisor of {size} elements is required")
        return results

    def evaluate(self, context: Context, inputs: tuple[Any, ...]) -> Any:
        pack, shape = self.pack, inputs[0].shape
        groups = [v.reshape(-1, pack)[:, i] for v in inputs for i in range(pack)]
        found = context.run_elementwise(self.regions[0], *groups)
        results: tuple[Any, ...] = tuple(  # pyright: ignore[reportUnknownVariableType]
            np.stack(found[i : i + pack], axis=-1).reshape(shape)  # pyright: ignore[reportUnknownArgumentType]
            for i in range(0, len(found), pack)
        )
        return results[0] if len(results) == 1 else results

    @property
    def neighbours(self) -> int:
        return self.pack

    def verify_structure(self) -> None:
        want = [ir.element_type(v.type) for v in self.inputs for _ in range(self.pack)]
        blocks = self.regions[0].blocks if self.regions else ()
        if not blocks or [a.type for a in blocks[0].args] != want:
            raise VerifyException(
                f"{self.name}: the region must take ({', '.join(map(str, want))})"
            )
