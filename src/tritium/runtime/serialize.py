"""Signatures, constants and options as JSON: what compilation hooks are told, for `preload`.

3, 0.5, None, "text"   themselves
(1, 2)                 [1, 2]
[1, 2]                 {"list": [1, 2]}; also "set", "frozenset"
{"a": 1}               {"dict": [["a", 1]]}
a named tuple          {"namedtuple": "Pair", "fields": ["x", "y"], "values": [1, 2]}
a dataclass's object   {"dataclass": "module:Options", "fields": {"x": 1}}
tl.float32             {"dtype": "fp32"}
numpy.int8(3)          {"numpy": "int8", "bytes": "03"}
numpy.dtype("int8")    {"numpy": "int8"}
a kernel function      {"jit_function": "module:qualified.name"}
other things that have a name in a module: enumerations' members, classes, functions, torch.float32
                       {"object": "module:qualified.name"}
anything else          {"constexpr": its text}, which cannot be read back

Names are looked up in the modules that are loaded: reading imports and runs nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import namedtuple
from collections.abc import Mapping
from enum import Enum
from types import FunctionType
from typing import Any, cast

import numpy as np

from tritium.language.jit.function import JITCallable
from tritium.language.values.base import module_of
from tritium.language.values.constexpr import ConstexprFunction, unwrap
from tritium.language.values.types import dtype, pointer_type, str_to_ty
from tritium.launch.signature import canonical_dtype

_COLLECTIONS: dict[str, Any] = {"list": list, "set": set, "frozenset": frozenset}


def to_json(value: Any) -> Any:
    """`value` as what `json.dumps` takes."""
    value = unwrap(value)
    kind = cast(Any, type(value))
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, JITCallable):
        return {"jit_function": f"{value.__module__}:{value.__qualname__}"}
    if isinstance(value, (dtype, pointer_type)):
        return {"dtype": _signature_name(value)}
    if isinstance(value, (np.generic, np.dtype)):
        return _numpy_to_json(value)
    if isinstance(value, tuple):
        members = [to_json(v) for v in cast("tuple[Any, ...]", value)]
        fields: Any = getattr(kind, "_fields", None)
        if fields is None:
            return members
        return {"namedtuple": kind.__name__, "fields": list(fields), "values": members}
    if kind is dict:
        return {"dict": [[to_json(k), to_json(v)] for k, v in value.items()]}
    for name, collection in _COLLECTIONS.items():
        if kind is collection:
            return {name: [to_json(v) for v in value]}
    name = _name(value)
    if name is not None:
        return {"object": name}
    if dataclasses.is_dataclass(kind) and (name := _name(kind)) is not None:
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
        return {"dataclass": name, "fields": {k: to_json(v) for k, v in held.items()}}
    return {"constexpr": str(value)}


def _numpy_to_json(value: Any) -> dict[str, Any]:
    if isinstance(value, np.dtype):
        return {"numpy": value.name}  # pyright: ignore[reportUnknownMemberType]
    return {"numpy": value.dtype.name, "bytes": value.tobytes().hex()}


def _name(value: Any) -> str | None:
    """The name under which a module holds a value, None if there is none."""
    if isinstance(value, Enum):
        name = f"{type(value).__module__}:{type(value).__qualname__}.{value.name}"
    elif isinstance(value, (type, FunctionType, ConstexprFunction)):
        name = f"{module_of(value)}:{value.__qualname__}"
    else:  # torch.float32
        module, dot, attribute = str(value).rpartition(".")
        name = f"{module}:{attribute}" if dot and module in sys.modules else ""
    return name if name and _named(name) is value else None


def _named(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        return functools.reduce(getattr, path.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None


def from_json(value: Any) -> Any:
    """The value that `to_json` was given. Raises `RuntimeError` if it cannot be had."""
    if isinstance(value, list):
        return tuple(from_json(v) for v in cast("list[Any]", value))
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    for name, collection in _COLLECTIONS.items():
        if name in data:
            return collection(map(from_json, data[name]))
    kind = next(iter(data), "")
    reader = _READERS.get(kind)
    if reader is None:
        raise RuntimeError(
            f"cannot restore the compile-time value {data.get('constexpr', data)!r}, of which only "
            "this text was kept"
        )
    return reader(data)


def _dict(data: Mapping[str, Any]) -> Any:
    return {from_json(k): from_json(v) for k, v in data["dict"]}


def _namedtuple(data: Mapping[str, Any]) -> Any:
    kind: Any = namedtuple(data["namedtuple"], data["fields"])  # pyright: ignore
    return kind(*map(from_json, data["values"]))


def _dataclass(data: Mapping[str, Any]) -> Any:
    kind = _named(data["dataclass"])
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise RuntimeError(f"cannot restore an object of the class {data['dataclass']}")
    made: Any = object.__new__(kind)
    for name, value in data["fields"].items():
        object.__setattr__(made, name, from_json(value))  # a frozen one too
    return made


def _dtype(data: Mapping[str, Any]) -> Any:
    return str_to_ty(data["dtype"])


def _numpy(data: Mapping[str, Any]) -> Any:
    try:
        found = np.dtype(data["numpy"])
    except TypeError:
        raise RuntimeError(f"cannot restore the type numpy.{data['numpy']}") from None
    return np.frombuffer(bytes.fromhex(data["bytes"]), found)[0] if "bytes" in data else found


def _function(data: Mapping[str, Any]) -> Any:
    found = _named(data["jit_function"])
    if not isinstance(found, JITCallable):
        raise RuntimeError(f"cannot restore the kernel function {data['jit_function']}")
    return found


def _object(data: Mapping[str, Any]) -> Any:
    found = _named(data["object"])
    if found is None:
        raise RuntimeError(
            f"cannot restore {data['object']}: there is no such name in a module that is loaded"
        )
    return found


_READERS: dict[str, Any] = {
    "dict": _dict, "namedtuple": _namedtuple, "dataclass": _dataclass, "numpy": _numpy,
    "dtype": _dtype, "jit_function": _function, "object": _object,
}  # fmt: skip


def _signature_name(type_: dtype | pointer_type) -> str:
    if isinstance(type_, pointer_type):
        return ("*k" if type_.const else "*") + _signature_name(type_.element_ty)  # pyright: ignore
    return canonical_dtype(type_)


__all__ = ["from_json", "to_json"]
