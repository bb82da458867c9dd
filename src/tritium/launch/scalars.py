"""Numbers that are arguments of a launch, and how each becomes an 8-byte slot."""

from __future__ import annotations

import math
import operator
import struct
import sys

TYPE_CHECKING = False  # a bundle starts without `typing`
if TYPE_CHECKING:
    from typing import Any

SCALARS = (
    "i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64",
    "fp16", "bf16", "fp32", "fp64",
)  # fmt: skip


def limits(type: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type of a signature."""
    bits = int(type[1:])
    if type[0] == "u" or bits == 1:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def label(index: int, name: str) -> str:
    """The name of an argument in messages."""
    return f"argument '{name}' (number {index})"


def type_name(obj: object) -> str:
    """The name of an argument's class in messages."""
    kind = type(obj)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def type_is_bool(value: object) -> bool:
    """True if this is NumPy's truth value, which is no integer to Python."""
    np: Any = sys.modules.get("numpy")  # which whoever has such a value has imported
    return np is not None and isinstance(value, np.bool_)


def extract_scalar(value: Any, index: int, name: str, type: str) -> int:
    """The 8-byte slot (unsigned) of a number for a parameter of a scalar type.

    Raises:
        TypeError: not a number of that kind.
        OverflowError: an integer that the type cannot hold.
    """
    where = label(index, name)
    if type[0] in "iu":
        try:
            number = operator.index(bool(value) if type_is_bool(value) else value)
        except TypeError:
            raise TypeError(
                f"{where} is {value!r:.80} of type {type_name(value)}; this kernel was compiled "
                f"for an integer of type {type}"
            ) from None
        low, high = limits(type)
        if not low <= number <= high:
            raise OverflowError(f"{where} is {number}, out of range for {type} ({low} to {high})")
        return number & 0xFFFFFFFFFFFFFFFF
    try:
        # float() would parse text: give it what it must refuse.
        number = float([] if isinstance(value, (str, bytes)) else value)  # pyright: ignore
    except (TypeError, ValueError):
        raise TypeError(
            f"{where} is {value!r:.80} of type {type_name(value)}; this kernel was compiled for a "
            f"number of type {type}"
        ) from None
    except OverflowError:  # an integer beyond double
        number = float("inf") if value > 0 else float("-inf")  # pyright: ignore
    return float_bits(number, type)


def float_bits(value: float, type: str) -> int:
    """The bits of a number rounded to `fp16`, `bf16`, `fp32` or `fp64` (overflow: infinity)."""
    if type != "bf16":
        format, bits = {"fp16": ("<e", "<H"), "fp32": ("<f", "<I"), "fp64": ("<d", "<Q")}[type]
        return struct.unpack(bits, _packed(format, value))[0]
    data = _packed("<f", value)
    (single,), (bits,) = struct.unpack("<f", data), struct.unpack("<I", data)
    if math.isnan(single):
        return (bits >> 16) | 0x40
    # Rounded to odd first, so that rounding twice equals rounding once.
    if single != value and not math.isinf(single):
        bits = bits if bits & 1 else bits | 1 if abs(single) < abs(value) else bits - 1
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def _packed(format: str, value: float) -> bytes:
    try:
        return struct.pack(format, value)
    except OverflowError:
        return struct.pack(format, math.copysign(math.inf, value))
