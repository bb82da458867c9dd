"""From Python arguments to a launch: values packed as the kernel's parameters, `cuLaunchKernelEx`.

What can be prepared once is: each launcher keeps records (`_Slot`) with space for all parameters
and a launch configuration. A launch takes one, fills it in, and puts it back, so that threads that
launch at the same time never share one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tritium.backends.gpu_launcher import PACK_ADDRESS, GPULauncher, PackedDescriptor, Packer
from tritium.backends.nvidia import checked, tensormap
from tritium.backends.nvidia.contexts import KernelContext
from tritium.backends.nvidia.libcuda import check, library
from tritium.errors import OutOfResources
from tritium.launch import packing
from tritium.launch.ends import End, Link
from tritium.launch.packing import packer
from tritium.sanitize import ring

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every device takes that has clusters."""


_CUDA_DEVICES = 2, 3, 13
"""DLPack's numbers of CUDA's memory: the device's, pinned and managed."""


def address_of(arg: Any, position: int) -> int:
    """The device address of a pointer argument (see `packing.address_of`)."""
    return packing.address_of(arg, position, _accessible, _CUDA_DEVICES)


def _accessible(address: int, position: int) -> int:
    """The address by which the device sees some memory (pinned host memory has one)."""
    driver = library()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER
    status, found = driver.cuPointerGetAttribute(attribute, address)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise packing.not_on_device(position)
    return int(found)


class _Descriptor(PackedDescriptor):
    """Packs a host descriptor's tensor map for its pointer. The map is encoded again only when the
    tensor is another one."""

    def __init__(self, meta: Any, position: int):
        super().__init__(address_of, position)
        self._meta = meta
        self._known: tuple[Any, bytes] = (None, b"")

    def encoded(self, arg: Any, address: int) -> bytes:
        key = address, tuple(arg.shape), tuple(arg.strides), tensormap.further(arg)
        if key != self._known[0]:
            self._known = key, tensormap.encode(address, arg, self._meta)
        return self._known[1]


