"""Matrix products."""

from __future__ import annotations

import weakref
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import DotOperandEncoding
from tritium.ops.base import Op
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, enum_attr, i32_attr, operand, optional
from tritium.ops.memory import Context


class InputPrecision(IntEnum):
    """The rounding of float32 operands before they are multiplied."""

    TF32, TF32X3, IEEE, BF16X3, BF16X6 = range(5)


def product_shape(
    name: str, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape of the product of blocks (..., M, K) and (..., K, N). Raises `OpError`."""
    problem = None
    if len(left) != len(right) or len(left) < 2:
        problem = "input and other must have equal ranks >= 2"
    elif left[-1] != right[-2]:
        problem = (
            f"the second index of first shape ({left[-1]}) must be equal to first index of second "
            f"shape ({right[-2]})"
        )
    elif left[:-2] != right[:-2]:
        problem = "the batch sizes must be the same"
    if problem is not None:
        raise OpError(f"{name}: product of {list(left)} and {list(right)}; {problem}")
    return (*left[:-1], right[-1])


def check_product(
    name: str, left: tuple[int, ...], right: tuple[int, ...], a: ir.Type, b: ir.Type, c: ir.Type
) -> None:
    """Shapes must be (M, K), (K, N) and (M, N), with an optional batch axis in front."""
    out = product_shape(name, left, right)
    if len(out) > 3 or out != ir.shape_of(c):
        raise OpError(
            f"{name}: shapes of {describe(a)} * {describe(b)} -> {describe(c)}; "
            "(M, K) * (K, N) -> (M, N) is required"
        )


class TileProduct(Op):
    """`a @ b + c` for tiles (M, K), (K, N) and (M, N), with an optional batch axis in front."""

    a = operand()
    b = operand()
    c = operand()

    exact = "none"
    has_scales: ClassVar[bool] = False
    """True if operands have scales, `a_scale` and `b_scale`."""

    in_tensor_memory: ClassVar[bool] = False
    """True if the sums of such a product are in tensor memory while it runs."""

    @property
    def k(self) -> int:
        """The extent of the axis that is summed over."""
        return self.a.type.get_shape()[-1]


class MatrixProduct(TileProduct):
    """A product of operands as they are."""

    inputPrecision = enum_attr(InputPrecision, InputPrecision.IEEE)
    maxNumImpreciseAcc = i32_attr(0)

    asynchronous: ClassVar[bool] = False
    """True if matrix units read operands from shared memory while threads go on."""

    takes_registers: ClassVar[bool] = False
    """True if the left operand of such a product may be in registers."""


class _UnroundedSums:
    """Sums of products that were rounded to 16 bits or less, by the arrays they were rounded to.

    A chain or a loop of products adds to the sum before its rounding, as compiled code does
    (`passes.ttir.dot_precision`); every other op sees the rounded numbers.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[weakref.ref[np.ndarray], Any]] = {}

    def before_rounding(self, c: Any) -> Any:
        """The float64 sum that an accumulator was rounded from, or the accumulator itself."""
        made, total = self._sums.get(id(c), (None, None))
        return total if made is not None and made() is c else np.asarray(c, np.float64)

    def rounded(self, total: Any, dtype: np.dtype[Any]) -> Any:
        """The sum in a type, as a new array of which the sum is known."""
        result, sums = total.astype(dtype), self._sums
        number = id(result)
        sums[number] = weakref.ref(result, lambda _: sums.pop(number, None)), total
        return result


class DotOp(MatrixProduct):
    """The product that programs write.

    `evaluate` multiplies and sums in float64 (in the type of `c`, wrapping, for integers) and
    rounds once to the type of `c`; operands are taken exactly, whatever `inputPrecision` would
    allow. Sums of 16-bit floats are rounded after a chain of products, not after each.
    """

    name = "tt.dot"
    builders = ("create_dot a b c inputPrecision maxNumImpreciseAcc",)
    exact = "dot"
    syntax = (
        "$a, $b, $c [, 'inputPrecision' = $inputPrecision] attrs "
        ": type(a) * type(b) -> type(result)"
    )

    @classmethod
    def infer(cls, a: ir.Type, b: ir.Type, c: ir.Type, **attrs: Any) -> ir.Type:
        check_product(cls.name, ir.shape_of(a), ir.shape_of(b), a, b, c)
        parents = [e.get("parent") for e in map(ir.encoding_of, (a, b))
                   if isinstance(e, DotOperandEncoding)]  # fmt: skip
        if any(parent != ir.encoding_of(c) for parent in parents):
            raise OpError(
                f"{cls.name}: {describe(a, b, c)}; operands of another encoding's product"
            )
        if ir.is_integer(a) != ir.is_integer(c) or ir.is_integer(a) != ir.is_integer(b):
            raise OpError(f"{cls.name}: {describe(a, b, c)} mix integers and floats")
        return c

    def evaluate(self, context: Context, a: Any, b: Any, c: Any) -> Any:
        if ir.is_integer(self.result_types[0]):
            wide = np.asarray(c).dtype
            return np.matmul(np.asarray(a).astype(wide), np.asarray(b).astype(wide)) + c
        product = np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64))
        dtype = np.asarray(c).dtype
        if dtype.itemsize >= 4:
            return (product + np.asarray(c, np.float64)).astype(dtype)
        sums = context.state(_UnroundedSums)
        return sums.rounded(product + sums.before_rounding(c), dtype)


