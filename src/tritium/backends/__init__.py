"""Backends: one folder each, found by name or through entry points. See `base.py`."""

from tritium.backends.base import Backend, backends

__all__ = ["Backend", "backends"]
