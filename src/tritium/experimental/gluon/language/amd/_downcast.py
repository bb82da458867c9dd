"""Numbers of 16 and 32 bits as numbers of 4 and 8 bits with scales."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language import _core as gl
from tritium.experimental.gluon.language._layouts import BlockedLayout
from tritium.experimental.gluon.language.amd._upcast import alternating, times_power
from tritium.language import core as tl
from tritium.language.jit.function import device_function
from tritium.language.values.constexpr import constexpr_function

LEAST_RUN = 8
"""Numbers along the axis that share a scale, at least."""
_FORMATS = {"e4m3": tl.float8e4nv, "e5m2": tl.float8e5, "e2m1": tl.uint8}


@constexpr_function
def _checked(shape: Any, scales: Any, format: str, axis: int) -> tuple[Any, int, int]:
    """The dtype of the result, the axis, and how often scales double to be one for each number.
    Raises `ValueError`."""
    rank = len(shape)
    if format not in _FORMATS:
        raise ValueError(f"scaled_downcast: format is {format!r}; {', '.join(_FORMATS)} are built")
    if not -rank <= axis < rank:
        raise ValueError(f"scaled_downcast: axis is {axis}; 0 to {rank - 1} are allowed")
    place = axis % rank
    run = shape[place] // scales[place] if len(scales) == rank else 0
    same = len(scales) == rank and all(a == b for i, (a, b) in enumerate(
        zip(shape, scales, strict=True)) if i != place)  # fmt: skip
    if not same or run < LEAST_RUN:
        raise ValueError(
            f"scaled_downcast: scales {list(scales)} of numbers {list(shape)}; one for "
            f"{LEAST_RUN} or more numbers along axis {place} is required"
        )
    return _FORMATS[format], place, run.bit_length() - 1


@constexpr_function
def _pairs(shape: Any, axis: int) -> tuple[list[int], list[int]]:
    """The shape with neighbours along the axis as an axis of their own, and the order of axes in
    which that is the last."""
    rank = len(shape)
    split = [*shape[:axis], shape[axis] // 2, 2, *shape[axis + 1 :]]
    return split, [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]


@constexpr_function
def _halved(layout: Any, found: Any, axis: int) -> Any:
    """The layout of bytes of two neighbours each: a blocked one for those in one."""
    if not isinstance(layout, BlockedLayout) or layout.size_per_thread[axis] % 2:
        return found
    sizes = [n // 2 if i == axis else n for i, n in enumerate(layout.size_per_thread)]
    return BlockedLayout(sizes, layout.threads_per_warp, layout.warps_per_cta, layout.order,
                         layout.cga_layout)  # fmt: skip


@device_function
def _e2m1(value: Any) -> Any:
    """The codes of the nearest numbers, of two those with an even code; 6 beyond it."""
    size = tl.where(value < 0, -value, value)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75) + (size > 1.25) + (size >= 1.75)
    code += (size > 2.5).to(tl.int32) + (size >= 3.5) + (size > 5.0)
    code = tl.where(value != value, 7, code)
    return code | (value.to(tl.int32, bitcast=True) >> 28 & 8)


@device_function
def scaled_downcast(input: Any, scale: Any, format: Any, axis: Any = -1) -> Any:
    """`input` divided by its scales, in few bits.

    Args:
        input: float16, bfloat16 or float32.
        scale: bytes (powers of two, 127 is 1), one for 8 or more numbers along the axis.
        format: "e4m3", "e5m2", or "e2m1" with two numbers along the axis in a byte, the first in
            the lower half.
        axis: along which numbers share scales; a thread has both numbers of a byte.
    """
    tl.static_assert(scale.dtype == tl.uint8 or scale.dtype == tl.int8,
                     "scaled_downcast: scale must be int8 or uint8")
    found: tl.constexpr = _checked(input.shape, scale.shape, format, axis)
    place: tl.constexpr = found[1]
    codes = scale.to(tl.uint8, bitcast=True).to(tl.int32)
    for _ in tl.static_range(found[2]):
        codes = alternating(codes, codes, place)
    codes = gl.convert_layout(codes, input.type.layout)
    code: Any = codes
    value = times_power(input.to(tl.float32), tl.where(code == 255, 255, 254 - code))
    if format == "e2m1":
        parts: tl.constexpr = _pairs(input.shape, place)
        pairs = tl.permute(tl.reshape(_e2m1(value), parts[0]), parts[1])
        low, high = tl.split(pairs)
        bytes = (low | high << 4).to(tl.uint8)
        return gl.convert_layout(bytes, _halved(input.type.layout, bytes.type.layout, place))
    return value.to(found[0])
