"""Numbers of 4 and 8 bits with scales, as numbers of 16 bits."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language import _core as gl
from tritium.experimental.gluon.language._layouts import DistributedLinearLayout
from tritium.ir.layouts import moves
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.language import core as tl
from tritium.language.decorators import builtin
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr, constexpr_function


@constexpr_function
def _in_turn(shape: Any, axis: int) -> tuple[list[int], list[int]]:
    """The order of axes that puts the last of two joined blocks behind the axis, and the shape of
    both in turn."""
    rank = len(shape)
    if not 0 <= axis < rank:
        raise ValueError(f"scaled_upcast: axis is {axis}; 0 to {rank - 1} are allowed")
    order = [*range(axis + 1), rank, *range(axis + 1, rank)]
    return order, [2 * n if i == axis else n for i, n in enumerate(shape)]


@device_function
def alternating(x: Any, y: Any, axis: Any) -> Any:
    """The elements of two blocks in turn along an axis."""
    places = _in_turn(x.shape, axis)
    return tl.reshape(tl.permute(tl.join(x, y), places[0]), places[1])


@device_function
def times_power(value: Any, codes: Any) -> Any:
    """The product with powers of two given by their exponents (127 is 1, 255 is NaN), in two steps
    that are normal numbers."""
    half = codes >> 1
    first = (half + 64 << 23).to(tl.float32, bitcast=True)
    second = (codes - half + 63 << 23).to(tl.float32, bitcast=True)
    return tl.where(codes == 255, float("nan"), value * first * second)


@device_function
def scaled_upcast(src: Any, scale: Any, elem_type: Any, axis: Any = None) -> Any:
    """`src` times its scales, in float16 or bfloat16.

    Args:
        src: float8, or bytes with two e2m1 numbers along `axis`, the lower half first.
        scale: bytes (powers of two, 127 is 1) for each number, in the layout of the result, or for
            each run of numbers along `axis`, in that of `get_scaled_upcast_fp4_scale_layout`.
        elem_type: of the result.
        axis: along which bytes have two numbers, and a scale holds for several.
    """
    tl.static_assert(elem_type == tl.float16 or elem_type == tl.bfloat16,
                     "scaled_upcast: elem_type must be float16 or bfloat16")
    tl.static_assert(scale.dtype == tl.uint8 or scale.dtype == tl.int8,
                     "scaled_upcast: scale must be int8 or uint8")
    if src.dtype.is_fp8():
        value = src.to(tl.float32)
    else:
        value = gl.fp4_to_fp(src, tl.float16, axis).to(tl.float32)
    codes = scale.to(tl.uint8, bitcast=True).to(tl.int32)
    if codes.numel == value.numel:
        codes = gl.convert_layout(codes, value.type.layout, assert_trivial=True)  # pyright: ignore
    else:
        for _ in tl.static_range((value.numel // codes.numel).bit_length() - 1):
            codes = alternating(codes, codes, axis)
        codes = gl.convert_layout(codes, value.type.layout)  # pyright: ignore
    return times_power(value, codes).to(elem_type)


@builtin
def get_scaled_upcast_fp4_scale_layout(
    src: Any, scale_factor: int, elem_type: Any, axis: int
) -> constexpr:
    """The layout of scales, each of `scale_factor` numbers along `axis`, for `scaled_upcast` of
    bytes."""
    shape = tuple(src.type.shape)
    order, whole = _in_turn(shape, axis)
    if whole[axis] % scale_factor or scale_factor & scale_factor - 1:
        raise ValueError(
            f"get_scaled_upcast_fp4_scale_layout: scale_factor is {scale_factor}, of "
            f"{whole[axis]} numbers; a power of two that divides them is required"
        )
    pairs = moves.joined(src.type.encoding, shape)
    pairs = moves.transposed(pairs, tuple(order), (*shape, 2))
    split = tuple([*shape, 2][i] for i in order)
    found = linear(moves.reshaped(pairs, split, tuple(whole)), tuple(whole))
    bases = {
        name: [[x // scale_factor if i == axis else x for i, x in enumerate(basis)]
               for basis in found.bases(name)] for name in found.in_names
    }  # fmt: skip
    bases[REGISTER] = [basis for basis in bases[REGISTER] if any(basis)]
    whole[axis] //= scale_factor
    return constexpr(DistributedLinearLayout(*bases.values(), shape=whole))
