"""The part of launching a kernel that GPUs have in common; what is packed for the driver, and how
it is called, is a backend's."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tritium.launch.allocation import allocate
from tritium.launch.packing import Pack, leaves, parameters
from tritium.sanitize.checked import Checked

_I32, _I64 = struct.Struct("i").pack_into, struct.Struct("q").pack_into
PACK_ADDRESS = struct.Struct("Q").pack_into


class Packer(NamedTuple):
    """The packing of argument `position` as a parameter at `offset`; a pointer if `pack` is
    None."""

    position: int
    offset: int
    pack: Pack | None
    name: str


class PackedDescriptor:
    """Packs a host descriptor: its pointer, or what `encoded` gives in its place, then the shape
    (i32) and the strides (i64), each in 8 bytes."""

    def __init__(self, address_of: Callable[[Any, int], int], position: int):
        self._address_of, self._position = address_of, position

    def encoded(self, arg: Any, address: int) -> bytes:
        return address.to_bytes(8, "little")

    def __call__(self, values: Any, offset: int, arg: Any) -> None:
        start = self.encoded(arg, self._address_of(arg.base, self._position))
        values[offset : offset + len(start)] = start
        offset += len(start)
        for size in arg.shape:
            _I32(values, offset, size)
            offset += 8
        for stride in arg.strides:
            _I64(values, offset, stride)
            offset += 8


class GPULauncher(ABC):
    """Launches one compiled kernel; called with everything spelled out (see `CompiledKernel`)."""

    def __init__(self, src: Any, metadata: Any, checked: Any):
        """`checked`: the module with the device's memory for checks (`sanitize.checked.Device`)."""
        self._name, self._metadata = metadata.name, metadata
        self._params, self._types = parameters(src, metadata)
        self._checked: Checked | None = None
        data: dict[str, Any] = getattr(metadata, "sanitizer", None) or {}
        self._labels: list[str] | None = data.get("labels")
        if data and self._labels is None:
            self._checked = Checked(checked, data, self._params, metadata.name)
            self._params = [*self._params, *self._checked.parameters]

    def __call__(
        self, gx: int, gy: int, gz: int, stream: int, function: Any, packed_metadata: Any,
        launch_metadata: Any, enter_hook: Callable[[Any], None] | None,
        exit_hook: Callable[[Any], None] | None, *args: Any,
    ) -> None:  # fmt: skip
        if enter_hook:
            enter_hook(launch_metadata)
        if gx * gy * gz > 0:
            flat = self._flat(args)
            if self._checked is None:
                self._launch(gx, gy, gz, stream, flat)
            else:
                self._enter()
                launch = partial(self._launch, gx, gy, gz, stream)
                self._checked.run(launch, flat, (gx, gy, gz), stream)
        if exit_hook:
            exit_hook(launch_metadata)

    def _flat(self, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments with tuples spread out."""
        return leaves(args, self._types) if self._types else args

    def _enter(self) -> bool:
        """Make the kernel's device current in this thread; returns whether that changes
        anything."""
        return False

    @abstractmethod
    def _launch(self, gx: int, gy: int, gz: int, stream: int, args: Sequence[Any]) -> None:
        """Pack the arguments and call the driver."""

    @abstractmethod
    def _address_of(self, arg: Any, position: int) -> int:
        """The device address of a pointer argument."""

    def _pack(self, packers: Sequence[Packer], values: Any, args: Sequence[Any]) -> None:
        """Write the arguments' values into memory for the driver."""
        for position, offset, pack, name in packers:
            arg = args[position]
            if pack is None:
                address = getattr(arg, "is_cuda", False) and arg.data_ptr()
                try:  # 0: an empty tensor's, or an error
                    address = address or self._address_of(arg, position)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{error}: argument '{name}'") from None
                PACK_ADDRESS(values, offset, address)
            else:
                try:
                    pack(values, offset, arg)
                except (struct.error, OverflowError, ValueError) as error:
                    wrong = f"kernel '{self._name}': argument '{name}' is {arg!r:.80}"
                    raise TypeError(f"{wrong}: {error}") from None

    def _check_count(self, args: Sequence[Any]) -> None:
        if len(args) != len(self._params):
            raise TypeError(
                f"kernel '{self._name}' takes {len(self._params)} arguments; got {len(args)}"
            )

    def _allocate(self, programs: int, stream: int) -> tuple[Any, int]:
        """Global scratch memory for a launch, and its address."""
        size = self._metadata.global_scratch_size * programs * self._metadata.num_ctas
        return allocate(size, self._metadata.global_scratch_align, stream)
