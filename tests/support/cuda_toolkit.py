"""Where CUDA's header and the driver's library are, for C programs that tests compile."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

COMPILER = shutil.which("cc") or shutil.which("gcc")
_HEADERS = "nvidia/*/include/cuda.h", "cuda*/include/cuda.h", "targets/*/include/cuda.h"
_DRIVERS = "libcuda.so.1", "x86_64-linux-gnu/libcuda.so.1", "aarch64-linux-gnu/libcuda.so.1"


def header_folder() -> Path | None:
    """The folder of `cuda.h`: of NVIDIA's packages, or of a toolkit."""
    places = (sysconfig.get_path("purelib"), "/usr/local", "/usr/local/cuda", "/opt")
    found = (f for place in places for pattern in _HEADERS for f in Path(place).glob(pattern))
    file = next(found, None)
    return None if file is None else file.parent


def driver_library() -> Path | None:
    """The driver's library, where a GPU is."""
    folders = ("/usr/lib", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/local/cuda/compat")
    places = (Path(folder, name) for folder in folders for name in _DRIVERS)
    return next((place for place in places if place.exists()), None)