class ScaleFormat(IntEnum):
    """The element formats of a microscaled product."""

    E4M3, E5M2, E2M3, E3M2, E2M1, BF16, FP16 = range(7)


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def unpack_fp4(packed: Any, axis: int) -> Any:
    """The float64 values of E2M1 numbers packed two a byte along `axis`, low half first."""
    codes = np.asarray(packed).view(np.uint8)
    pairs = np.stack([_E2M1[codes & 15], _E2M1[codes >> 4]], axis=axis % codes.ndim + 1)
    shape = list(codes.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def scale_factors(scale: Any) -> Any:
    """The float64 factors that scales stand for: E8M0 (a biased exponent, 255 is NaN) in i8, or
    the value itself in a floating-point type."""
    scale = np.asarray(scale)
    if scale.dtype != np.int8:
        return scale.astype(np.float64)
    code = scale.view(np.uint8).astype(np.float64)
    return np.where(code == 255, np.nan, np.exp2(code - 127.0))


class DotScaledOp(TileProduct):
    """`(a * a_scale) @ (b * b_scale) + c`, each scale for a run of elements along K.

    Shapes: a (M, K), b (K, N), c (M, N), a_scale (M, K / run), b_scale (N, K / run). E2M1
    operands are i8, two elements a byte, along K or (with `lhs_k_pack` or `rhs_k_pack` false)
    along M or N. `evaluate` computes in float64 and rounds once.
    """

    name = "tt.dot_scaled"
    has_scales = True
    syntax = (
        "$a [scale $a_scale], $b [scale $b_scale], $c lhs = $a_elem_type rhs = $b_elem_type attrs "
        ": type(a) [, type(a_scale)] * type(b) [, type(b_scale)] -> type(result)"
    )
    a_scale = optional()
    b_scale = optional()
    a_elem_type = enum_attr(ScaleFormat)
    b_elem_type = enum_attr(ScaleFormat)
    fastMath = bool_attr()
    lhs_k_pack = bool_attr(True)
    rhs_k_pack = bool_attr(True)

    unscaled: ClassVar[type[MatrixProduct]] = DotOp
    """The product that is left once operands are multiplied by their scales."""

    @property
    def k(self) -> int:
        packed = self.a_elem_type is ScaleFormat.E2M1 and self.lhs_k_pack
        return self.a.type.get_shape()[-1] * (2 if packed else 1)

    @classmethod
    def infer(
        cls, a: ir.Type, b: ir.Type, c: ir.Type, a_scale: Any, b_scale: Any, **attrs: Any
    ) -> ir.Type:
        left, right = list(ir.shape_of(a)), list(ir.shape_of(b))
        if attrs["a_elem_type"] is ScaleFormat.E2M1:
            left[-1 if attrs["lhs_k_pack"] else -2] *= 2
        if attrs["b_elem_type"] is ScaleFormat.E2M1:
            right[-2 if attrs["rhs_k_pack"] else -1] *= 2
        check_product(cls.name, tuple(left), tuple(right), a, b, c)
        for scale, rows in ((a_scale, left[-2]), (b_scale, right[-1])):
            if scale is not None and (
                ir.shape_of(scale)[-2] != rows or left[-1] % ir.shape_of(scale)[-1]
            ):
                raise OpError(
                    f"{cls.name}: scale {describe(scale)}; ({rows}, {left[-1]} / run) is required"
                )
        return c

    def evaluate(self, context: Context, a: Any, b: Any, c: Any, a_scale: Any, b_scale: Any) -> Any:
        left, right = self._values(a, self.a_elem_type, -1 if self.lhs_k_pack else -2), None
        right = self._values(b, self.b_elem_type, -2 if self.rhs_k_pack else -1)
        size = left.shape[-1]
        if a_scale is not None:
            factors = scale_factors(a_scale)
            left = left * np.repeat(factors, size // factors.shape[-1], axis=-1)
        if b_scale is not None:
            factors = np.swapaxes(scale_factors(b_scale), -1, -2)
            right = right * np.repeat(factors, size // factors.shape[-2], axis=-2)
        return (np.matmul(left, right) + np.asarray(c, np.float64)).astype(np.asarray(c).dtype)

    @staticmethod
    def _values(operand: Any, format: ScaleFormat, packed_axis: int) -> Any:
        if format is ScaleFormat.E2M1:
            return unpack_fp4(operand, packed_axis)
        operand = np.asarray(operand)
        if operand.dtype == np.int8:
            if format not in _BYTE_FORMATS:
                raise NotImplementedError(f"tt.dot_scaled of {format.name.lower()} operands")
            operand = operand.view(_BYTE_FORMATS[format])
        return operand.astype(np.float64)


_BYTE_FORMATS = {
    ScaleFormat.E4M3: ir.numpy_dtype(ir.f8e4m3fn),
    ScaleFormat.E5M2: ir.numpy_dtype(ir.f8e5m2),
}
