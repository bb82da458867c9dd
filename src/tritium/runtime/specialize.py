"""From launch arguments to kernel types: what a kernel is compiled for, and the key of that.

An argument contributes (type, specialization):

    tensor of fp32          ("*fp32", "D")      "D": address divisible by 16, "" otherwise
    17, 32, 1               ("i32", ""), ("i32", "D"), ("constexpr", 1)
    2**40, 2**63            ("i64", "D"), ("u64", "D")
    0.5, True, None         ("fp32", ""), ("u1", ""), ("constexpr", None)
    a tuple                 a tuple of types, a tuple of specializations
    constexpr parameters    ("constexpr", value)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.language.base import base_type
from tritium.language.constexpr import constexpr
from tritium.language.function import JITCallable, KernelParam

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
    **{f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
}
type_canonicalisation_dict.update({v: v for v in list(type_canonicalisation_dict.values())})


def canonical_dtype(dtype: Any) -> str:
    """The kernel type ("fp32") for a dtype of torch, NumPy or the language, or its name.

    Raises `TypeError` for a dtype that kernels cannot access.
    """
    name = getattr(dtype, "name", None) or str(dtype).split(".")[-1]
    found = type_canonicalisation_dict.get(name)
    if found is None:
        known = ", ".join(sorted(set(type_canonicalisation_dict.values())))
        raise TypeError(f"no kernel type matches dtype {dtype!s}; supported are {known}")
    return found


_pointer_types: dict[tuple[Any, bool], str] = {}


def pointer_type(dtype: Any, is_const: bool) -> str:
    """The type of a pointer to elements of `dtype`: "*fp32", or "*kfp32" for read-only access."""
    key = (dtype, is_const)
    found = _pointer_types.get(key)
    if found is None:
        found = _pointer_types[key] = ("*k" if is_const else "*") + canonical_dtype(dtype)
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


def address_of(arg: Any) -> int:
    """The address of a tensor-like argument's first element."""
    if type(arg) is np.ndarray:
        return arg.__array_interface__["data"][0]
    if hasattr(arg, "data_ptr"):
        return arg.data_ptr()
    for protocol in ("__array_interface__", "__cuda_array_interface__"):
        interface = getattr(arg, protocol, None)
        if interface is not None:
            return interface["data"][0]
    return np.from_dlpack(arg).__array_interface__["data"][0]


class Specializer:
    """Specializes the arguments for one parameter."""

    def __init__(self, param: KernelParam, backend: Any):
        self.param = param
        self.backend = backend
        self.by_value = not param.do_not_specialize
        self.by_alignment = self.by_value and not param.do_not_specialize_on_alignment
        self.fixed = param.annotation_type

    def __call__(self, arg: Any) -> tuple[Any, Any]:
        """(type, specialization) of an argument. Raises `TypeError` naming the parameter."""
        kind = type(arg)
        if self.param.is_constexpr:
            return "constexpr", constexpr_key(arg)
        if kind is int:
            return self._int(arg)
        if kind is float:
            return self.fixed or "fp32", ""
        if kind is np.ndarray or hasattr(arg, "data_ptr"):
            return self._tensor(arg)
        if kind is bool:
            return self.fixed or "u1", ""
        return self._other(arg)

    def _int(self, arg: int) -> tuple[Any, Any]:
        if self.by_value and arg == 1 and not self.fixed.startswith(("fp", "bf")):
            return "constexpr", 1
        type_ = self.fixed or int_type(arg)
        if self.fixed.startswith(("fp", "bf", "u1", "i1")):
            return type_, ""
        return type_, self.backend.get_int_specialization(arg, align=self.by_alignment)

    def _tensor(self, arg: Any) -> tuple[Any, Any]:
        if self.by_alignment and address_of(arg) % 16 == 0:
            return pointer_type(arg.dtype, self.param.is_const), "D"
        return pointer_type(arg.dtype, self.param.is_const), ""

    def _other(self, arg: Any) -> tuple[Any, Any]:
        if arg is None or isinstance(arg, (str, base_type, constexpr, JITCallable)):
            return "constexpr", constexpr_key(arg)
        if isinstance(arg, tuple):
            pairs = [self(item) for item in arg]
            types, specs = (tuple(p[i] for p in pairs) for i in (0, 1))
            names = getattr(arg, "_fields", None)
            if names is not None:
                return type(arg)(*types), type(arg)(*specs)
            return types, specs
        if isinstance(arg, (bool, np.bool_)):
            return self.fixed or "u1", ""
        if isinstance(arg, (int, np.integer)):
            return self._int(int(arg))
        if isinstance(arg, (float, np.floating)):
            return self.fixed or "fp32", ""
        if hasattr(arg, "block_shape") and hasattr(arg, "base"):
            blocks = list(arg.block_shape)
            return f"tensordesc<{canonical_dtype(arg.base.dtype)}{blocks}>", ""
        if hasattr(arg, "dtype") or hasattr(arg, "__dlpack__"):
            return self._foreign(arg)
        raise TypeError(
            f"argument '{self.param.name}' has type {type(arg).__name__}; a kernel takes tensors, "
            "numbers, None, tuples of these, and compile-time values"
        )

    def _foreign(self, arg: Any) -> tuple[Any, Any]:
        dtype = getattr(arg, "dtype", None)
        if dtype is None:
            dtype = np.from_dlpack(arg).dtype
        aligned = self.by_alignment and address_of(arg) % 16 == 0
        return pointer_type(dtype, self.param.is_const), "D" if aligned else ""


def constexpr_key(value: Any) -> Any:
    """What tells two compile-time values apart in a key."""
    if isinstance(value, constexpr):
        value = value.value
    if isinstance(value, JITCallable):
        return value
    try:
        hash(value)
    except TypeError:
        if isinstance(value, list):
            return tuple(constexpr_key(v) for v in value)
        raise TypeError(f"a constexpr argument must be hashable; got {value!r}") from None
    # 1, 1.0 and True are equal but compile differently.
    return (type(value), value) if isinstance(value, (bool, float)) else value


def constants_of(
    values: Sequence[Any], types: Sequence[Any], path: tuple[int, ...] = ()
) -> dict[tuple[int, ...], Any]:
    """The values of the arguments whose type is "constexpr", by path."""
    found: dict[tuple[int, ...], Any] = {}
    for i, (value, type_) in enumerate(zip(values, types)):
        here = (*path, i)
        if isinstance(type_, tuple):
            found.update(constants_of(value, type_, here))
        elif type_ == "constexpr":
            found[here] = value.value if isinstance(value, constexpr) else value
    return found


def attributes_of(
    types: Sequence[Any], specs: Sequence[Any], backend: Any, path: tuple[int, ...] = ()
) -> dict[tuple[int, ...], list[list[Any]]]:
    """The IR attributes that the specializations stand for, by path."""
    found: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, (type_, spec) in enumerate(zip(types, specs)):
        here = (*path, i)
        if isinstance(type_, tuple):
            found.update(attributes_of(type_, spec, backend, here))
        elif type_ != "constexpr" and isinstance(spec, str) and spec:
            attrs = backend.parse_attr(spec)
            if attrs:
                found[here] = attrs
    return found
