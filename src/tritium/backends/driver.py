"""The reference's path of the launching side of backends."""

from tritium.backends.base import Benchmarker, DriverBase, GPUDriver

__all__ = ["Benchmarker", "DriverBase", "GPUDriver"]
