"""NVIDIA GPUs as devices: properties, loading, current device and stream, timing.

Devices, streams and memory are torch's where the program has imported torch; else the primary
context of device 0 (or of the current context) and the default stream.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tritium import knobs
from tritium.backends.base import c_type
from tritium.backends.gpu_driver import OwnGPUDriver
from tritium.backends.nvidia.contexts import cuda_torch, ensure_context, enter_device
from tritium.backends.nvidia.libcuda import check, device_count, has_bindings, library
from tritium.errors import OutOfResources
from tritium.target import GPUTarget

_DEFAULT_SHARED = 48 * 1024


class CudaUtils:
    """The device queries of the runtime."""

    def __init__(self) -> None:
        self._properties: dict[int, dict[str, int]] = {}

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Figures of a device: bytes of shared memory a program can have, registers, clock rates
        (kHz), bus width (bits)."""
        if device not in self._properties:
            driver = library()
            names = {
                "max_shared_mem": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
                "max_num_regs": "MAX_REGISTERS_PER_BLOCK",
                "multiprocessor_count": "MULTIPROCESSOR_COUNT",
                "warpSize": "WARP_SIZE",
                "sm_clock_rate": "CLOCK_RATE",
                "mem_clock_rate": "MEMORY_CLOCK_RATE",
                "mem_bus_width": "GLOBAL_MEMORY_BUS_WIDTH",
            }
            handle = check(driver.cuDeviceGet(device))
            kinds = driver.CUdevice_attribute
            self._properties[device] = {
                name: check(driver.cuDeviceGetAttribute(
                    getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{kind}"), handle
                ))
                for name, kind in names.items()
            }  # fmt: skip
        return self._properties[device]

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """(module, function, registers, spilled words, most threads a program) of a cubin (or PTX
        with a zero byte at its end). Raises `OutOfResources` for too much shared memory."""
        driver = library()
        limit = self.get_device_properties(device)["max_shared_mem"]
        if shared > limit:
            raise OutOfResources(shared, limit, "shared memory")
        ensure_context(device)
        module = check(driver.cuModuleLoadData(kernel))
        function = check(driver.cuModuleGetFunction(module, name.encode()))
        kinds = driver.CUfunction_attribute
        registers, spilled, threads = (
            check(driver.cuFuncGetAttribute(getattr(kinds, f"CU_FUNC_ATTRIBUTE_{kind}"), function))
            for kind in ("NUM_REGS", "LOCAL_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
        )
        if shared > _DEFAULT_SHARED:
            kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuFuncSetAttribute(function, kind, shared))
        return int(module), int(function), registers, spilled // 4, threads


class CudaDriver(OwnGPUDriver):
    """Launches kernels on NVIDIA GPUs."""

    torch = staticmethod(cuda_torch)
    native_device = OwnGPUDriver.native_device  # of this class alone, not of those that extend it

    def __init__(self) -> None:
        # Here, because a process without a GPU looks at this module and needs no launcher.
        from tritium.backends.nvidia.launcher import CudaLauncher

        self.utils = CudaUtils()
        self.launcher_cls = CudaLauncher

    def record_memory(self, size: int) -> Any:
        from tritium.backends.nvidia.checked import host_memory  # as above

        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host_memory(size)))

    @classmethod
    def is_active(cls) -> bool:
        # The bindings first: looking for a library that is not there takes longer. The driver
        # answers no process that was forked from one that used it, such as torch.compile's
        # workers, which only compile; torch knows from before.
        return has_bindings() and (device_count() > 0 or cuda_torch() is not None)

    def own_device(self) -> int:
        driver = library()
        if int(check(driver.cuCtxGetCurrent())) == 0:
            ensure_context(0)
        return int(check(driver.cuCtxGetDevice()))

    def enter_device(self, device: int) -> None:
        enter_device(device)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """(9, 0) for Hopper."""
        driver = library()
        handle = check(driver.cuDeviceGet(self.get_current_device() if device is None else device))
        kinds = driver.CUdevice_attribute
        major = kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        minor = kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        return (
            check(driver.cuDeviceGetAttribute(major, handle)),
            check(driver.cuDeviceGetAttribute(minor, handle)),
        )

    def get_current_target(self) -> GPUTarget:
        major, minor = self.get_device_capability()
        return GPUTarget("cuda", major * 10 + minor, 32)

    def map_python_to_cpp_type(self, ty: str) -> str:
        if ty.startswith("tensordesc"):
            return "CUtensorMap"
        return c_type(ty, pointer="CUdeviceptr", nvTmaDesc="CUtensorMap")

    def get_device_interface(self) -> Any:
        """Synchronization and timing: `torch.cuda`. Raises `RuntimeError` without torch."""
        return self._torch_cuda("timing").cuda

    @staticmethod
    def _torch_cuda(what: str) -> Any:
        torch = cuda_torch()
        if torch is None:
            raise RuntimeError(f"{what} on a GPU needs torch with CUDA; `import torch` first")
        return torch

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer larger than the second-level cache (256 MB); writing it evicts what is there."""
        torch = self._torch_cuda("benchmarking")
        return torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def __getattr__(name: str) -> Any:
    if name == "CudaLauncher":  # a process without a GPU looks at this module and needs none
        from tritium.backends.nvidia.launcher import CudaLauncher

        return CudaLauncher
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def libcuda_dirs() -> list[str]:
    """The folders that have the driver's library, `libcuda.so.1`.

    Raises `RuntimeError` where none is found; `TRITON_LIBCUDA_PATH` may name one.
    """
    chosen = knobs.nvidia.libcuda_path
    if chosen:
        return [chosen]
    paths = (knobs.getenv("LD_LIBRARY_PATH") or "").split(os.pathsep)
    paths += ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
    found = [p for p in dict.fromkeys(paths) if p and os.path.exists(f"{p}/libcuda.so.1")]
    if not found:
        raise RuntimeError(
            "libcuda.so.1 is in none of the folders of LD_LIBRARY_PATH and the system; "
            "set TRITON_LIBCUDA_PATH to its folder"
        )
    return found


def library_dirs() -> list[str]:
    """The folders in which extensions in C that call the driver find libraries: libdevice's, if
    there is one, and libcuda's. Raises as `libcuda_dirs`."""
    from tritium.backends.nvidia import libdevice  # rarely asked for

    device = libdevice.find()
    return [*([] if device is None else [str(device.parent)]), *libcuda_dirs()]


def make_tensordesc_arg(
    arg: Any, metadata: Mapping[str, Any] | None, others: Sequence[Any] = ()
) -> list[Any]:
    """The values that a kernel takes for a host descriptor: its `CUtensorMap` (its tensor, where
    `metadata` is None), shape and strides. `others` are the launcher's other arguments."""
    from tritium.backends.nvidia import tensormap  # rarely asked for

    if metadata is None:
        return [arg.base, *arg.shape, *arg.strides]
    return [tensormap.make(arg.base.data_ptr(), arg, metadata), *arg.shape, *arg.strides]
