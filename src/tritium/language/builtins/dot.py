"""Matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

from tritium import knobs
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import build
from tritium.language.builtins.shapes import reshape_to
from tritium.language.decorators import builtin
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from tritium.ops import ttir
from tritium.ops.ttir import InputPrecision

_OPERANDS = (int8, float16, bfloat16, float32, float64)


def _operand(value: TensorLike, name: str) -> tensor:
    x = casts.to_tensor(value)
    if not x.type.is_block():
        raise ValueError(f"dot: {name} is a scalar; a 2-D or 3-D block is required")
    if not x.dtype.is_fp8() and x.dtype not in _OPERANDS:
        allowed = ", ".join(str(t) for t in _OPERANDS)
        only = "only int8 supported! " if x.dtype.is_int() else ""
        raise TypeError(
            f"Unsupported {name} dtype {x.dtype}; {only}Allowed: fp8 types, {allowed}"
        )
    features = emitter.current().features
    if x.dtype.is_fp8():
        casts.check_dtype_supported(x.dtype)
        if x.dtype.name in features.deprecated_fp8_dot_operand_dtypes:
            emitter.current().warn(
                f"the use of {x.dtype} is deprecated on this architecture and it will be removed; "
                "it is computed in float16"
            )
            return casts.cast(x, float16)
        if x.dtype.is_fp8e4b15():
            return casts.cast(x, float16)
    return x


def _product_shape(lhs: tensor, rhs: tensor) -> tuple[int, ...]:
    """The shape of the product. Raises `ValueError` for operands smaller than the target's."""
    left, right = lhs.type.shape, rhs.type.shape
    shape = ttir.product_shape("dot", left, right)
    m, n, k = emitter.current().features.min_dot_size(lhs.type, rhs.type)
    if left[-2] < m or right[-1] < n or left[-1] < k:
        raise ValueError(
            f"Input shapes should have M >= {m}, N >= {n} and K >= {k}; "
            f"got M = {left[-2]}, N = {right[-1]}, K = {left[-1]}"
        )
    return shape


def _result_dtype(operand: dtype, out_dtype: object) -> dtype:
    if operand.is_int():
        return int32
    if out_dtype == bfloat16:
        raise ValueError(
            "out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16 and cast with "
            "`.to(tl.bfloat16)`"
        )
    if operand in (float32, bfloat16):
        return float32
    if operand == float64:
        return float64
    return float16 if out_dtype == float16 else float32


def precision_of(input_precision: object, allow_tf32: object) -> InputPrecision:
    """The rounding of float32 operands, from the words of a program. Raises `ValueError`."""
    features = emitter.current().features
    if input_precision is not None and allow_tf32 is not None:
        raise ValueError("Only one of input_precision and allow_tf32 can be specified")
    if input_precision is None:
        can_tf32 = "tf32" in features.allowed_dot_input_precisions
        fallback = features.default_dot_input_precision if can_tf32 else "ieee"
        if allow_tf32 is not None:
            fallback = "tf32" if allow_tf32 and can_tf32 else "ieee"
        input_precision = knobs.language.fp32_default or fallback
    word = str(input_precision).lower()
    if word not in features.allowed_dot_input_precisions:
        raise ValueError(
            f"input_precision must be one of {features.allowed_dot_input_precisions}. "
            f"Got {input_precision}"
        )
    return InputPrecision[word.upper()]


def imprecise_products(left: dtype, right: dtype, k: int, wanted: int | None) -> int:
    """The number of products of fp8 numbers that may be summed at reduced precision. Raises
    `ValueError`."""
    fp8 = left.is_fp8() and right.is_fp8()
    if wanted is None:
        return emitter.current().features.max_num_imprecise_acc_default if fp8 else 0
    if fp8 and wanted > k:
        raise ValueError(f"max_num_imprecise_acc ({wanted}) must be <= K ({k})")
    return wanted


