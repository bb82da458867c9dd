"""Values of JSON as MessagePack."""

from __future__ import annotations

import struct
from typing import Any, cast


def packed(value: Any) -> bytes:
    """The bytes of None, a bool, a number, a text, a list or a dict of such; another value is
    written as its text."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return _head(len(items), 0x90, 16, 0xDC) + b"".join(map(packed, items))
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        body = b"".join(packed(key) + packed(item) for key, item in pairs.items())
        return _head(len(pairs), 0x80, 16, 0xDE) + body
    text = str(value).encode()
    if 32 <= len(text) < 256:
        return b"\xd9" + bytes([len(text)]) + text
    return _head(len(text), 0xA0, 32, 0xDA) + text


def _head(size: int, short: int, limit: int, long: int) -> bytes:
    """The type and the size; `long` is the type with a size of 16 bits, the next one of 32."""
    if size < limit:
        return bytes([short | size])
    if size < 1 << 16:
        return struct.pack(">BH", long, size)
    return struct.pack(">BI", long + 1, size)


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    if -(1 << 63) <= value < 1 << 63:
        return b"\xd3" + struct.pack(">q", value)
    if 0 <= value < 1 << 64:
        return b"\xcf" + struct.pack(">Q", value)
    return packed(float(value))
