"""What only NVIDIA GPUs have."""

from tritium.language.extra import libdevice as libdevice
from tritium.language.extra.cuda.gdc import gdc_launch_dependents, gdc_wait
from tritium.language.extra.cuda.utils import globaltimer, num_threads, num_warps, smid

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "num_threads",
           "num_warps", "smid"]  # fmt: skip
