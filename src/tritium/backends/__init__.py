"""Backends: one folder each, found by name or through entry points. See `base.py`."""

import importlib
from types import ModuleType

from tritium.backends.base import Backend, BaseBackend, DriverBase, backends

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends"]


def __getattr__(name: str) -> ModuleType:
    # Programs reach these as attributes, without an import of their own.
    if name in ("compiler", "driver"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