def _accumulator(acc: TensorLike | None, element: dtype, shape: tuple[int, ...]) -> tensor:
    """The accumulator that the product is added to: `acc`, or zeros."""
    value = casts.full(shape, 0, element) if acc is None else casts.to_tensor(acc)
    if value.dtype != element or value.type.shape != shape:
        wanted = f"{element} of shape {list(shape)}"
        raise ValueError(f"dot: acc has type {value.type}; {wanted} is required")
    return value


@builtin
def dot(
    input: TensorLike,
    other: TensorLike,
    acc: TensorLike | None = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> tensor:
    """The matrix product `input @ other + acc`.

    Args:
        input, other: blocks (M, K) and (K, N), or with batch axes in front, of one dtype (fp8
            types may be mixed).
        acc: the block (M, N) to add to; zeros when None.
        input_precision: how float32 operands may be rounded: "tf32", "tf32x3", "bf16x3", "bf16x6",
            or "ieee" for not at all; None for the target's choice.
        allow_tf32: deprecated; True for "tf32" where the target has it, False for "ieee". The
            setting `TRITON_F32_DEFAULT` goes before it, but not before `input_precision`.
        max_num_imprecise_acc: for fp8: how many products may be summed at reduced precision.
        out_dtype: float32, or float16 for operands of 16 or fewer bits; by default that of `acc`,
            else float32. int8 gives int32.

    Raises `ValueError` and `TypeError` for shapes, dtypes and options that do not fit.
    """
    lhs, rhs = _operand(input, "lhs"), _operand(other, "rhs")
    if lhs.dtype != rhs.dtype and not (lhs.dtype.is_fp8() and rhs.dtype.is_fp8()):
        raise TypeError(f"Both operands must be same dtype. Got {lhs.dtype} and {rhs.dtype}")
    precision = precision_of(input_precision, allow_tf32)
    shape = _product_shape(lhs, rhs)
    given = None if acc is None else casts.to_tensor(acc).dtype
    if out_dtype is None:
        out_dtype = float16 if given == float16 else float32
    elif given is not None and given != out_dtype:
        raise ValueError(
            f"dot: acc has dtype {given}, out_dtype is {out_dtype}; leave out_dtype out, or pass "
            f"out_dtype={given}"
        )
    accumulator = _accumulator(acc, _result_dtype(lhs.dtype, out_dtype), shape)
    if len(shape) > 3:
        batch = prod(shape[:-2])
        lhs, rhs, accumulator = (
            reshape_to(x, (batch, *x.type.shape[-2:])) for x in (lhs, rhs, accumulator)
        )
    imprecise = (lhs.dtype, rhs.dtype, lhs.type.shape[-1], max_num_imprecise_acc)
    product = build(
        ttir.DotOp, lhs, rhs, accumulator, like=accumulator,
        inputPrecision=precision, maxNumImpreciseAcc=imprecise_products(*imprecise),
    )  # fmt: skip
    return reshape_to(product, shape)


_FORMATS = {"e2m1": uint8, "e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}


def _scaled_operand(value: TensorLike, format: Any, name: str) -> tensor:
    x = casts.to_tensor(value)
    if format not in _FORMATS:
        allowed = ", ".join(_FORMATS)
        raise ValueError(f"dot_scaled: {name} format {format!r} not supported; allowed: {allowed}")
    wanted = _FORMATS[format]
    if x.dtype == wanted:
        return x
    if wanted.is_fp8() and x.dtype in (uint8, int8):
        return casts.bitcast(x, wanted)
    raise TypeError(f"dot_scaled: {name} of format {format} has dtype {x.dtype}; {wanted} required")


def _scale(value: TensorLike | None, name: str, shape: tuple[int, ...]) -> tensor | None:
    """The scales of an operand that has `shape`, K last."""
    if value is None:
        return None
    scale = casts.to_tensor(value)
    if scale.dtype not in (uint8, int8, float8e4nv):
        raise TypeError(f"dot_scaled: {name} has dtype {scale.dtype}; uint8 (E8M0) is required")
    got = list(scale.type.shape) if scale.type.is_block() else "a scalar"
    if not scale.type.is_block() or tuple(scale.type.shape[:-1]) != shape[:-1]:
        wanted = [*shape[:-1], shape[-1] // (16 if scale.dtype.is_fp8e4nv() else 32)]
        raise ValueError(f"dot_scaled: {name} must be a tensor of shape {wanted}. Got {got}")
    if (run := shape[-1] // scale.type.shape[-1]) not in (16, 32):
        raise ValueError(
            f"dot_scaled: scale factor must be 16 or 32. Got {run}: {name} has shape {got}, and K "
            f"is {shape[-1]}"
        )
    return scale


def _check_runs(lhs_scale: tensor | None, rhs_scale: tensor | None, k: int) -> None:
    """Raise `ValueError` where operands have scales for runs of different lengths."""
    if lhs_scale is not None and rhs_scale is not None:
        left, right = (k // scale.type.shape[-1] for scale in (lhs_scale, rhs_scale))
        if left != right:
            raise ValueError("dot_scaled: operands must have the same scale factor; "
                             f"(lhs: {left} vs rhs: {right})")  # fmt: skip


def _unpacked(x: tensor, format: str, name: str, axis: int, along_k: object) -> tuple[int, ...]:
    """The shape of an operand's numbers; K is the axis."""
    shape = list(x.type.shape)
    if len(shape) not in (2, 3):
        raise ValueError(f"dot_scaled: {name} has type {x.type}; it must be either 2D or 3D")
    if format == "e2m1":
        shape[axis if along_k else -3 - axis] *= 2
    elif not along_k:
        raise ValueError(
            f"dot_scaled: {name}_k_pack is False for format {format}; only e2m1 can be packed "
            "along a dimension different than K"
        )
    return tuple(shape)


@builtin
def dot_scaled(
    lhs: TensorLike,
    lhs_scale: TensorLike | None,
    lhs_format: str,
    rhs: TensorLike,
    rhs_scale: TensorLike | None,
    rhs_format: str,
    acc: TensorLike | None = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: object = float32,
) -> tensor:
    """The matrix product of operands that share a scale along runs of K, plus `acc`, in float32.

    Args:
        lhs, rhs: blocks (M, K) and (K, N); in format e2m1 uint8 with two numbers a byte.
        lhs_scale, rhs_scale: uint8 (E8M0) or fp8e4nv blocks (M, K / run) and (N, K / run), or
            None; runs have 16 or 32 elements.
        lhs_format, rhs_format: "e2m1", "e4m3", "e5m2", "bf16" or "fp16".
        acc: the float32 block (M, N) to add to.
        fast_math: do not care for NaN scales.
        lhs_k_pack, rhs_k_pack: whether e2m1 numbers are packed along K (else along M or N).
        out_dtype: float32.

    Raises `ValueError` and `TypeError` for formats, dtypes and shapes that do not fit.
    """
    if out_dtype != float32:
        raise ValueError(f"dot_scaled: out_dtype is {out_dtype}; only float32 is supported")
    a, b = _scaled_operand(lhs, lhs_format, "lhs"), _scaled_operand(rhs, rhs_format, "rhs")
    left = _unpacked(a, lhs_format, "lhs", -1, lhs_k_pack)
    right = _unpacked(b, rhs_format, "rhs", -2, rhs_k_pack)
    shape = ttir.product_shape("dot_scaled", left, right)
    a_scale = _scale(lhs_scale, "lhs_scale", left)
    b_scale = _scale(rhs_scale, "rhs_scale", (*right[:-2], right[-1], right[-2]))
    _check_runs(a_scale, b_scale, left[-1])
    return build(
        ttir.DotScaledOp, a, b, _accumulator(acc, float32, shape), a_scale, b_scale,
        a_elem_type=ttir.ScaleFormat[lhs_format.upper()],
        b_elem_type=ttir.ScaleFormat[rhs_format.upper()],
        fastMath=bool(fast_math), lhs_k_pack=bool(lhs_k_pack), rhs_k_pack=bool(rhs_k_pack),
        like=float32,
    )  # fmt: skip
