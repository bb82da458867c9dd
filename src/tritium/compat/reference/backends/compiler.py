"""The reference's path of the compiler side of backends."""

from tritium.backends.base import BaseBackend, Language
from tritium.target import GPUTarget

__all__ = ["BaseBackend", "GPUTarget", "Language"]
