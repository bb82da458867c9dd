"""Tensor maps (`CUtensorMap`): what the bulk copy engine knows of a tensor in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from tritium.backends.nvidia.libcuda import check, library

BYTES, ALIGNMENT = 128, 64


_DATA_TYPES = {8: 10, 9: 8, 10: 9}


def data_type(number: int) -> int:
    """`CUtensorMapDataType` for PTX's number of an element type."""
    return _DATA_TYPES.get(number, number)


def encode(address: int, descriptor: Any, meta: Mapping[str, Any]) -> bytes:
    """The 128 bytes of the map of a host descriptor; see `make`."""
    return ctypes.string_at(int(make(address, descriptor, meta).getPtr()), BYTES)


def further(descriptor: Any) -> tuple[Any, ...]:
    """Parts of maps beside the tensor and the box: the padding and, of patches, corners and
    steps (see `gluon.nvidia.hopper.TensorDescriptorIm2Col`), which others have not."""
    fields = "pixel_box_lower_corner", "pixel_box_upper_corner", "element_strides"
    found = (tuple(getattr(descriptor, field, None) or ()) for field in fields)
    return (getattr(descriptor, "padding", "zero"), *found)


def make(address: int, descriptor: Any, meta: Mapping[str, Any]) -> Any:
    """The `CUtensorMap` of a host descriptor (`.shape`, `.strides` in elements, `.padding`), the
    fastest axis last; `meta`: see `tritium.ir.tensor_maps.describe`. Raises `RuntimeError` if the
    driver refuses it."""
    driver = library()
    size, rank = meta["elem_size"], meta["rank"]
    if len(descriptor.shape) != rank or len(descriptor.strides) != rank:
        raise ValueError(
            f"a descriptor of shape {list(descriptor.shape)}, strides {list(descriptor.strides)} "
            f"for blocks {list(meta['block_size'])}; {rank} axes are required"
        )
    *outer, inner = map(int, descriptor.shape)
    inner *= 2 if meta["fp4_padded"] else 1
    dims = [driver.cuuint64_t(s) for s in (inner, *reversed(outer))]
    steps = descriptor.strides[:-1] or [16]  # one that is not looked at, for a single axis
    strides = [driver.cuuint64_t(int(s) * size) for s in reversed(steps)]
    box = [driver.cuuint32_t(int(s)) for s in reversed(meta["block_size"])]
    fill = driver.CUtensorMapFloatOOBfill
    padding, lower, upper, steps = further(descriptor)
    jumps = [driver.cuuint32_t(s) for s in reversed(steps or [1] * rank)]
    if meta["is_im2col"]:
        encode, part = driver.cuTensorMapEncodeIm2col, [[*lower[::-1]], [*upper[::-1]], *box]
    else:
        encode, part = driver.cuTensorMapEncodeTiled, [box]
    return check(encode(
        driver.CUtensorMapDataType(data_type(meta["elem_type"])), rank, address, dims, strides,
        *part, jumps,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(meta["swizzle"]),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA if padding == "nan"
        else fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))  # fmt: skip
