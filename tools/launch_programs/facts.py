"""The oracle: what a launch argument is specialized for, and what a kernel must see of it.

The rules are written here anew, from their statement in the documentation; nothing of the launcher
takes part.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

WIDTH = 9
"""Child k of a node n of the numbering of leaves is WIDTH * n + k + 1."""

NAMES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
"""Element types by the names of NumPy and torch."""
SPELLED = {
    "i1": "int1", "u1": "int1", "fp8e4nv": "fp8e4nv", "fp8e5": "fp8e5",
    **{f"{sign}{n}": f"{word}int{n}" for sign, word in (("i", ""), ("u", "u"))
       for n in (8, 16, 32, 64)},
    **{name: name for name in ("fp16", "bf16", "fp32", "fp64")},
}  # fmt: skip
"""Types as a dtype of the language prints itself."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a generated kernel."""

    name: str
    annotation: str = ""
    default: str = ""
    keyword_only: bool = False
    by_value: bool = True
    by_alignment: bool = True

    @property
    def is_constexpr(self) -> bool:
        return self.annotation == "tl.constexpr"

    @property
    def fixed(self) -> str:
        """The type that the annotation fixes, or ""."""
        return "" if self.is_constexpr else self.annotation.strip('"').replace("tl.int", "i")

    def text(self) -> str:
        """The parameter as the kernel's source declares it."""
        note = f": {self.annotation}" if self.annotation else ""
        return f"{self.name}{note}{f' = {self.default}' if self.default else ''}"


@dataclass
class Described:
    """A tensor descriptor, with the sum of its first block."""

    value: Any
    type: str
    total: int

    def __repr__(self) -> str:
        return self.type


@dataclass
class Memory:
    """A tensor or an array.

    Attributes:
        address: of its first element.
        element: the type in a signature.
        count: how many elements may be read from its first one on.
        total: the sum of these.
    """

    value: Any
    address: int
    element: str
    count: int
    total: int

    def __repr__(self) -> str:
        kind = type(self.value).__name__
        return f"{kind}({self.element}, {self.count}, at 16 * n + {self.address % 16})"


@dataclass
class Facts:
    """Expectations of one launch.

    Attributes:
        signature, divisible, constants: of the compiled kernel.
        key: what makes this launch need a kernel of its own.
        seen: (code, bits) that the kernel records, by the number of the leaf.
        counts: how many elements a kernel may read, by the number of the leaf.
        slots: (type, value) of what is passed to the kernel, in order.
    """

    signature: list[Any] = field(default_factory=list)
    divisible: set[tuple[int, ...]] = field(default_factory=set)
    constants: dict[tuple[int, ...], Any] = field(default_factory=dict)
    key: list[Any] = field(default_factory=list)
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    slots: list[tuple[str, Any]] = field(default_factory=list)


def crc(text: str) -> int:
    """The number that a kernel records for a text."""
    return zlib.crc32(text.encode())


CONSTANT, TUPLE = 3, 7
"""Codes that a kernel records for a compile-time value and for a tuple."""


def raw(given: Any) -> Any:
    """The argument itself of what a generator made."""
    if isinstance(given, (Memory, Described)):
        return given.value
    if isinstance(given, tuple):
        items = [raw(item) for item in given]  # pyright: ignore[reportUnknownVariableType]
        return type(given)(*items) if hasattr(given, "_fields") else tuple(items)  # pyright: ignore
    return given


