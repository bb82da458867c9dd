"""Backends: one folder each, found by name or through entry points. See `base.py`."""

from tritium.backends.base import Backend, BaseBackend, DriverBase, backends

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends"]
