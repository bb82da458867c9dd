"""Paths to nested arguments: a path is the positions that lead to one.

(x, (y, z))      y is at (1, 0)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

from tritium import language as tl

ObjPath = tuple[int, ...]


def get_iterable_path(iterable: Any, path: ObjPath) -> Any:
    """The member of nested sequences at a path of indices."""
    return functools.reduce(lambda inner, index: inner[index], path, iterable)


def find_paths_if(iterable: Any, pred: Callable[[ObjPath, Any], bool]) -> list[ObjPath]:
    """The paths, in order, of those members that are no sequences and that `pred(path, member)`
    accepts."""
    found: list[ObjPath] = []

    def search(path: ObjPath, value: Any) -> None:
        if isinstance(value, (list, tuple, tl.tuple, tl.tuple_type)):
            for i, member in enumerate(cast("Iterable[Any]", value)):
                search((*path, i), member)
        elif pred(path, value):
            found.append(path)

    search((), iterable)
    return found