def note(facts: Facts, parameter: Parameter, given: Any, path: tuple[int, ...], at: int) -> Any:
    """Add what is expected for one argument; returns its type in the signature."""
    if isinstance(given, tuple):
        facts.seen[at] = TUPLE, 0
        types = [
            note(facts, parameter, item, (*path, k), WIDTH * at + k + 1)
            for k, item in enumerate(given)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        ]
        names: Any = getattr(given, "_fields", None)  # pyright: ignore[reportUnknownArgumentType]
        facts.key.append(("tuple", names, len(types)))
        if parameter.is_constexpr:
            own = {k: v for k, v in facts.constants.items() if k[: len(path)] != path}
            facts.constants = {**own, path: raw(given)}
            return "constexpr"
        return type(given)(*types) if names else tuple(types)  # pyright: ignore
    if parameter.is_constexpr:
        return _constant(facts, given, path, at)
    if type(given).__name__ == "constexpr":
        return _number_constant(facts, given.value, path, at)
    if isinstance(given, Memory):
        return _memory(facts, parameter, given, path, at)
    if isinstance(given, Described):
        facts.seen[at] = crc(SPELLED[given.type.split("<")[1].split("[")[0]]), given.total
        facts.key.append(given.type)
        facts.slots.append((given.type, given.value))
        return given.type
    if isinstance(given, (bool, np.bool_)):
        return _number(facts, parameter, given, "u1", path, at)
    if isinstance(given, (int, np.integer)):
        return _integer(facts, parameter, int(given), path, at)
    if isinstance(given, (float, np.floating)):
        return _number(facts, parameter, float(given), "fp32", path, at)
    return _constant(facts, given, path, at)


def shown(value: Any) -> str:
    """The text by which a compile-time value is told from others."""
    return f"function {value.__name__}" if hasattr(value, "fn") else repr(value)


def _constant(facts: Facts, value: Any, path: tuple[int, ...], at: int) -> str:
    if type(value).__name__ == "constexpr":
        value = value.value
    facts.seen[at] = CONSTANT, crc(shown(value))
    facts.key.append(("constexpr", type(value).__name__, shown(value)))
    facts.constants[path] = value
    return "constexpr"


def _number_constant(facts: Facts, value: Any, path: tuple[int, ...], at: int) -> str:
    """A constant, which the kernel sees as a scalar if it is an integer."""
    _constant(facts, value, path, at)
    if isinstance(value, int) and not isinstance(value, bool):
        facts.seen[at] = crc(SPELLED["i32"]), bits_of(value, "i32")
    return "constexpr"


def _integer(
    facts: Facts, parameter: Parameter, value: int, path: tuple[int, ...], at: int
) -> str:
    fixed = parameter.fixed
    if value == 1 and parameter.by_value and not fixed:
        return _number_constant(facts, 1, path, at)
    kind = "i32" if -(2**31) <= value < 2**31 else "i64" if -(2**63) <= value < 2**63 else "u64"
    kind = fixed or kind
    if kind[0] in "iu" and kind != "u1":
        if value % 16 == 0 and parameter.by_value and parameter.by_alignment:
            facts.divisible.add(path)
            facts.key.append("divisible")
        elif value == 1 and parameter.by_value:
            facts.key.append("one")
    return _number(facts, parameter, value, kind, path, at)


def _number(
    facts: Facts, parameter: Parameter, value: Any, kind: str, path: tuple[int, ...], at: int
) -> str:
    kind = parameter.fixed or kind
    facts.seen[at] = crc(SPELLED[kind]), bits_of(value, kind)
    facts.key.append(kind)
    facts.slots.append((kind, value))
    return kind


def bits_of(value: Any, kind: str) -> int:
    """The bits that a kernel records for a number: as int64, floats as float64."""
    if kind[0] in "iu":
        return int(np.uint64(int(value) & (2**64 - 1)).astype(np.int64))
    types: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}
    with np.errstate(over="ignore"):
        number = float(types.get(kind, np.float64)(float(value)))
    return struct.unpack("<q", struct.pack("<d", number))[0]


def _memory(
    facts: Facts, parameter: Parameter, given: Memory, path: tuple[int, ...], at: int
) -> str:
    kind = f"*{given.element}"
    facts.seen[at] = crc(f"pointer<{SPELLED[given.element]}>"), given.total
    facts.counts[at] = given.count
    facts.slots.append((kind, given.address))
    facts.key.append(kind)
    if given.address % 16 == 0 and parameter.by_value and parameter.by_alignment:
        facts.divisible.add(path)
        facts.key.append("divisible")
    return kind
