"""`amdg`: numbers of 4 and 8 bits times powers of two, and numbers as such."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_attr, operand
from tritium.ops.memory import Context
from tritium.ops.ttir.dot import unpack_fp4
from tritium.ops.ttir.numeric import saturated

_NAN = 255
BIAS = 127
E2M1_BOUNDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""The midpoints between neighbours of e2m1: those at even places round down, the others up."""


def _fits(scale: ir.Type, shape: tuple[int, ...], axis: int | None) -> bool:
    """Tell scales of which each is for one number, or for a run of them along the axis."""
    scales = ir.shape_of(scale)
    return len(scales) == len(shape) and all(
        n == m or (i == axis and n and not m % n)
        for i, (n, m) in enumerate(zip(scales, shape, strict=True))
    )


def _check(
    name: str, scale: ir.Type, result: Any, shape: tuple[int, ...], axis: int | None
) -> ir.Type:
    """The type of the result. Raises `OpError` for one that does not fit."""
    if ir.shape_of(result) != shape or ir.element_type(result) not in (ir.f16, ir.bf16):
        raise OpError(
            f"{name}: to {describe(result)}; {'x'.join(map(str, shape))} elements of f16 or bf16 "
            "are required"
        )
    if not _fits(scale, shape, axis) or ir.element_type(scale) not in (ir.i8, ir.bf16):
        raise OpError(f"{name}: scale is {describe(scale)}; i8 or bf16 for {describe(result)}")
    return result


def _scaled(value: Any, scale: Any, result: ir.Type, axis: int = 0) -> np.ndarray:
    """The numbers times their scales, each of which holds for a run of them along an axis."""
    codes = np.asarray(scale)
    if codes.dtype.itemsize == 2:
        codes = codes.view(np.uint16) >> 7
    codes = codes.astype(np.int64) & _NAN
    wide = np.asarray(value).astype(np.float64)
    codes = np.repeat(codes, wide.shape[axis] // codes.shape[axis], axis)
    found = np.where(codes == _NAN, np.nan, np.ldexp(wide, codes - BIAS))
    return found.astype(np.float32).astype(ir.numpy_dtype(result))


class ScaledUpcastFp4Op(Op):
    """The numbers of bytes that hold two e2m1 codes along an axis, the lower half first, times
    powers of two. `scale`: bytes, 127 for 1 and 255 for NaN, or the bfloat16 numbers with these
    exponents; one for each number or for a run of them along the axis."""

    name = "amdg.scaled_upcast_fp4"
    syntax = "$input scale $scale attrs : type(input), type(scale) -> type(result)"
    input = operand()
    scale = operand()
    axis = i32_attr()

    @classmethod
    def infer(cls, input: ir.Type, scale: ir.Type, *, axis: int, result: Any) -> ir.Type:
        shape = ir.shape_of(input)
        if ir.element_type(input) != ir.i8 or not 0 <= axis < len(shape):
            raise OpError(f"{cls.name}: {describe(input)}, axis {axis}; i8 and one of its axes")
        whole = tuple(2 * n if i == axis else n for i, n in enumerate(shape))
        return _check(cls.name, scale, result, whole, axis)

    def evaluate(self, context: Context, input: Any, scale: Any) -> Any:
        value = unpack_fp4(input, self.axis)
        return _scaled(value, scale, self.results[0].type, self.axis)  # pyright: ignore


class ScaledUpcastFp8Op(Op):
    """8-bit floats times powers of two, given as those of `ScaledUpcastFp4Op`, one for each."""

    name = "amdg.scaled_upcast_fp8"
    syntax = "$input scale $scale attrs : type(input), type(scale) -> type(result)"
    input = operand()
    scale = operand()

    @classmethod
    def infer(cls, input: ir.Type, scale: ir.Type, *, result: Any) -> ir.Type:
        if ir.element_type(input) not in (ir.f8e4m3fn, ir.f8e5m2):
            raise OpError(f"{cls.name}: {describe(input)}; f8E4M3FN or f8E5M2 is required")
        return _check(cls.name, scale, result, ir.shape_of(input), None)

    def evaluate(self, context: Context, input: Any, scale: Any) -> Any:
        return _scaled(input, scale, self.results[0].type)  # pyright: ignore


class ScaledDowncast(Op):
    """Base: numbers divided by powers of two, to nearest even, in few bits; what is too large
    becomes the largest number. `scale`: bytes, 127 for 1 and 255 for NaN, one for a run of numbers
    along an axis."""

    syntax = "$input scale $scale attrs : type(input), type(scale) -> type(result)"
    input = operand()
    scale = operand()
    axis = i32_attr()
    wanted: ClassVar[tuple[ir.Type, ...]]
    pack: ClassVar[int] = 1

    @classmethod
    def infer(cls, input: ir.Type, scale: ir.Type, *, axis: int, result: Any) -> ir.Type:
        shape = ir.shape_of(input)
        if ir.element_type(input) not in (ir.f16, ir.bf16, ir.f32) or not 0 <= axis < len(shape):
            raise OpError(
                f"{cls.name}: {describe(input)}, axis {axis}; f16, bf16 or f32 and one of its axes"
            )
        found = tuple(n // cls.pack if i == axis else n for i, n in enumerate(shape))
        if ir.shape_of(result) != found or ir.element_type(result) not in cls.wanted:
            raise OpError(
                f"{cls.name}: to {describe(result)}; {'x'.join(map(str, found))} elements of "
                f"{' or '.join(map(str, cls.wanted))} are required"
            )
        if not _fits(scale, shape, axis) or ir.element_type(scale) != ir.i8:
            raise OpError(f"{cls.name}: scale is {describe(scale)}; i8 for {describe(input)}")
        return result

    def quotient(self, value: Any, scale: Any) -> np.ndarray:
        """The numbers divided by their scales."""
        codes = np.asarray(scale).astype(np.int64) & _NAN
        wide = np.asarray(value).astype(np.float64)
        codes = np.repeat(codes, wide.shape[self.axis] // codes.shape[self.axis], self.axis)
        return np.where(codes == _NAN, np.nan, np.ldexp(wide, BIAS - codes)).astype(np.float32)


class ScaledDowncastFp8Op(ScaledDowncast):
    """Numbers divided by powers of two, as 8-bit floats."""

    name = "amdg.scaled_downcast_fp8"
    wanted = ir.f8e4m3fn, ir.f8e5m2

    def evaluate(self, context: Context, input: Any, scale: Any) -> Any:
        kind = ir.numpy_dtype(self.results[0].type)  # pyright: ignore
        return saturated(self.quotient(input, scale), kind).astype(kind)


class ScaledDowncastFp4Op(ScaledDowncast):
    """Numbers divided by powers of two, as e2m1, two along the axis in a byte, the first in the
    lower half."""

    name = "amdg.scaled_downcast_fp4"
    wanted = (ir.i8,)
    pack = 2

    def evaluate(self, context: Context, input: Any, scale: Any) -> Any:
        value = self.quotient(input, scale)
        size, codes = np.abs(value), np.signbit(value).astype(np.uint8) << 3
        for place, bound in enumerate(E2M1_BOUNDS):
            beyond = size >= bound if place % 2 else size > bound
            codes += beyond | np.isnan(size)
        codes = np.moveaxis(codes, self.axis, -1)
        return np.moveaxis(codes[..., ::2] | codes[..., 1::2] << 4, -1, self.axis).view(np.int8)
