"""Errors at the source line of an op."""

from __future__ import annotations

import ast
import linecache

from xdsl.ir import Attribute

from tritium.errors import CompilationError
from tritium.ir.locations import source_position


def error_at(location: Attribute, message: str) -> CompilationError:
    """An error with the source lines of a location and a caret under it, where they are known."""
    position = source_position(location)
    if position is None:
        return CompilationError(None, None, message)
    file, line, column = position
    source = "".join(linecache.getlines(file))
    place = ast.Pass(lineno=line, col_offset=column)
    return CompilationError(source or None, place, f"{file}:{line}: {message}")
