"""Functions of AMD GPUs; for other targets, to call one in a kernel is an error."""

from tritium.language.extra.hip import libdevice as libdevice
from tritium.language.extra.hip.utils import memrealtime, num_threads, num_warps, smid

__all__ = ["libdevice", "memrealtime", "num_threads", "num_warps", "smid"]
