"""Paths of packages: where they find the modules that exist only because the reference has them.

`tritium.runtime.cache` is `compat/reference/runtime/cache.py`: it names what stands elsewhere.
Nothing of Tritium imports such a module.
"""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False  # a bundle starts without `collections` and `typing`
if TYPE_CHECKING:
    from collections.abc import MutableSequence
    from types import ModuleType

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compat", "reference")


def extend(package: str, path: MutableSequence[str]) -> None:
    """Let `package`, whose `__path__` is `path`, find the modules of the reference's paths too."""
    path.append(os.path.join(_FOLDER, *package.split(".")[1:]))


def attribute(package: str, name: str) -> ModuleType:
    """The module `name` of the reference's paths in `package`: programs reach it as an attribute,
    without an import of their own. Raises `AttributeError` where there is none."""
    place = os.path.join(_FOLDER, *package.split(".")[1:], name)
    if name.startswith("__") or not (os.path.isfile(f"{place}.py") or os.path.isdir(place)):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return importlib.import_module(f"{package}.{name}")
