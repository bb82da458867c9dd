"""The name of `cdna5` in release 3.6."""

from tritium.experimental.gluon.language.amd.cdna5 import (
    __getattr__,
    buffer_load,
    buffer_store,
    wmma,
)

__all__ = ["__getattr__", "buffer_load", "buffer_store", "wmma"]
