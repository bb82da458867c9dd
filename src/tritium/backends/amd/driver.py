"""AMD GPUs as devices: properties, loading, launching. Not run on hardware yet.

Devices and streams are torch's where the program has imported torch for ROCm; else the current
device and the default stream.
"""

from __future__ import annotations

from typing import Any

from tritium.backends.amd import events
from tritium.backends.amd.libhip import (
    FUNCTION_ATTRIBUTES,
    check,
    device_count,
    hip_torch,
    is_small,
    library,
)
from tritium.backends.amd.libhip import properties as properties_of
from tritium.backends.amd.output import connect
from tritium.backends.base import c_type
from tritium.backends.gpu_driver import OwnGPUDriver
from tritium.errors import OutOfResources
from tritium.target import GPUTarget


class HIPUtils:
    """The device queries of the runtime."""

    get_device_properties = staticmethod(properties_of)

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """(module, function, registers, spilled words, most threads a program) of a code object.
        Raises `OutOfResources` for too much LDS."""
        limit = properties_of(device)["max_shared_mem"]
        if shared > limit:
            raise OutOfResources(shared, limit, "shared memory")
        hip = library()
        check(hip.hipSetDevice(device), hip)
        module, function = hip.pointer(), hip.pointer()
        check(hip.hipModuleLoadData(hip.ref(module), kernel), hip)
        connect(module, kernel, device)
        check(hip.hipModuleGetFunction(hip.ref(function), module, name.encode()), hip)
        found: list[int] = []
        for attribute in FUNCTION_ATTRIBUTES:
            number = hip.int32()
            check(hip.hipFuncGetAttribute(hip.ref(number), attribute, function), hip)
            found.append(number.value)
        registers, local, threads = found
        return module.value or 0, function.value or 0, registers, local // 4, threads


class HIPDriver(OwnGPUDriver):
    """Launches kernels on AMD GPUs."""

    tensor_is_small, torch = staticmethod(is_small), staticmethod(hip_torch)
    native_device = OwnGPUDriver.native_device  # of this class alone, not of those that extend it

    def __init__(self) -> None:
        # Here, because a process without a GPU looks at this module and needs no launcher.
        from tritium.backends.amd.launcher import HIPLauncher

        self.utils = HIPUtils()
        self.launcher_cls = HIPLauncher

    @classmethod
    def is_active(cls) -> bool:
        return device_count() > 0

    def own_device(self) -> int:
        hip = library()
        number = hip.int32()
        check(hip.hipGetDevice(hip.ref(number)), hip)
        return number.value

    def enter_device(self, device: int) -> None:
        check(library().hipSetDevice(device))

    def get_current_target(self) -> GPUTarget:
        found = properties_of(self.get_current_device())
        return GPUTarget("hip", found["arch"], found["warpSize"])

    def map_python_to_cpp_type(self, ty: str) -> str:
        return c_type(ty, pointer="hipDeviceptr_t")

    def get_device_interface(self) -> Any:
        """Synchronization and timing: `torch.cuda`, or the same by HIP's events."""
        torch = hip_torch()
        return events.Interface(self.get_current_stream) if torch is None else torch.cuda

    def get_empty_cache_for_benchmark(self) -> events.Cache:
        """A buffer larger than the caches."""
        return events.Cache()
