"""Backends: one folder each, found by name or through entry points. See `base.py`."""

from types import ModuleType

from tritium import reference_paths
from tritium.backends.base import Backend, BaseBackend, DriverBase, backends

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends"]

reference_paths.extend(__name__, __path__)


def __getattr__(name: str) -> ModuleType:
    return reference_paths.attribute(__name__, name)
