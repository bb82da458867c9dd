"""The launch as NVIDIA GPUs see it, and their special registers."""

from __future__ import annotations

from typing import Any

from tritium.language.builtins import arithmetic
from tritium.language.builtins.external import inline_asm_elementwise
from tritium.language.builtins.operators import convert
from tritium.language.decorators import builtin
from tritium.language.emitter import current
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tensor import TensorLike, tensor
from tritium.language.values.types import dtype, float8e4b15, float16, int32, int64, uint8, uint16


@builtin
def globaltimer() -> Any:
    """Nanoseconds of the GPU's global timer: an int64 scalar."""
    return inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], int64, False, 1)


@builtin
def smid() -> Any:
    """The number of the multiprocessor that runs the program: an int32 scalar."""
    return inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], int32, True, 1)


@builtin
def num_warps() -> constexpr:
    """The launch's `num_warps`, at compile time."""
    return constexpr(current().features.asked_num_warps())


@builtin
def num_threads() -> constexpr:
    """The threads that run one program, 32 a warp, at compile time."""
    return constexpr(32 * current().features.asked_num_warps())


# Conversions of fp8e4b15, which has float16's bias and 3 bits of mantissa, as GPUs without that
# format make them. They round halves away from zero and keep below 1.875; `cast` rounds them to
# even, and keeps 1.875.

_LARGEST = 0x3F00
"""The bits of 1.75 as float16."""


@builtin
def convert_fp8e4b15_to_float16(arg: TensorLike) -> tensor:
    """fp8e4b15 as float16, exactly. Raises `TypeError` for other dtypes."""
    return convert(_checked("convert_fp8e4b15_to_float16", arg, float8e4b15), float16)


@builtin
def convert_float16_to_fp8e4b15(arg: TensorLike, has_minx2: object) -> tensor:
    """float16 as fp8e4b15: halves away from zero, magnitudes above 1.75 (and NaN) as 1.75.

    `has_minx2` says that the GPU has `min.f16x2`; the result is the same. Raises `TypeError` for
    other dtypes.
    """
    bits: Any = convert(_checked("convert_float16_to_fp8e4b15", arg, float16), uint16, None, True)
    magnitude = arithmetic.minimum(bits & 0x7FFF, _LARGEST)
    rounded = (magnitude * 2 + 0x80) >> 8
    return convert(convert(rounded | ((bits >> 8) & 0x80), uint8), float8e4b15, None, True)


def _checked(name: str, arg: TensorLike, wanted: dtype) -> tensor:
    if not isinstance(arg, tensor) or arg.dtype != wanted:
        given = arg.dtype if isinstance(arg, tensor) else repr(arg)
        raise TypeError(f"{name}: the argument is {given}; a tensor of {wanted} is required")
    return arg


@builtin
def convert_custom_float8(
    arg: TensorLike, dst_ty: Any, fp_downcast_rounding: object, has_minx2: Any
) -> tensor:
    """fp8e4b15 as float16 or float32, or one of these, float32 first rounded toward zero to
    float16, as fp8e4b15. Raises `TypeError` for other dtypes."""
    target: Any = dst_ty.scalar
    source = arg.dtype if isinstance(arg, tensor) else None
    to_wide = source == float8e4b15 and (target.is_fp16() or target.is_fp32())
    to_narrow = source is not None and (source.is_fp16() or source.is_fp32())
    if not to_wide and not (to_narrow and target == float8e4b15):
        raise TypeError(
            f"convert_custom_float8: {source or repr(arg)} to {target}; one must be {float8e4b15} "
            "and the other fp16 or fp32"
        )
    if to_wide:
        return convert(arg, target)
    half = convert(arg, float16, "rtz") if source != float16 else arg
    return convert_float16_to_fp8e4b15(half, has_minx2)


@builtin
def convert_custom_float8_sm80(
    arg: TensorLike, dst_ty: object, fp_downcast_rounding: object = None
) -> tensor:
    """`convert_custom_float8` on GPUs from sm_80 on."""
    return convert_custom_float8(arg, dst_ty, fp_downcast_rounding, True)


@builtin
def convert_custom_float8_sm70(
    arg: TensorLike, dst_ty: object, fp_downcast_rounding: object = None
) -> tensor:
    """`convert_custom_float8` on GPUs before sm_80."""
    return convert_custom_float8(arg, dst_ty, fp_downcast_rounding, False)
