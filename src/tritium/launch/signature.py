"""Signature types of launch arguments: `i32`, `fp32`, ..."""

from __future__ import annotations

from typing import Any

type_canonicalisation_dict: dict[str, str] = {
    "bool": "i1",
    "int1": "i1",
    "uint1": "u1",
    "float8e4nv": "fp8e4nv",
    "float8_e4m3fn": "fp8e4nv",
    "float8e4b8": "fp8e4b8",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8e5": "fp8e5",
    "float8_e5m2": "fp8e5",
    "float8e5b16": "fp8e5b16",
    "float8_e5m2fnuz": "fp8e5b16",
    "float8e4b15": "fp8e4b15",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "float32": "fp32",
    "double": "fp64",
    "float64": "fp64",
    **{
        f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)
    },
}
type_canonicalisation_dict.update({v: v for v in list(type_canonicalisation_dict.values())})


def canonical_dtype(dtype: Any) -> str:
    """The kernel type ("fp32") for a dtype of torch, NumPy or the language, or its name.

    Raises `TypeError` for a dtype that kernels cannot access.
    """
    if isinstance(dtype, type):  # numpy.float32
        name = dtype.__name__
    else:
        name = getattr(dtype, "name", None) or str(dtype).split(".")[-1]
    found = type_canonicalisation_dict.get(name)
    if found is None:
        known = ", ".join(sorted(set(type_canonicalisation_dict.values())))
        raise TypeError(f"no kernel type matches dtype {dtype!s}; supported are {known}")
    return found


def int_type(value: int) -> str:
    """The narrowest of i32, i64 and u64 that holds `value`. Raises `OverflowError`."""
    if -(2**31) <= value < 2**31:
        return "i32"
    if -(2**63) <= value < 2**63:
        return "i64"
    if 0 <= value < 2**64:
        return "u64"
    raise OverflowError(f"integer argument {value} does not fit in 64 bits")
