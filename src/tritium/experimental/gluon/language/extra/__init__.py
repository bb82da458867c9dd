"""Functions of libdevice."""

from tritium.language.extra import libdevice as libdevice
