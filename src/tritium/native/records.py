"""Structs in memory that native code and Python share."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_CTYPES: dict[str, Any] = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "ptr": ctypes.c_uint64, "double": ctypes.c_double,
}  # fmt: skip
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr": 8, "double": 8}


@dataclass(frozen=True)
class Field:
    """One field of a `Record`: its LLVM type and where it is, in bytes."""

    type: str
    offset: int


class Record:
    """The layout of a struct that native code and Python share.

    Fields are (name, type) pairs; the type may also be `align N` (start the next field at a
    multiple of N bytes) or `bytes N` (an opaque field). Python reads and writes by address.
    """

    def __init__(self, *fields: tuple[str, str], align: int = 8):
        self.fields: dict[str, Field] = {}
        at = 0
        for name, type in fields:
            word, _, number = type.partition(" ")
            if word == "align":
                at = -(-at // int(number)) * int(number)
                continue
            size = int(number) if word == "bytes" else SIZES[type]
            unit = 8 if word == "bytes" else size
            at = -(-at // unit) * unit
            self.fields[name] = Field("i8" if word == "bytes" else type, at)
            at += size
        self.size = -(-at // align) * align

    def read(self, address: int, name: str) -> Any:
        """A field of the record at `address`."""
        field = self.fields[name]
        return _CTYPES[field.type].from_address(address + field.offset).value

    def write(self, address: int, **values: float) -> None:
        """Set fields of the record at `address`."""
        for name, value in values.items():
            field = self.fields[name]
            _CTYPES[field.type].from_address(address + field.offset).value = value


def allocate(size: int, align: int = 128) -> tuple[int, Any]:
    """Zeroed memory: its address, aligned, and the object that owns it."""
    owner = ctypes.create_string_buffer(size + align)
    return -(-ctypes.addressof(owner) // align) * align, owner