class _Slot:
    """Space for the parameters of one launch, and its configuration."""

    def __init__(self, layout: Sequence[int], size: int, metadata: Any):
        driver = library()
        self._memory = ctypes.create_string_buffer(size + tensormap.ALIGNMENT)
        start = -(-ctypes.addressof(self._memory) // tensormap.ALIGNMENT) * tensormap.ALIGNMENT
        self.values = (ctypes.c_char * size).from_address(start)
        self.pointers = (ctypes.c_void_p * len(layout))(*(start + offset for offset in layout))
        self.address = ctypes.addressof(self.pointers)
        self.config = driver.CUlaunchConfig()
        threads = 32 * metadata.num_warps
        self.config.blockDimX, self.config.blockDimY, self.config.blockDimZ = threads, 1, 1
        self.config.sharedMemBytes = metadata.shared
        attributes: list[Any] = []
        if metadata.launch_pdl:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION  # noqa: E501
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if metadata.launch_cooperative_grid:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if metadata.num_ctas > 1:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = attribute.value.clusterDim
            dims.x, dims.y, dims.z = metadata.num_ctas, 1, 1
            attributes.append(attribute)
        self.config.attrs, self.config.numAttrs = attributes, len(attributes)


class CudaLauncher(GPULauncher):
    """Launches one compiled kernel on an NVIDIA GPU."""

    def __init__(self, src: Any, metadata: Any, function: int):
        super().__init__(src, metadata, checked)
        self._driver = library()
        self._function = self._driver.CUfunction(function)
        self._context = KernelContext()
        if self._labels is not None:
            self._params = [*self._params, *((name, "i64") for name in ring.PARAMETERS)]
        self._packers = self._make_packers()
        self._slots: list[_Slot] = []
        self._check_threads()
        self._blocks: int = metadata.num_ctas
        if self._blocks > PORTABLE_CLUSTER:
            attribute = self._driver.CUfunction_attribute
            allowed = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(self._driver.cuFuncSetAttribute(self._function, allowed, 1))
        self._end: End | None = None
        self._asked = False

    def native_end(self, link: Link) -> End | None:
        """The last step of a native launch of this kernel; None where only `__call__` can."""
        if self._labels is not None:
            return None
        if not self._asked:
            # Here, because a program's first launches do not need it.
            from tritium.backends.nvidia.native_launch import driver_calls, make_end

            driver, metadata = self._driver, self._metadata
            names = driver.CUlaunchAttributeID
            attributes: dict[int, tuple[int, ...]] = {}
            if metadata.launch_pdl:
                attributes[int(names.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)] = (1,)
            if metadata.launch_cooperative_grid:
                attributes[int(names.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)] = (1,)
            if metadata.num_ctas > 1:
                dims = metadata.num_ctas, 1, 1
                attributes[int(names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)] = dims
            self._asked = True
            checks, own = None, self._params
            if self._checked is not None:
                checks = self._checked.native(self._flat)
                if checks is None:
                    return None
                own = own[: -len(self._checked.parameters)]
            params = [param for param in own if param is not None]
            handle = int(self._function)
            calls = driver_calls(self._context.enter, self._allocate)
            self._end = make_end(link, calls, handle, params, metadata, attributes, checks)
        return self._end

    def unload(self) -> None:
        """Unload the kernel's module, unless native launches hold the function."""
        if self._end is None:
            self._context.unload(self._function)

    def _check_threads(self) -> None:
        driver = self._driver
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        limit = check(driver.cuFuncGetAttribute(attribute, self._function))
        if 32 * self._metadata.num_warps > limit:
            raise OutOfResources(32 * self._metadata.num_warps, limit, "threads")

    def _make_packers(self) -> list[Packer]:
        """One for each argument that the kernel takes; also fills in `_layout` and `_size`."""
        packers: list[Packer] = []
        maps = iter(self._metadata.tensordesc_meta)
        self._layout: list[int] = []
        self._size = 0
        for position, param in enumerate(self._params):
            if param is None:
                continue
            name, kind = param
            if kind.startswith("tensordesc"):
                meta = next(maps)
                rank = meta["rank"] if meta else kind.count(",") + 1
                offset = self._place(8, 8) if meta is None else \
                    self._place(tensormap.BYTES, tensormap.ALIGNMENT)  # fmt: skip
                for size in [4] * rank + [8] * rank:
                    self._place(size, 8)
                pack = PackedDescriptor(address_of, position) if meta is None else \
                    _Descriptor(meta, position)  # fmt: skip
                packers.append(Packer(position, offset, pack, name))
            elif kind.startswith("*"):
                packers.append(Packer(position, self._place(8, 8), None, name))
            else:
                pack = packer(kind, name)
                packers.append(Packer(position, self._place(8, 8), pack, name))
        self._scratch = self._place(8, 8) if self._metadata.global_scratch_size else None
        return packers

    def _place(self, size: int, alignment: int) -> int:
        """Space for one of the kernel's parameters."""
        offset = -(-self._size // alignment) * alignment
        self._layout.append(offset)
        self._size = offset + -(-size // 8) * 8
        return offset

    def _enter(self) -> bool:
        return self._context.enter()

    def _address_of(self, arg: Any, position: int) -> int:
        return address_of(arg, position)

    def _launch(self, gx: int, gy: int, gz: int, stream: int, args: Sequence[Any]) -> None:
        if self._labels is not None:
            args = [*args, *ring.arguments(self._labels)]
        self._check_count(args)
        self._context.enter()  # first: addresses and tensor maps are asked of the driver as well
        slot = self._slots.pop() if self._slots else self._new_slot()
        values = slot.values
        self._pack(self._packers, values, args)
        memory = None
        if self._scratch is not None:
            memory, address = self._allocate(gx * gy * gz, stream)
            PACK_ADDRESS(values, self._scratch, address)
        config = slot.config
        config.gridDimX, config.gridDimY, config.gridDimZ = gx * self._blocks, gy, gz
        config.hStream = stream
        (status,) = self._driver.cuLaunchKernelEx(config, self._function, slot.address, 0)
        del memory  # from here on the stream's order keeps it
        self._slots.append(slot)
        if status != 0:
            check((status,))

    def _new_slot(self) -> _Slot:
        return _Slot(self._layout, max(self._size, 8), self._metadata)

