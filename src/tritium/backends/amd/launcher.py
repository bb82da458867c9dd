"""From Python arguments to a launch on an AMD GPU: values in slots of 8 bytes,
`hipModuleLaunchKernel`."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tritium.backends.amd.libhip import DEVICE_POINTER, check, library
from tritium.launch.ends import End, Link
from tritium.launch.packing import Pack, leaves, packer, parameters


def address_of(arg: Any, position: int) -> int:
    """The device address of a pointer argument: a tensor, an int, or None. Raises `TypeError` for
    anything else, `ValueError` for memory that the device cannot access."""
    if arg is None or type(arg) is int:
        return arg or 0
    if not hasattr(arg, "data_ptr"):
        raise TypeError(
            f"Pointer argument (at {position}) doesn't have `data_ptr` method; "
            f"got {type(arg).__name__}"
        )
    address = arg.data_ptr()
    if address == 0 or getattr(arg, "is_cuda", False):  # torch's name of AMD's as well
        return address
    found = ctypes.c_void_p()
    if library().hipPointerGetAttribute(ctypes.byref(found), DEVICE_POINTER, address) != 0:
        raise ValueError(
            f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
        )
    return found.value or 0


def _pack_address(position: int) -> Pack:
    def pack(buffer: Any, offset: int, arg: Any) -> None:
        struct.pack_into("Q", buffer, offset, address_of(arg, position))

    return pack


class HIPLauncher:
    """Launches one compiled kernel; called with everything spelled out (see `CompiledKernel`)."""

    def __init__(self, src: Any, metadata: Any, function: int):
        if metadata.global_scratch_size:
            raise NotImplementedError("global scratch memory on AMD GPUs")
        self._name, self._metadata, self._function = metadata.name, metadata, function
        self._params, self._nested = parameters(src, metadata)
        self._threads = metadata.warp_size * metadata.num_warps
        self._packers: list[tuple[int, str, Pack]] = []
        for position, param in enumerate(self._params):
            if param is None:
                continue
            name, kind = param
            if kind.startswith("tensordesc"):
                raise NotImplementedError(f"descriptors made on the host ('{name}') on AMD GPUs")
            pack = _pack_address(position) if kind.startswith("*") else packer(kind, name)
            self._packers.append((position, name, pack))

    def native_end(self, link: Link) -> End | None:
        """Launches go through Python."""
        return None

    def __call__(
        self, gx: int, gy: int, gz: int, stream: int, function: Any, packed_metadata: Any,
        launch_metadata: Any, enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None, *args: Any,
    ) -> None:  # fmt: skip
        if enter_hook:
            enter_hook(launch_metadata)
        if gx * gy * gz > 0:
            self._launch((gx, gy, gz), stream, leaves(args) if self._nested else args)
        if exit_hook:
            exit_hook(launch_metadata)

    def _launch(self, grid: tuple[int, int, int], stream: int, args: Sequence[Any]) -> None:
        if len(args) != len(self._params):
            raise TypeError(
                f"kernel '{self._name}' takes {len(self._params)} arguments; got {len(args)}"
            )
        count = len(self._packers)
        values = ctypes.create_string_buffer(8 * max(count, 1))
        start = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * max(count, 1))(*(start + 8 * i for i in range(count)))
        for i, (position, name, pack) in enumerate(self._packers):
            try:
                pack(values, 8 * i, args[position])
            except (struct.error, OverflowError) as error:
                raise TypeError(
                    f"kernel '{self._name}': argument '{name}' is {args[position]!r:.80}: {error}"
                ) from None
        hip = library()
        sizes = (*grid, self._threads, 1, 1, self._metadata.shared, stream, pointers)
        if self._metadata.launch_cooperative_grid:
            status = hip.hipModuleLaunchCooperativeKernel(self._function, *sizes)
        else:
            status = hip.hipModuleLaunchKernel(self._function, *sizes, None)
        check(status, hip)
