"""Sizes of tiles and warps of products on AMD GPUs."""

from __future__ import annotations

from typing import Any

from tritium_kernels.launching.launch import cdiv, power_of_two
from tritium_kernels.tensor_details.ragged_tensor import RaggedTensorMetadata


def num_xcds(arch: Any) -> int:
    """Dies with a second-level cache of their own."""
    return 8 if arch in ("gfx942", "gfx950") else 1


def compute_grid_m(ragged_metadata: Any, m: int, block_m: int) -> int:
    """Tiles along m."""
    if ragged_metadata is None:
        return cdiv(m, block_m)
    return RaggedTensorMetadata.n_blocks(ragged_metadata.n_slices, m, block_m)


def compute_block_nk(
    n: int, block_m: int, grid_m: int, num_xcds: int, lhs_dtype: Any, rhs_dtype: Any,
    precision_config: Any,
) -> tuple[int, int]:  # fmt: skip
    """(columns, elements along k) of a tile."""
    widest = max(lhs_dtype.bitwidth, rhs_dtype.bitwidth)
    scaled = precision_config.b_mx_scale is not None
    # Few rows: b is read once, and wide tiles of it make few programs; each die gets some.
    most = 256 if grid_m * cdiv(n, 256) >= 32 * num_xcds and block_m >= 64 else 128
    block_n = max(16, min(most, power_of_two(n)))
    block_k = 256 if scaled and block_m <= 32 else 128 if scaled or widest <= 8 else 64
    return block_n, block_k if widest <= 16 else 32


def compute_split_k(block_k: int, k: int, tiles: int, processors: int) -> int:
    """Parts of the sum that give each compute unit a program, each of at least four tiles."""
    return max(1, min(processors // max(1, tiles), cdiv(k, block_k) // 4))


def compute_num_warps(block_m: int, block_n: int) -> int:
    """Warps of a program: of 64 lanes, with at least 64 elements of the tile each."""
    return max(1, min(8, block_m * block_n // 4096))


def kernel_options(block_m: int) -> dict[str, Any]:
    """Options of the AMD backend: products of 16 x 16 elements for few rows."""
    return {"waves_per_eu": 0, "matrix_instr_nonkdim": 16 if block_m < 64 else 32, "kpack": 1}
