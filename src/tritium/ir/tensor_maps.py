"""Fields of the tensor maps (`CUtensorMap`) for a descriptor's blocks.

Numbers are those of PTX's `tensormap.replace`; the driver numbers some element types otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import Signedness

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import WIDEST_ROW, NVMMASharedEncoding, part_of

BYTES, ALIGNMENT = 128, 128
"""The size and the alignment of a map in memory."""

WIDEST = WIDEST_ROW
"""Elements along an axis of what one copy moves, at most."""

_ELEMENTS: dict[Any, int] = {
    ir.i8: 0, ir.i16: 1, ir.i32: 3, ir.i64: 5, ir.f16: 6, ir.f32: 7, ir.f64: 9, ir.bf16: 10,
    ir.f8e4m3fn: 0, ir.f8e5m2: 0,
}  # fmt: skip
_PADDED_FP4 = 14
"""The number of elements of 4 bits, 16 of which fill 8 bytes of 16."""
_UNSIGNED = {8: 0, 16: 1, 32: 2, 64: 4}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def map_element(element: Any) -> int | None:
    """The number of an element type; None for types that maps do not have. Integers without a
    sign count as signed from 32 bits on, where there are both."""
    if ir.is_integer(element):
        bits = ir.bit_width(element)
        if element.signedness.data is Signedness.UNSIGNED:
            return _UNSIGNED.get(bits)
        element = ir.IntegerType(bits)
    return _ELEMENTS.get(element)


def box(shape: Sequence[int], encoding: Any, size: int) -> tuple[int, ...]:
    """The box that one copy moves of a block of `size`-byte elements in this shared memory layout:
    a swizzled row wide. What it moves lies in one piece, so that axes outside of one that takes
    several copies (rows do not count as outside of columns) are gone through one by one. What
    several blocks of a cluster have copies of is as many boxes, if it has rows enough, so that each
    can copy some for all. Raises `NotImplementedError` for layouts that tensor maps do not have."""
    if len(shape) == 1:
        return (min(shape[0], WIDEST),)
    if not isinstance(encoding, NVMMASharedEncoding) or encoding.get("transposed"):
        raise NotImplementedError(f"tensor maps of blocks in the layout {encoding}")
    width = encoding.get("swizzlingByteWidth") // size // encoding.dilution or shape[-1]
    columns = min(shape[-1], width, WIDEST)
    parts = [columns, _rows(shape, columns, encoding)]
    whole = parts == [*shape[:-3:-1]]
    for extent in shape[-3::-1]:
        parts.append(min(extent, WIDEST) if whole else 1)
        whole = parts[-1] == extent
    return tuple(reversed(parts))


SWIZZLED_ROWS = 8
"""Rows after which the order of what is in a row is as it was."""


def _rows(shape: Sequence[int], columns: int, encoding: Any) -> int:
    """The rows of a box; see `box`."""
    copies = 1 << sum(not any(basis) for basis in encoding.get("CGALayout"))
    rows = min(shape[-2], WIDEST)
    boxes = prod(shape[:-2]) * (shape[-2] // rows) * (shape[-1] // columns)
    while boxes < copies and rows > SWIZZLED_ROWS:
        boxes, rows = 2 * boxes, rows // 2
    return rows


MOST_PIXELS = 1024
"""Pixels of the patches that one copy moves, at most."""


def patches_box(shape: Sequence[int], encoding: Any, size: int) -> tuple[int, ...]:
    """Part of a block (pixels, channels) of patches that one copy moves: all pixels, because only
    the map says where the next one is. Raises `NotImplementedError` for more than there may be."""
    if shape[0] > MOST_PIXELS:
        raise NotImplementedError(f"{shape[0]} pixels of patches; {MOST_PIXELS} are allowed")
    return (shape[0], box(shape, encoding, size)[1])


def describe(type: Any) -> dict[str, Any]:
    """The map's fields for blocks of a descriptor's type, which has an encoding.

    `swizzle`: the mode; `elem_size` in bytes; `elem_type`: the number of the element type;
    `rank`: of the tensor; `block_size`: what one copy moves, at most a swizzled row wide;
    `is_im2col`: whether that is (pixels, channels) of patches; `fp4_padded`: elements are halves of
    bytes, and the last of `block_size` counts these. A block of a cluster copies what it has of a
    tile.
    """
    block: Any = type.block
    element: Any = block.element_type
    encoding, size = block.encoding, ir.memory_bytes(element)
    whole = part_of(encoding.get("CGALayout"), block.get_shape())
    patches = isinstance(type, ir.PatchesDescType)
    shape = [*(patches_box if patches else box)(whole, encoding, size)]
    width = encoding.get("swizzlingByteWidth") if len(shape) > 1 else 0
    padded, number = len(shape) > 1 and encoding.get("fp4Padded"), map_element(element)
    if padded:
        shape[-1], number = 2 * shape[-1], _PADDED_FP4
    return {
        "swizzle": _SWIZZLES[width], "elem_size": size, "elem_type": number,
        "block_size": shape, "rank": type.rank.data if patches else len(shape),
        "is_im2col": patches, "fp4_padded": padded,
    }  # fmt: skip
