"""Functions of particular devices and libraries."""

from tritium.language.extra import cuda as cuda
from tritium.language.extra import libdevice as libdevice

__all__ = ["cuda", "libdevice"]
