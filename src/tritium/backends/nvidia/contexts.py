"""CUDA contexts: which one a thread has as its current one, and which one a kernel was loaded in.

A thread has no current context until something sets one: the CUDA runtime does that at the first
call that needs a context, the driver, which launches kernels, never does. A thread that autograd
started may launch before it has called the runtime.
"""

from __future__ import annotations

import sys
from typing import Any

from tritium.backends.nvidia.libcuda import check, library


def cuda_torch() -> Any:
    """torch, if the program uses its GPU support, and that is CUDA's."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(getattr(torch, "version", None), "hip", None):
        return None
    return torch if torch.cuda.is_available() else None


def enter_device(device: int) -> None:
    """Make a device's primary context, the one that torch uses, current in this thread."""
    driver = library()
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(device))))
    check(driver.cuCtxSetCurrent(context))


def ensure_context(device: int) -> None:
    """Make a device's primary context current, unless a context of this device is."""
    driver = library()
    if int(check(driver.cuCtxGetCurrent())) == 0 or int(check(driver.cuCtxGetDevice())) != device:
        enter_device(device)


class KernelContext:
    """The context that is current when this is made: the one that a kernel was loaded in."""

    def __init__(self) -> None:
        driver = library()
        self._driver = driver
        self._context = check(driver.cuCtxGetCurrent())
        self._device = int(check(driver.cuCtxGetDevice()))

    def enter(self) -> bool:
        """Make the context current where this thread works on its device, but has no current
        context, or one of another device; returns whether that was so.

        torch changes a thread's device without a change of the context where the device has no
        context yet. Another context of the same device is the program's own choice and stays.
        """
        current = check(self._driver.cuCtxGetCurrent())
        if int(current) == int(self._context):
            return False
        torch = cuda_torch()
        if torch is not None and torch.cuda.current_device() != self._device:
            return False
        if int(current) and (
            torch is None or int(check(self._driver.cuCtxGetDevice())) == self._device
        ):
            return False
        check(self._driver.cuCtxSetCurrent(self._context))
        return True

    def unload(self, function: Any) -> None:
        """Unload the module of a function, whichever context is current."""
        check(self._driver.cuCtxPushCurrent(self._context))
        try:
            check(self._driver.cuModuleUnload(check(self._driver.cuFuncGetModule(function))))
        finally:
            check(self._driver.cuCtxPopCurrent())
