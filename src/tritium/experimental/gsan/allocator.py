"""Pools of GPU memory for torch, whose allocations the search for races watches
(`sanitize.extents.pools`)."""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import platform
from collections.abc import Mapping
from typing import Any

from tritium import cache, knobs
from tritium.backends.active import driver
from tritium.backends.nvidia.libcuda import check, library
from tritium.experimental.gsan.settings import Settings, ShareableHandleType, state
from tritium.experimental.gsan.writer import (
    ALLOCATE,
    ALLOCATE_WRITE_ONCE,
    DRIVER,
    ENTRY,
    FREE,
    LIVE,
    RELEASE,
    STATE,
    STATE_SYMBOL,
    allocator_ir,
)
from tritium.native.loader import compile_ir, object_key
from tritium.native.records import allocate
from tritium.native.shared_library import shared_library
from tritium.sanitize import extents
from tritium.sanitize.extents import Pooled
from tritium.sanitize.shadow import forget_allocations

_CAPACITY = 1 << 14
"""The most live allocations: torch makes one for many tensors."""
_FILE = "tritium_gsan.so"


def get_allocator(*, write_once: bool = False) -> Any:
    """The `torch.cuda.memory.CUDAPluggableAllocator` whose memory is watched.

    Args:
        write_once: each byte may be written once, before it is read.

    Raises:
        RuntimeError: kernels do not run on an NVIDIA GPU, or the device has no such handles.
    """
    return _torch_allocator(bool(write_once))


def create_mem_pool(*, write_once: bool = False) -> Any:
    """A new `torch.cuda.MemPool`, for `torch.cuda.use_mem_pool`, with the memory of
    `get_allocator`. Raises as that does."""
    memory: Any = importlib.import_module("torch.cuda.memory")
    return memory.MemPool(get_allocator(write_once=write_once).allocator())


def has_live_allocations() -> bool:
    """True if memory of a pool is allocated, or kept by torch for later tensors."""
    return any(library.holds() for library in _loaded)


def reset() -> None:
    """Forget what is known about the pools' memory. Raises `AssertionError` while memory of a pool
    is allocated, after Python's garbage has been collected."""
    if has_live_allocations():
        gc.collect()
        if has_live_allocations():
            raise AssertionError(
                "gsan.reset: memory of a pool is still allocated; delete the tensors and the pool"
            )
    forget_allocations()


class NativeAllocator:
    """The library that allocates.

    Args:
        path: of its file.
        functions: the addresses of the driver's functions `DRIVER`.
    """

    def __init__(self, path: str, functions: Mapping[str, int]):
        self.path = path
        self._library = ctypes.CDLL(path)
        self._state = ctypes.addressof(ctypes.c_char.in_dll(self._library, STATE_SYMBOL))
        self._entries, table = allocate(_CAPACITY * ENTRY.size)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(table))  # torch frees after Python has ended
        STATE.write(self._state, entries=self._entries, capacity=_CAPACITY, **functions)

    def use(self, settings: Settings, granularity: int) -> None:
        """Allocate by these settings, in multiples of `granularity` bytes."""
        devices = ctypes.c_int64(settings.devices).value
        STATE.write(self._state, devices=devices, handles=settings.handles,
                    granularity=granularity)  # fmt: skip

    def is_used(self) -> bool:
        """True if there has been an allocation."""
        return STATE.read(self._state, "allocations") > 0

    def holds(self) -> bool:
        """True if there is an allocation now."""
        return any(ENTRY.read(entry, "state") != FREE for entry in self._places())

    def live(self) -> list[Pooled]:
        """The allocations."""
        return [pooled for pooled, _, _ in self.allocations()]

    def allocations(self) -> list[tuple[Pooled, int, int]]:
        """The allocations, with the driver's handle and the device of each."""
        found: list[tuple[Pooled, int, int]] = []
        for entry in self._places():
            if ENTRY.read(entry, "state") == LIVE:
                begin, size, number, once, handle, device = (
                    ENTRY.read(entry, name)
                    for name in ("begin", "size", "number", "write_once", "handle", "device")
                )
                pooled = Pooled(begin, begin + size, number, bool(once))
                found.append((pooled, handle, device))
        return found

    def _places(self) -> range:
        """The entries that may be in use."""
        used = STATE.read(self._state, "used")
        return range(self._entries, self._entries + used * ENTRY.size, ENTRY.size)


_loaded: list[NativeAllocator] = []


def allocation_at(address: int) -> tuple[Pooled, int, int] | None:
    """The allocation of a pool that an address is in, with the driver's handle and the device."""
    for loaded in _loaded:
        for found in loaded.allocations():
            if found[0].begin <= address < found[0].end:
                return found
    return None


def write_library() -> str:
    """The path of the library, which is compiled where the cache has none."""
    text = allocator_ir()
    key = object_key(text)
    found = cache.find(key, _FILE + ".json")
    if found is None:
        code = compile_ir(text)
        code = shared_library(code, _FILE, [ALLOCATE, ALLOCATE_WRITE_ONCE, RELEASE],
                              [STATE_SYMBOL], platform.machine())  # fmt: skip
        found = cache.publish(key, _FILE + ".json", {_FILE: code})
    return found[_FILE]


@functools.cache
def _torch_allocator(write_once: bool) -> Any:
    backend = driver.active.get_current_target().backend
    if backend != "cuda":
        raise RuntimeError(
            f"gsan: pools are memory of NVIDIA GPUs; the active backend is '{backend}'"
        )
    memory: Any = importlib.import_module("torch.cuda.memory")
    name = ALLOCATE_WRITE_ONCE if write_once else ALLOCATE
    return memory.CUDAPluggableAllocator(_native().path, name, RELEASE)


@functools.cache
def _native() -> NativeAllocator:
    made = NativeAllocator(write_library(), _functions())
    made.use(state.settings, _granularity(state.settings))
    state.changed = lambda settings: made.use(settings, _granularity(settings))
    state.in_use = made.is_used
    _loaded.append(made)
    extents.pools.append(made.live)
    return made


def _functions() -> dict[str, int]:
    """The addresses of the driver's functions."""
    cuda = ctypes.CDLL(knobs.nvidia.libcuda_path or "libcuda.so.1")
    return {n: ctypes.cast(getattr(cuda, n), ctypes.c_void_p).value or 0 for n in DRIVER}


def _granularity(settings: Settings) -> int:
    """The unit of allocations on all devices. Raises `RuntimeError` where a device has no such
    handles."""
    cuda, sizes = library(), list[int]()
    for device in range(check(cuda.cuDeviceGetCount())):
        if not settings.devices >> device & 1:
            continue
        if settings.handles is ShareableHandleType.FABRIC:
            attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED
            if not check(cuda.cuDeviceGetAttribute(attribute, check(cuda.cuDeviceGet(device)))):
                raise RuntimeError(f"gsan: device {device} has no memory with handles of the "
                                   "fabric (handle_type=FABRIC)")  # fmt: skip
        wanted = cuda.CUmemAllocationProp()
        wanted.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = device
        wanted.requestedHandleTypes = cuda.CUmemAllocationHandleType(int(settings.handles))
        least = cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        sizes.append(int(check(cuda.cuMemGetAllocationGranularity(wanted, least))))
    return max(sizes, default=1 << 21)
