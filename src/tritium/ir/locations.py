"""Source locations: making them, reading them, and their text.

    file_line("k.py", 3, 4)          loc("k.py":3:4)
    named("x", inner)                loc("x"(inner)): the Python variable that the op computes
    call_site(callee, caller)        loc(callsite(callee at caller)): inlined code
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar, get_args

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute

UNKNOWN: LocationAttr = UNKNOWN_LOC

LOCATIONS: frozenset[type] = frozenset(get_args(LocationAttr))
"""The classes of locations; none has subclasses."""


T = TypeVar("T", bound=Attribute)


def _made(cls: type[T], **parameters: object) -> T:
    """An attribute whose parameters fit; xDSL's constructors check each, and take six times as
    long."""
    attribute = cls.__new__(cls)
    vars(attribute).update(parameters)
    return attribute


@lru_cache(maxsize=65536)
def file_line(file: str, line: int, column: int = 1) -> LocationAttr:
    """A place in a source file; lines and columns count from 1."""
    numbers = {name: _made(IntAttr, data=n) for name, n in (("line", line), ("column", column))}
    return _made(FileLineColLoc, filename=_made(StringAttr, data=file), **numbers)


@lru_cache(maxsize=65536)
def call_site(callee: LocationAttr, caller: LocationAttr) -> LocationAttr:
    """`callee`, inlined at `caller`."""
    return _made(CallSiteLoc, callee=callee, caller=caller)


@lru_cache(maxsize=65536)
def named(name: str, location: LocationAttr | None = None) -> LocationAttr:
    """`location` (or none), for the variable `name`."""
    inner = NoneAttr() if location is None else location
    return _made(NameLoc, desc=_made(StringAttr, data=name), location=inner)


def parts_of(location: Any) -> Iterator[Attribute]:
    """The locations directly inside a location, in the order of its text."""
    kind: object = location.__class__
    if kind is CallSiteLoc:
        yield location.callee
        yield location.caller
    elif kind is NameLoc:
        if type(location.location) is not NoneAttr:
            yield location.location
    elif kind is FusedLoc and isinstance(location.locations, ArrayAttr):
        yield from location.locations.data


def name_of(location: Any) -> str | None:
    """The variable name in a location: the outermost, first one."""
    if type(location) is NameLoc:
        return location.desc.data
    return next((n for part in parts_of(location) if (n := name_of(part)) is not None), None)


def source_position(location: Attribute) -> tuple[str, int, int] | None:
    """(file, line, column) of the innermost callee, or None if it is not known."""
    return next(source_positions(location), None)


def source_positions(location: Attribute) -> Iterator[tuple[str, int, int]]:
    """(file, line, column) of the callees, the innermost one first."""
    if isinstance(location, FileLineColLoc):
        yield location.filename.data, location.line.data, location.column.data
    for part in parts_of(location):
        yield from source_positions(part)


def location_text(location: Any, inner: Callable[[Attribute], str]) -> str:
    """A location's text without the enclosing `loc(...)`; `inner` gives that of its parts."""
    kind: object = location.__class__
    if kind is FileLineColLoc:
        file, line, column = location.filename.data, location.line.data, location.column.data
        return f"{quoted(file)}:{line}:{column}"
    if kind is CallSiteLoc:
        return f"callsite({inner(location.callee)} at {inner(location.caller)})"
    if kind is NameLoc:
        name = quoted(location.desc.data)
        part = location.location
        return name if type(part) is NoneAttr else f"{name}({inner(part)})"
    if kind is FusedLoc:
        return f"fused[{', '.join(inner(part) for part in parts_of(location))}]"
    return "unknown"


@lru_cache(maxsize=1024)
def quoted(text: str) -> str:
    """`text` as an MLIR string literal."""
    out = []
    for byte in text.encode():
        plain = 0x20 <= byte < 0x7F and byte not in b'"\\'
        out.append(chr(byte) if plain else ("\\\\" if byte == 0x5C else f"\\{byte:02X}"))
    return f'"{"".join(out)}"'  # pyright: ignore[reportUnknownArgumentType]


def unquoted(literal: str) -> str:
    """The text of an MLIR string literal."""
    raw = re.sub(rb"\\([0-9A-Fa-f]{2}|.)", _unescape, literal[1:-1].encode())
    return raw.decode(errors="surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    text = match[1]
    return bytes([int(text, 16)]) if len(text) == 2 else _ESCAPES.get(text, text)


_ESCAPES = {b"n": b"\n", b"t": b"\t"}
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|#[\w$.-]+|\w+|[:()\[\],<>])')

_LINE = re.compile(r'"([^"\\]*)":(\d+):(\d+)', re.ASCII)
_NAMED = re.compile(r'"([^"\\]*)"\(#([\w$.-]+)\)')
"""Nearly all locations of a text."""


class LocationSyntaxError(ValueError):
    """The text is not a location."""


def parse_location(text: str, alias: Callable[[str], LocationAttr]) -> LocationAttr:
    """The location that `text` (without `loc(...)`) stands for; `alias` resolves `#name`."""
    if plain := _LINE.fullmatch(text):
        return file_line(plain[1], int(plain[2]), int(plain[3]))
    if plain := _NAMED.fullmatch(text):
        return named(plain[1], alias(plain[2]))
    tokens: list[str] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise LocationSyntaxError(f"unexpected {text[position:]!r} in a location")
        tokens.append(match[1])
        position = match.end()
    tokens.append("")
    location, end = _parse(tokens, 0, alias)
    if tokens[end]:
        raise LocationSyntaxError(f"unexpected {tokens[end]!r} in a location")
    return location


def _parse(
    tokens: list[str], at: int, alias: Callable[[str], LocationAttr]
) -> tuple[LocationAttr, int]:
    token = tokens[at]
    if token.startswith("#"):
        return alias(token[1:]), at + 1
    if token == "unknown":
        return UNKNOWN, at + 1
    if token.startswith('"'):
        if tokens[at + 1] == ":":
            line, column = tokens[at + 2], tokens[at + 4]
            if not (line.isdigit() and tokens[at + 3] == ":" and column.isdigit()):
                raise LocationSyntaxError("line:column expected after a file name")
            return file_line(unquoted(token), int(line), int(column)), at + 5
        if tokens[at + 1] == "(":
            inner, end = _parse(tokens, at + 2, alias)
            return named(unquoted(token), inner), _skip(tokens, end, ")")
        return named(unquoted(token)), at + 1
    if token == "callsite":
        callee, end = _parse(tokens, _skip(tokens, at + 1, "("), alias)
        caller, end = _parse(tokens, _skip(tokens, end, "at"), alias)
        return call_site(callee, caller), _skip(tokens, end, ")")
    if token == "fused":
        parts: list[LocationAttr] = []
        end = _skip(tokens, at + 1, "[")
        while tokens[end] != "]":
            part, end = _parse(tokens, end, alias)
            parts.append(part)
            end += tokens[end] == ","
        return FusedLoc(tuple(parts), NoneAttr()), end + 1
    raise LocationSyntaxError(f"unexpected {token or 'end'!r} in a location")


def _skip(tokens: list[str], at: int, expected: str) -> int:
    if tokens[at] != expected:
        raise LocationSyntaxError(f"expected {expected!r}, found {tokens[at]!r}, in a location")
    return at + 1
