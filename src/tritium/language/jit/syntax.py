"""Parsing Python."""

from __future__ import annotations

import ast
from functools import lru_cache

_ATTEMPTS = 100


def parse(source: str) -> ast.Module:
    """The syntax tree of a source text.

    Before 3.13 CPython counts the depth of the tree that it builds in one place for all threads,
    and raises SystemError ("AST constructor recursion depth mismatch") where two parse at the same
    time (python/cpython#106905). The next attempt succeeds.
    """
    for _ in range(_ATTEMPTS):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)


@lru_cache(maxsize=128)
def shared(source: str) -> ast.Module:
    """The syntax tree of a source text that all who only read it share: kernels call the same few
    functions again and again."""
    return parse(source)
