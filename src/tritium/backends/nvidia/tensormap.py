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


def make(address: int, descriptor: Any, meta: Mapping[str, Any]) -> Any:
    """The `CUtensorMap` of a host descriptor (`.shape`, `.strides` in elements, `.padding`), the
    fastest axis last; `meta`: see `tritium.ir.tensor_maps.describe`. Raises `RuntimeError` if the
    driver refuses it."""
    driver = library()
    size, rank = meta["elem_size"], len(meta["block_size"])
    if len(descriptor.shape) != rank or len(descriptor.strides) != rank:
        raise ValueError(
            f"a descriptor of shape {list(descriptor.shape)}, strides {list(descriptor.strides)} "
            f"for blocks {list(meta['block_size'])}; {rank} axes are required"
        )
    dims = [driver.cuuint64_t(int(s)) for s in reversed(descriptor.shape)]
    steps = descriptor.strides[:-1] or [16]  # one that is not looked at, for a single axis
    strides = [driver.cuuint64_t(int(s) * size) for s in reversed(steps)]
    box = [driver.cuuint32_t(int(s)) for s in reversed(meta["block_size"])]
    ones = [driver.cuuint32_t(1)] * rank
    fill = driver.CUtensorMapFloatOOBfill
    nan = getattr(descriptor, "padding", "zero") == "nan"
    return check(driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType(data_type(meta["elem_type"])), rank, address, dims, strides,
        box, ones,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(meta["swizzle"]),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA if nan
        else fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))  # fmt: skip
