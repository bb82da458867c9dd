"""The reference's path of helpers for arguments."""

from tritium.language.values.types import TRITON_MAX_TENSOR_NUMEL, validate_block_shape
from tritium.launch.signature import canonical_dtype as canonicalize_dtype
from tritium.launch.signature import type_canonicalisation_dict
from tritium.runtime.paths import ObjPath, find_paths_if, get_iterable_path

__all__ = [
    "TRITON_MAX_TENSOR_NUMEL",
    "ObjPath",
    "canonicalize_dtype",
    "find_paths_if",
    "get_iterable_path",
    "type_canonicalisation_dict",
    "validate_block_shape",
]
