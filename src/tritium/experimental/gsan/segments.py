"""Memory that one process allocates and others map: of a CUDA device, by the driver's functions of
virtual memory, or of the host, by files in memory."""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tritium import knobs
from tritium.backends.nvidia.libcuda import check, library
from tritium.experimental.gsan.allocator import allocation_at
from tritium.experimental.gsan.settings import ShareableHandleType, state
from tritium.sanitize.extents import Pooled


@dataclass(frozen=True)
class Mapping:
    """Memory of another process, in this one.

    Attributes:
        begin: its address.
        tensor: makes a torch tensor of uint8 of bytes there, from one place on.
        unmap: gives the addresses back.
    """

    begin: int
    tensor: Callable[[int, int], Any]
    unmap: Callable[[], None]


class HostSegment(mmap.mmap):
    """Memory of the host in a file without a name; what is made of its buffer keeps it."""

    kind = "cpu"
    file: int
    begin: int
    length: int
    number: int
    write_once: bool

    @classmethod
    def new(cls, size: int, write_once: bool) -> HostSegment:
        """A segment of `size` bytes."""
        file = knobs.system().file_without_name("tritium_gsan")
        os.ftruncate(file, size)
        made = cls(file, size)
        made.file, made.length, made.write_once = file, size, write_once
        made.begin = _address(made)
        made.number = -made.begin  # allocations of devices count from 0
        weakref.finalize(made, os.close, file)
        _on_host[made.begin] = made
        return made

    @classmethod
    def at(cls, address: int) -> HostSegment | None:
        """The segment that an address is in."""
        for segment in list(_on_host.values()):
            if segment.begin <= address < segment.begin + segment.length:
                return segment
        return None

    @classmethod
    def live(cls) -> list[Pooled]:
        """All segments, for the search for races."""
        return [Pooled(s.begin, s.begin + s.length, s.number, s.write_once)
                for s in list(_on_host.values())]  # fmt: skip

    def tensor(self, begin: int, count: int) -> Any:
        """A torch tensor of uint8 from a byte on, which keeps the memory."""
        return _host_tensor(self, begin, count)

    def export(self) -> int:
        """A handle for other processes, which the caller closes."""
        return os.dup(self.file)

    def map(self, handle: int | bytes, size: int) -> Mapping:
        """Map another process's segment."""
        assert isinstance(handle, int), "the host's handles are files"
        theirs = mmap.mmap(handle, size)
        # Nothing unmaps it: tensors keep what they are made of.
        return Mapping(_address(theirs), partial(_host_tensor, theirs), lambda: None)


_on_host: WeakValueDictionary[int, HostSegment] = WeakValueDictionary()


class DeviceSegment:
    """An allocation of a pool on a CUDA device.

    Args:
        pooled: where it is.
        handle: the driver's.
        device: its number.
    """

    kind = "cuda"

    def __init__(self, pooled: Pooled, handle: int, device: int):
        self.begin, self.length = pooled.begin, pooled.end - pooled.begin
        self.number, self.write_once = pooled.number, pooled.write_once
        self._handle, self._device = handle, device

    @classmethod
    def at(cls, address: int) -> DeviceSegment | None:
        """The allocation that an address is in."""
        found = allocation_at(address)
        return None if found is None else cls(*found)

    def tensor(self, begin: int, count: int) -> Any:
        """A torch tensor of uint8 from a byte on."""
        return _device_tensor(self._device, self.begin, begin, count)

    def export(self) -> int | bytes:
        """A handle for other processes; a file descriptor is the caller's to close."""
        cuda, kinds = library(), library().CUmemAllocationHandleType
        made = check(cuda.cuMemExportToShareableHandle(
            cuda.CUmemGenericAllocationHandle(self._handle), kinds(int(state.settings.handles)), 0
        ))  # fmt: skip
        fabric = state.settings.handles is ShareableHandleType.FABRIC
        return bytes(made.data) if fabric else int(made)

    def map(self, handle: int | bytes, size: int) -> Mapping:
        """Map another process's allocation for this one's device. Raises `RuntimeError` where the
        device cannot reach it."""
        cuda, device = library(), self._device
        kind = cuda.CUmemAllocationHandleType(int(state.settings.handles))
        given = handle if isinstance(handle, int) else _fabric(handle)
        with ExitStack() as undo:
            memory = check(cuda.cuMemImportFromShareableHandle(given, kind))
            begin = int(check(cuda.cuMemAddressReserve(size, 0, 0, 0)))
            undo.callback(cuda.cuMemAddressFree, begin, size)
            try:
                check(cuda.cuMemMap(begin, size, 0, memory, 0))
            finally:
                cuda.cuMemRelease(memory)  # a mapping keeps it
            undo.callback(cuda.cuMemUnmap, begin, size)
            check(cuda.cuMemSetAccess(begin, size, [self._access()], 1))
            unmap = undo.pop_all().close
        return Mapping(begin, partial(_device_tensor, device, begin), unmap)

    def _access(self) -> Any:
        cuda = library()
        access = cuda.CUmemAccessDesc()
        access.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self._device
        access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access


class _DeviceArray:
    """Bytes of a device, as torch takes them."""

    def __init__(self, address: int, count: int):
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def _device_tensor(device: int, base: int, begin: int, count: int) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.as_tensor(_DeviceArray(base + begin, count), device=f"cuda:{device}")


def _host_tensor(memory: mmap.mmap, begin: int, count: int) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.from_numpy(np.frombuffer(memory, np.uint8, count, begin))


def _address(map: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(map))


def _fabric(data: bytes) -> Any:
    handle = library().CUmemFabricHandle()
    handle.data = data
    return handle
