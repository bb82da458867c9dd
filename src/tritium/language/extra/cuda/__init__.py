"""Functions of NVIDIA GPUs."""

from tritium.language.extra import libdevice as libdevice
from tritium.language.extra.cuda.gdc import gdc_launch_dependents, gdc_wait
from tritium.language.extra.cuda.utils import (
    convert_custom_float8_sm70,
    convert_custom_float8_sm80,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)

__all__ = ["convert_custom_float8_sm70", "convert_custom_float8_sm80", "gdc_launch_dependents",
           "gdc_wait", "globaltimer", "libdevice", "num_threads", "num_warps",
           "smid"]  # fmt: skip
