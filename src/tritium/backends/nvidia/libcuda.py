"""The CUDA driver library: whether there is one, and its Python bindings, imported when needed."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.machinery
import os
import sys
from typing import Any

from tritium import knobs


@functools.cache
def device_count() -> int:
    """The number of NVIDIA GPUs that this process can use; 0 without a driver. Imports no
    package."""
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
    """True if `cuda-bindings` is installed (the extra `cuda`)."""
    # Folders alone: all finders together take ten times as long to find out that it is not there,
    # and would run a user's `cuda.py` if there is one in its place.
    package = sys.modules.get("cuda") or importlib.machinery.PathFinder.find_spec("cuda")
    folders = getattr(package, "submodule_search_locations", getattr(package, "__path__", None))
    return any(os.path.isdir(os.path.join(folder, "bindings")) for folder in folders or ())


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


_OLD_DRIVER = (
    "the driver is older than what the kernel was compiled with: update the driver, or compile "
    "with an older ptxas (TRITON_PTXAS_PATH) or for an older PTX (TRITON_OVERRIDE_PTX_VERSION)"
)
_LOST = (
    "a kernel launched before this call failed, and this process cannot use the device any more; "
    "compute-sanitizer finds which access it was"
)
_HINTS = {
    "UNSUPPORTED_PTX_VERSION": _OLD_DRIVER, "INVALID_IMAGE": _OLD_DRIVER,
    "SYSTEM_DRIVER_MISMATCH": _OLD_DRIVER, "COMPAT_NOT_SUPPORTED_ON_DEVICE": _OLD_DRIVER,
    "NO_BINARY_FOR_GPU": "the kernel was compiled for another architecture than this GPU's",
    "JIT_COMPILER_NOT_FOUND": "without ptxas the driver must assemble kernels, and its assembler "
    "is missing; pip install 'tritium[cuda]' brings ptxas",
    "INVALID_CONTEXT": "this thread works on another device than the kernel's, or on none: make "
    "the kernel's device current (torch.cuda.device) before the launch",
    "INVALID_VALUE": "a launch may have 2147483647 x 65535 x 65535 programs",
    "ILLEGAL_ADDRESS": _LOST, "MISALIGNED_ADDRESS": _LOST, "ILLEGAL_INSTRUCTION": _LOST,
    "LAUNCH_FAILED": _LOST, "HARDWARE_STACK_ERROR": _LOST, "INVALID_ADDRESS_SPACE": _LOST,
    "ASSERT": "an assertion in a kernel failed (its message is on stderr), and this process cannot "
    "use the device any more",
}  # fmt: skip
"""Advice for errors of the driver, by name without `CUDA_ERROR_`."""


def check(result: tuple[Any, ...]) -> Any:
    """The values that a driver call returned, alone if it is one. Raises `RuntimeError`."""
    status, *values = result
    if int(status) != 0:
        driver = importlib.import_module("cuda.bindings.driver")
        _, name = driver.cuGetErrorName(status)
        _, text = driver.cuGetErrorString(status)
        name, text = ((x or b"?").decode() for x in (name, text))
        hint = _HINTS.get(name.removeprefix("CUDA_ERROR_"))
        more = f"; {hint}" if hint else ""
        raise RuntimeError(f"Triton Error [CUDA]: {text} ({name}){more}")
    return values[0] if len(values) == 1 else tuple(values)
