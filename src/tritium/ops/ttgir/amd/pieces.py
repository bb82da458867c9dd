"""`amdg`: parts of tiles, and tiles made of parts, without any movement between threads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import linear
from tritium.ir.layouts.pieces import registers_of_part, registers_of_whole
from tritium.ops.base import Movement, Op
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_array_attr, operand, variadic
from tritium.ops.memory import Context
from tritium.ops.ttir.shape import check_tile


def _layout(type: Any) -> Any:
    return linear(type.encoding, ir.shape_of(type))


class ExtractSliceOp(Op):
    """The part of a tile, of the result's shape, from `static_offsets` on. A thread has all of its
    elements of the part already."""

    name = "amdg.extract_slice"
    movement = Movement.REORDERED  # elements are left out
    memory_operands = ("src",)
    syntax = "$src ~ $static_offsets attrs : type(src) to type(result)"
    src = operand()
    static_offsets = i32_array_attr()

    @classmethod
    def infer(cls, src: ir.Type, *, static_offsets: tuple[int, ...], result: ir.Type) -> ir.Type:
        check_tile(cls.name, src)
        shape, part = ir.shape_of(src), ir.shape_of(result)
        if ir.element_type(src) != ir.element_type(result):
            raise OpError(f"{cls.name}: result element type must match source element type; from "
                          f"{describe(src)} to {describe(result)}")  # fmt: skip
        if not len(shape) == len(part) == len(static_offsets):
            raise OpError(f"{cls.name}: result rank must be equal to source rank, with an offset "
                          f"for each axis; {describe(result)} at {list(static_offsets)} of "
                          f"{describe(src)}")  # fmt: skip
        for axis, (size, length, start) in enumerate(zip(shape, part, static_offsets, strict=True)):
            if length > size:
                raise OpError(f"{cls.name}: result shape cannot exceed source shape at dimension "
                              f"{axis}; {length} of {size} elements")  # fmt: skip
            if not 0 <= start <= size - length:
                raise OpError(f"{cls.name}: invalid offset at dimension {axis}: {length} elements "
                              f"from {start} on, of {size}")  # fmt: skip
        try:
            registers_of_part(_layout(src), _layout(result), tuple(static_offsets))
        except ValueError as error:
            raise OpError(f"{cls.name}: {error}; {describe(result)} at {list(static_offsets)} of "
                          f"{describe(src)}") from None  # fmt: skip
        return result

    def evaluate(self, context: Context, src: Any) -> Any:
        lengths = ir.shape_of(self.result_types[0])
        return src[
            tuple(slice(o, o + n) for o, n in zip(self.static_offsets, lengths, strict=True))
        ]

    def registers(self) -> Sequence[int]:
        """For each register of the result that of the operand."""
        result = _layout(self.result_types[0])
        return registers_of_part(_layout(self.src.type), result, tuple(self.static_offsets))


class ConcatOp(Op):
    """A tile made of tiles of one type, in row-major order. A thread has all elements of its part
    already."""

    name = "amdg.concat"
    movement = Movement.REORDERED
    memory_operands = ("sources",)
    syntax = "$sources attrs : type(sources) -> type(result)"
    sources = variadic()

    @classmethod
    def infer(cls, sources: Sequence[ir.Type], *, result: ir.Type) -> ir.Type:
        if not sources or any(type != sources[0] for type in sources):
            raise OpError(f"{cls.name}: all sources must have identical tensor types; they have "
                          f"{', '.join(map(describe, sources)) or 'none'}")  # fmt: skip
        check_tile(cls.name, sources[0])
        part, whole = ir.shape_of(sources[0]), ir.shape_of(result)
        if ir.element_type(sources[0]) != ir.element_type(result):
            raise OpError(f"{cls.name}: element types of sources and destination must match; from "
                          f"{describe(sources[0])} to {describe(result)}")  # fmt: skip
        if len(part) != len(whole) or any(n % m for n, m in zip(whole, part, strict=True)):
            raise OpError(f"{cls.name}: tiles of {describe(sources[0])} do not make up "
                          f"{describe(result)}")  # fmt: skip
        if (needed := prod(whole) // prod(part)) != len(sources):
            raise OpError(f"{cls.name}: number of source tiles ({len(sources)}) doesn't match "
                          f"required count ({needed})")  # fmt: skip
        try:
            registers_of_whole(_layout(sources[0]), _layout(result))
        except ValueError as error:
            raise OpError(f"{cls.name}: {error}; {describe(sources[0])} in {describe(result)}") \
                from None  # fmt: skip
        return result

    def evaluate(self, context: Context, sources: tuple[Any, ...]) -> Any:
        part, whole = sources[0].shape, ir.shape_of(self.result_types[0])
        counts = [n // m for n, m in zip(whole, part, strict=True)]
        tiles: Any = np.stack(sources).reshape(*counts, *part)
        order = [axis for pair in zip(range(len(part)), range(len(part), 2 * len(part)),
                                      strict=True) for axis in pair]  # fmt: skip
        return tiles.transpose(order).reshape(whole)

    def registers(self) -> Sequence[tuple[int, int]]:
        """For each register of the result the operand, and the register of it."""
        return registers_of_whole(_layout(self.operands[0].type), _layout(self.result_types[0]))
