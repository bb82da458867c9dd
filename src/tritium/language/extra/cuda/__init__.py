"""What only NVIDIA GPUs have."""

from tritium.language.extra import libdevice as libdevice
from tritium.language.extra.cuda.utils import globaltimer, smid

__all__ = ["globaltimer", "libdevice", "smid"]
