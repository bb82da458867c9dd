"""What a kernel's descriptor arguments need of their tensor maps, which are made at the launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import NVMMASharedEncoding

_ELEMENTS: dict[Any, int] = {
    ir.i8: 0, ir.i16: 1, ir.i32: 4, ir.i64: 5, ir.f16: 6, ir.f32: 7, ir.f64: 8, ir.bf16: 9,
    ir.f8e4m3fn: 0, ir.f8e5m2: 0,
}  # fmt: skip
"""`CUtensorMapDataType` of an element type (of signless integers, the unsigned one or its bits)."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


WIDEST = 256
"""Elements along an axis of what one copy moves, at most."""


def box(shape: Sequence[int], encoding: Any, size: int) -> tuple[int, ...]:
    """What one copy moves of a block of elements of `size` bytes in this layout of shared memory:
    a swizzled row wide. Raises `NotImplementedError` for layouts that tensor maps do not have."""
    width = 0
    if len(shape) > 1:
        if not isinstance(encoding, NVMMASharedEncoding) or encoding.get("transposed"):
            raise NotImplementedError(f"tensor maps of blocks in the layout {encoding}")
        width = encoding.get("swizzlingByteWidth")
    last = min(shape[-1], width // size) if width else shape[-1]
    return tuple(min(extent, WIDEST) for extent in (*shape[:-1], last))


def describe(type: Any) -> dict[str, Any]:
    """What a kernel's descriptor argument needs of its map: the entry of `tensordesc_meta`.

    `swizzle`: `CUtensorMapSwizzle`; `elem_size` in bytes; `elem_type`: `CUtensorMapDataType`;
    `block_size`: what one copy moves, at most a swizzled row wide.
    """
    block: Any = type.block
    encoding, size = block.encoding, max(ir.bit_width(block.element_type) // 8, 1)
    shape = list(box(block.get_shape(), encoding, size))
    width = encoding.get("swizzlingByteWidth") if len(shape) > 1 else 0
    return {
        "swizzle": _SWIZZLES[width], "elem_size": size, "elem_type": _ELEMENTS[block.element_type],
        "block_size": shape, "fp4_padded": len(shape) > 1 and encoding.get("fp4Padded"),
    }  # fmt: skip
