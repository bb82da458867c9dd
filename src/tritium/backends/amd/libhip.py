"""The HIP runtime's library, `libamdhip64`, by ctypes. Its figures are those of HIP 6's headers."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from tritium.backends.amd.discovery import open_library
from tritium.launch.packing import memory_size

_DIMENSIONS = [c_uint] * 7
_HANDLE = POINTER(c_void_p)
_FUNCTIONS: dict[str, list[Any]] = {
    "hipInit": [c_uint], "hipGetDeviceCount": [POINTER(c_int)], "hipGetDevice": [POINTER(c_int)],
    "hipSetDevice": [c_int], "hipGetDevicePropertiesR0600": [c_void_p, c_int],
    "hipModuleLoadData": [_HANDLE, c_char_p], "hipModuleUnload": [c_void_p],
    "hipModuleGetFunction": [_HANDLE, c_void_p, c_char_p],
    "hipFuncGetAttribute": [POINTER(c_int), c_int, c_void_p],
    "hipModuleGetGlobal": [_HANDLE, POINTER(c_size_t), c_void_p, c_char_p],
    "hipEventCreateWithFlags": [_HANDLE, c_uint], "hipEventRecord": [c_void_p, c_void_p],
    "hipEventSynchronize": [c_void_p], "hipEventDestroy": [c_void_p],
    "hipEventElapsedTime": [POINTER(c_float), c_void_p, c_void_p], "hipDeviceSynchronize": [],
    "hipFree": [c_void_p], "hipMemset": [c_void_p, c_int, c_size_t],
    "hipHostMalloc": [_HANDLE, c_size_t, c_uint],
    "hipMallocManaged": [_HANDLE, c_size_t, c_uint], "hipMalloc": [_HANDLE, c_size_t],
    "hipStreamSynchronize": [c_void_p],
    "hipMemcpyHtoD": [c_void_p, c_void_p, c_size_t],
    "hipMemcpyDtoH": [c_void_p, c_void_p, c_size_t],
    "hipPointerGetAttribute": [c_void_p, c_int, c_void_p],
    "hipModuleLaunchKernel": [c_void_p, *_DIMENSIONS, c_void_p, c_void_p, c_void_p],
    "hipModuleLaunchCooperativeKernel": [c_void_p, *_DIMENSIONS, c_void_p, c_void_p],
}  # fmt: skip
"""Functions that return a status, and their parameters."""

FUNCTION_ATTRIBUTES = (4, 3, 0)
"""Registers, bytes of scratch memory, most threads of a workgroup (`hipFunction_attribute`)."""
DEVICE_POINTER = 3
"""The address by which a device sees memory (`hipPointer_attribute`)."""

_PROPERTIES_BYTES = 1472
_PROPERTIES = {
    "max_shared_mem": ("Q", 296), "max_num_regs": ("i", 304), "warpSize": ("i", 308),
    "sm_clock_rate": ("i", 348), "multiprocessor_count": ("i", 388),
    "mem_clock_rate": ("i", 608), "mem_bus_width": ("i", 612),
}  # fmt: skip
"""Fields of `hipDeviceProp_tR0600`: their form and place."""
_ARCH_NAME = 1160


class Library:
    """The functions of `_FUNCTIONS`, and what their parameters are made of."""

    pointer, int32, size, ref = c_void_p, c_int, c_size_t, staticmethod(ctypes.byref)

    def __init__(self, functions: Any):
        for name, parameters in _FUNCTIONS.items():
            function = getattr(functions, name)
            function.argtypes, function.restype = parameters, c_int
            setattr(self, name, function)
        self.hipGetErrorString = functions.hipGetErrorString
        self.hipGetErrorString.argtypes, self.hipGetErrorString.restype = [c_int], c_char_p

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"libamdhip64 has no function {name!r} that is used here")


@functools.cache
def library() -> Library:
    """The library, initialized. Raises `RuntimeError` where it is not found."""
    try:
        found = Library(open_library())
    except OSError as error:
        raise RuntimeError(
            f"launching on an AMD GPU needs libamdhip64: {error}; TRITON_LIBHIP_PATH may name it"
        ) from None
    check(found.hipInit(0), found)
    return found


@functools.cache
def device_count() -> int:
    """The number of AMD GPUs that this process can use; 0 without a driver."""
    try:
        found = Library(open_library())
    except (OSError, AttributeError):
        return 0
    count = c_int(0)
    failed = found.hipInit(0) or found.hipGetDeviceCount(ctypes.byref(count))
    return 0 if failed else count.value


def check(status: int, hip: Any = None) -> None:
    """Raise `RuntimeError` for a status that is not success, by the library's words."""
    if status != 0:
        text = ((hip or library()).hipGetErrorString(status) or b"?").decode()
        raise RuntimeError(f"Triton Error [HIP]: {text} (status {status})")


@functools.cache
def properties(device: int = 0) -> dict[str, Any]:
    """Figures of a device: bytes of LDS that a program can have, registers, clock rates (kHz), bus
    width (bits), and the name of its processor, without features, as `arch`."""
    hip, memory = library(), ctypes.create_string_buffer(_PROPERTIES_BYTES)
    check(hip.hipGetDevicePropertiesR0600(memory, device), hip)
    found: dict[str, Any] = {
        name: struct.unpack_from(f"<{form}", memory, place)[0]
        for name, (form, place) in _PROPERTIES.items()
    }
    name = memory.raw[_ARCH_NAME : _ARCH_NAME + 256].split(b"\0")[0].decode()
    return {**found, "arch": name.partition(":")[0]}


def hip_torch() -> Any:
    """torch, if the program uses its ROCm support."""
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.version, "hip", None):
        return None
    return torch if torch.cuda.is_available() else None


_LARGEST = (1 << 31) - 1


def is_small(tensor: object) -> bool:
    """True if all of a tensor's memory, of which it may be a view, is known to be within 2 GiB."""
    size = memory_size(tensor)
    return size is not None and size <= _LARGEST
