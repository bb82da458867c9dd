"""Tensor maps (`CUtensorMap`): what the bulk copy engine knows of a tensor in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from tritium.backends.nvidia.libcuda import check, library
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import NVMMASharedEncoding

BYTES, ALIGNMENT = 128, 64

_ELEMENTS: dict[Any, int] = {
    ir.i8: 0, ir.i16: 1, ir.i32: 4, ir.i64: 5, ir.f16: 6, ir.f32: 7, ir.f64: 8, ir.bf16: 9,
    ir.f8e4m3fn: 0, ir.f8e5m2: 0,
}  # fmt: skip
"""`CUtensorMapDataType` of an element type (of signless integers, the unsigned one or its bits)."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def describe(type: Any) -> dict[str, Any]:
    """What a kernel's descriptor argument needs of its map: the entry of `tensordesc_meta`.

    `swizzle`: `CUtensorMapSwizzle`; `elem_size` in bytes; `elem_type`: `CUtensorMapDataType`;
    `block_size`: what one copy moves, at most a swizzled row wide.
    """
    block: Any = type.block
    encoding, size = block.encoding, max(ir.bit_width(block.element_type) // 8, 1)
    if not isinstance(encoding, NVMMASharedEncoding):
        raise NotImplementedError(f"tensor maps of blocks in the layout {encoding}")
    width = encoding.get("swizzlingByteWidth")
    shape = list(block.get_shape())
    if width:
        shape[-1] = min(shape[-1], width // size)
    return {
        "swizzle": _SWIZZLES[width], "elem_size": size, "elem_type": _ELEMENTS[block.element_type],
        "block_size": shape, "fp4_padded": encoding.get("fp4Padded"),
    }  # fmt: skip


def encode(address: int, descriptor: Any, meta: Mapping[str, Any]) -> bytes:
    """The 128 bytes of the map of a host descriptor (`.shape`, `.strides` in elements,
    `.padding`), the fastest axis last. Raises `RuntimeError` if the driver refuses it."""
    driver = library()
    size, rank = meta["elem_size"], len(meta["block_size"])
    if len(descriptor.shape) != rank or len(descriptor.strides) != rank:
        raise ValueError(
            f"a descriptor of shape {list(descriptor.shape)}, strides {list(descriptor.strides)} "
            f"for blocks {list(meta['block_size'])}; {rank} axes are required"
        )
    dims = [driver.cuuint64_t(int(s)) for s in reversed(descriptor.shape)]
    strides = [driver.cuuint64_t(int(s) * size) for s in reversed(descriptor.strides[:-1])]
    box = [driver.cuuint32_t(int(s)) for s in reversed(meta["block_size"])]
    ones = [driver.cuuint32_t(1)] * rank
    fill = driver.CUtensorMapFloatOOBfill
    nan = getattr(descriptor, "padding", "zero") == "nan"
    encoded = check(driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType(meta["elem_type"]), rank, address, dims, strides, box, ones,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(meta["swizzle"]),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA if nan
        else fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))  # fmt: skip
    return ctypes.string_at(int(encoded.getPtr()), BYTES)
