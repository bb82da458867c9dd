"""From Python arguments to a launch on an AMD GPU: values in slots of 8 bytes,
`hipModuleLaunchKernel`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tritium.backends.amd import checked
from tritium.backends.amd.libhip import DEVICE_POINTER, check, hip_torch, library
from tritium.backends.amd.output import report
from tritium.backends.gpu_launcher import PACK_ADDRESS, GPULauncher, PackedDescriptor, Packer
from tritium.launch import packing
from tritium.launch.ends import End, Link
from tritium.launch.packing import packer, rank_of

_ROCM_DEVICES = 10, 11
"""DLPack's numbers of ROCm's memory: the device's and pinned."""


def address_of(arg: Any, position: int) -> int:
    """The device address of a pointer argument (see `packing.address_of`)."""
    return packing.address_of(arg, position, _accessible, _ROCM_DEVICES)


def _accessible(address: int, position: int) -> int:
    found = ctypes.c_void_p()
    if library().hipPointerGetAttribute(ctypes.byref(found), DEVICE_POINTER, address) != 0:
        raise packing.not_on_device(position)
    return found.value or 0


class HIPLauncher(GPULauncher):
    """Launches one compiled kernel on an AMD GPU."""

    def __init__(self, src: Any, metadata: Any, function: int):
        if metadata.num_ctas > 1:
            raise NotImplementedError(
                f"kernel '{metadata.name}': num_ctas is {metadata.num_ctas}; clusters of "
                "workgroups cannot be launched yet, only compiled for"
            )
        super().__init__(src, metadata, checked)
        self._function, self._threads = function, metadata.warp_size * metadata.num_warps
        self._output = getattr(metadata, "output", ())
        self._packers: list[Packer] = []
        self._count = 0
        for position, param in enumerate(self._params):
            if param is None:
                continue
            name, kind = param
            pack, count = None, 1
            if kind.startswith("tensordesc"):
                pack, count = PackedDescriptor(self._address_of, position), 1 + 2 * rank_of(kind)
            elif not kind.startswith("*"):
                pack = packer(kind, name)
            self._packers.append(Packer(position, 8 * self._count, pack, name))
            self._count += count

    def _address_of(self, arg: Any, position: int) -> int:
        return address_of(arg, position)

    def native_end(self, link: Link) -> End | None:
        """The last step of a native launch of this kernel; None where only `__call__` can."""
        if self._output or self._checked is not None:
            return None
        # Here, because a program's first launches do not need it.
        from tritium.backends.amd.native_launch import make_end
        from tritium.launch.device_end import Calls, stream_function

        launch = "Cooperative" if self._metadata.launch_cooperative_grid else ""
        address = ctypes.cast(getattr(library(), f"hipModuleLaunch{launch}Kernel"), ctypes.c_void_p)
        calls = Calls(address.value or 0, *stream_function(hip_torch()), check, self._allocate)
        params = [param for param in self._params if param is not None]
        return make_end(link, calls, self._function, params, self._metadata)

    def _launch(self, gx: int, gy: int, gz: int, stream: int, args: Sequence[Any]) -> None:
        self._check_count(args)
        count = self._count + bool(self._metadata.global_scratch_size)
        values = ctypes.create_string_buffer(8 * max(count, 1))
        start = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * max(count, 1))(*(start + 8 * i for i in range(count)))
        self._pack(self._packers, values, args)
        memory = None
        if count > self._count:
            memory, address = self._allocate(gx * gy * gz, stream)
            PACK_ADDRESS(values, 8 * self._count, address)
        hip = library()
        sizes = (gx, gy, gz, self._threads, 1, 1, self._metadata.shared, stream, pointers)
        if self._metadata.launch_cooperative_grid:
            status = hip.hipModuleLaunchCooperativeKernel(self._function, *sizes)
        else:
            status = hip.hipModuleLaunchKernel(self._function, *sizes, None)
        del memory  # from here on the stream's order keeps it
        check(status, hip)
        if self._output:
            report(self._output, stream)
