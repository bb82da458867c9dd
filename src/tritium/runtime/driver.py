"""The reference's path of the active driver: `runtime.driver.active`."""

from tritium.backends.active import DriverConfig, driver
from tritium.backends.base import DriverBase, GPUDriver, backends

__all__ = ["DriverBase", "DriverConfig", "GPUDriver", "backends", "driver"]
