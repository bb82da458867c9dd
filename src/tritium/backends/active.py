"""The driver that launches kernels: the only usable device's, unless the program chooses.

A GPU driver that is usable wins over the CPU, which always is; `TRITON_CPU_BACKEND=1` or
`set_active_to_cpu()` chooses the CPU, `TRITON_DEFAULT_BACKEND` any backend by its name.
"""

from __future__ import annotations

import threading
from typing import Any

from tritium import knobs
from tritium.backends.base import DriverBase, backends
from tritium.backends.cpu import compiler as compiler  # small, and always needed
from tritium.backends.cpu.driver import CPUDriver
from tritium.backends.nvidia.driver import CudaDriver
from tritium.target import provide_default


class DriverConfig:
    """`tritium.runtime.driver`: `active` is the driver in use, found when first asked for."""

    def __init__(self) -> None:
        self._default: DriverBase | None = None
        self._active: DriverBase | None = None
        self._choosing = threading.Lock()

    @property
    def default(self) -> DriverBase:
        """The driver found on this machine. Raises `RuntimeError` when several GPUs' are, or when
        `TRITON_DEFAULT_BACKEND` names one that cannot run."""
        if self._default is None:
            found = _find()
            with self._choosing:  # the first of several threads decides for all
                self._default = self._default or found
        return self._default

    @property
    def active(self) -> Any:
        """The driver that launches kernels now."""
        if self._active is None:
            self._active = self.default
        return self._active

    def set_active(self, driver: DriverBase) -> None:
        """Launch through `driver` from now on. Raises `TypeError` for what is none."""
        if isinstance(driver, type) or not hasattr(driver, "get_current_target"):
            hint = "an object of this class" if isinstance(driver, type) else "a DriverBase"
            raise TypeError(f"set_active: {driver!r} is no driver; {hint} is required")
        self._active = driver

    def reset_active(self) -> None:
        """Go back to the driver found on this machine."""
        self._active = self.default

    def set_active_to_cpu(self) -> None:
        """Launch on the CPU from now on."""
        self._active = CPUDriver()


def _named(name: str) -> DriverBase:
    """The driver of the backend that the user names. Raises `RuntimeError` where it cannot run."""
    if name not in backends.packages:
        raise RuntimeError(
            f"TRITON_DEFAULT_BACKEND: no backend {name!r} is installed; there are "
            f"{sorted(backends.packages)}"
        )
    try:
        found = backends.driver(name)
    except Exception as error:
        raise RuntimeError(
            f"TRITON_DEFAULT_BACKEND: the backend {name!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not found.is_active():
        raise RuntimeError(
            f"TRITON_DEFAULT_BACKEND: the backend {name!r} has no device or driver on this machine"
        )
    return found()


def _find() -> DriverBase:
    if name := knobs.runtime.default_backend:
        return _named(name)
    if knobs.runtime.use_cpu:
        return CPUDriver()
    usable: list[type[DriverBase]] = [CudaDriver] if CudaDriver.is_active() else []
    others = backends.usable(name for name in backends if name not in ("cpu", "nvidia"))
    usable += [driver for _, driver in others if driver.is_active()]
    if len(usable) > 1:
        raise RuntimeError(
            f"{len(usable)} active drivers ({[d.__name__ for d in usable]}). "
            "There should only be one."
        )
    return usable[0]() if usable else CPUDriver()


driver = DriverConfig()
provide_default(lambda: driver.active.get_current_target())
