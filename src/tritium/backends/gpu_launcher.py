"""The part of launching a kernel that GPUs have in common; what is packed for the driver, and how
it is called, is a backend's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tritium.launch.allocation import allocate
from tritium.launch.packing import leaves, parameters
from tritium.sanitize.checked import Checked


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

    def _check_count(self, args: Sequence[Any]) -> None:
        if len(args) != len(self._params):
            raise TypeError(
                f"kernel '{self._name}' takes {len(self._params)} arguments; got {len(args)}"
            )

    def _unpackable(self, name: str, arg: Any, error: Exception) -> TypeError:
        return TypeError(f"kernel '{self._name}': argument '{name}' is {arg!r:.80}: {error}")

    def _allocate(self, programs: int, stream: int) -> tuple[Any, int]:
        """Global scratch memory for a launch, and its address."""
        size = self._metadata.global_scratch_size * programs * self._metadata.num_ctas
        return allocate(size, self._metadata.global_scratch_align, stream)
