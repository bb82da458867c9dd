"""The reference's path of helpers for arguments."""

from tritium.backends.signature import canonical_dtype as canonicalize_dtype
from tritium.backends.signature import type_canonicalisation_dict
from tritium.runtime.paths import ObjPath, find_paths_if, get_iterable_path

__all__ = [
    "ObjPath",
    "canonicalize_dtype",
    "find_paths_if",
    "get_iterable_path",
    "type_canonicalisation_dict",
]
