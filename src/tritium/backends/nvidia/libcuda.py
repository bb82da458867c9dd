"""The CUDA driver library: whether there is one, and its Python bindings, imported when needed."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import sys
from typing import Any

from tritium import knobs


@functools.cache
def device_count() -> int:
    """How many NVIDIA GPUs this process can use; 0 without a driver. Imports no package."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        cuda = ctypes.CDLL(knobs.nvidia.libcuda_path or name)
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def has_bindings() -> bool:
    """Whether `cuda-bindings` is installed (the extra `cuda`)."""
    return (
        importlib.util.find_spec("cuda") is not None
        and importlib.util.find_spec("cuda.bindings") is not None
    )


@functools.cache
def library() -> Any:
    """`cuda.bindings.driver`, initialized. Raises `ImportError` where it is not installed."""
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise ImportError(
            "launching on a GPU needs cuda-bindings: pip install 'tritium[cuda]'"
        ) from error
    check(driver.cuInit(0))
    return driver


def check(result: tuple[Any, ...]) -> Any:
    """The values that a driver call returned, alone if it is one. Raises `RuntimeError`."""
    status, *values = result
    if int(status) != 0:
        driver = importlib.import_module("cuda.bindings.driver")
        _, name = driver.cuGetErrorName(status)
        _, text = driver.cuGetErrorString(status)
        name, text = ((x or b"?").decode() for x in (name, text))
        raise RuntimeError(f"Triton Error [CUDA]: {text} ({name})")
    return values[0] if len(values) == 1 else tuple(values)
