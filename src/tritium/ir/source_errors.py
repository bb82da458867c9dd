"""Errors at the source line of an op."""

from __future__ import annotations

import ast
import linecache
from typing import TypeVar

from xdsl.ir import Attribute

from tritium.errors import CompilationError, UnsupportedOpError
from tritium.ir.locations import source_position

_Error = TypeVar("_Error", bound=CompilationError)


def error_at(location: Attribute | None, message: str) -> CompilationError:
    """An error with the source lines of a location and a caret under it, where they are known."""
    return _at(CompilationError, location, message)


def unsupported_at(location: Attribute | None, message: str) -> UnsupportedOpError:
    """Likewise for what is not built: the error is a `NotImplementedError` too."""
    return _at(UnsupportedOpError, location, message)


def assembly_error(location: Attribute, why: str) -> CompilationError:
    """The error for an op's inline assembly, at the place in the user's program."""
    found = source_position(location)
    place = "" if found is None else ' at "{}":{}:{}'.format(*found)
    return CompilationError(None, None, f"inline_asm_elementwise{place}: {why}")


def _at(kind: type[_Error], location: Attribute | None, message: str) -> _Error:
    position = None if location is None else source_position(location)
    if position is None:
        return kind(None, None, message)
    file, line, column = position
    source = "".join(linecache.getlines(file))
    place = ast.Pass(lineno=line, col_offset=max(0, column - 1))
    return kind(source or None, place, f"{file}:{line}: {message}")
