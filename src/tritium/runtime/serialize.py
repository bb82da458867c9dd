"""Signatures, constants and options as JSON: what compilation hooks are told, for `preload`.

3, 0.5, None, "text"   themselves
(1, 2)                 [1, 2]
a named tuple          {"namedtuple": "Pair", "fields": ["x", "y"], "values": [1, 2]}
tl.float32             {"dtype": "fp32"}
a kernel function      {"jit_function": "module:qualified.name"}
anything else          {"constexpr": its text}, which cannot be read back
"""

from __future__ import annotations

import functools
import sys
from collections import namedtuple
from typing import Any, cast

from tritium.backends.signature import canonical_dtype
from tritium.language.constexpr import unwrap
from tritium.language.function import JITCallable
from tritium.language.types import dtype, pointer_type, str_to_ty


def to_json(value: Any) -> Any:
    """`value` as what `json.dumps` takes."""
    value = unwrap(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.__module__}:{value.__qualname__}"}
    if isinstance(value, (dtype, pointer_type)):
        return {"dtype": _signature_name(value)}
    if isinstance(value, (tuple, list)):
        members: list[Any] = [to_json(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
        fields = getattr(value, "_fields", None)  # pyright: ignore[reportUnknownArgumentType]
        if fields is None:
            return members
        name = type(value).__name__  # pyright: ignore[reportUnknownArgumentType]
        return {"namedtuple": name, "fields": list(fields), "values": members}
    return {"constexpr": str(value)}


def from_json(value: Any) -> Any:
    """The value that `to_json` was given. Raises `RuntimeError` if it cannot be had."""
    if isinstance(value, list):
        return tuple(from_json(v) for v in value)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    if "namedtuple" in data:
        kind: Any = namedtuple(data["namedtuple"], data["fields"])  # pyright: ignore
        return kind(*map(from_json, data["values"]))
    if "dtype" in data:
        return str_to_ty(data["dtype"])
    if "jit_function" in data:
        module, _, path = data["jit_function"].partition(":")
        try:
            found = functools.reduce(getattr, path.split("."), sys.modules[module])
        except (KeyError, AttributeError):
            found = None
        if isinstance(found, JITCallable):
            return found
        raise RuntimeError(f"cannot restore the kernel function {data['jit_function']}")
    raise RuntimeError(f"cannot restore the compile-time value {data.get('constexpr', data)!r}")


def _signature_name(type_: dtype | pointer_type) -> str:
    if isinstance(type_, pointer_type):
        return ("*k" if type_.const else "*") + _signature_name(type_.element_ty)  # pyright: ignore
    return canonical_dtype(type_)


__all__ = ["from_json", "to_json"]
