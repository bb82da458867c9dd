"""The part of GPUs as devices that backends have in common: devices and streams are torch's where
the program has imported torch for this kind of GPU."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from tritium.backends.base import DriverBase
from tritium.backends.timing import benchmark


class OwnGPUDriver(DriverBase):
    """A driver of GPUs that calls the vendor's library itself."""

    _raw_stream: Callable[[int], int] | None = None
    _torch_device: Callable[[], int] | None = None

    @staticmethod
    @abstractmethod
    def torch() -> Any:
        """torch, if the program uses its support of this kind of GPU, else None."""

    @abstractmethod
    def own_device(self) -> int:
        """The number of the device that is current without torch."""

    @abstractmethod
    def enter_device(self, device: int) -> None:
        """Make a device current without torch."""

    def make_launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        return self.launcher_cls(src, metadata, function)  # which it is bound to

    def get_current_device(self) -> int:
        """The number of the current device."""
        if self._torch_device is not None:
            return self._torch_device()
        torch = self.torch()
        if torch is None:
            return self.own_device()
        self._torch_device = torch.cuda.current_device
        return torch.cuda.current_device()

    def native_device(self) -> Callable[[], int]:
        """The function that native launches call for the current device."""
        torch = self.torch()
        return self.get_current_device if torch is None else torch._C._cuda_getDevice

    def set_current_device(self, device: int) -> None:
        """Work on another device from now on."""
        torch = self.torch()
        if torch is None:
            self.enter_device(device)
        else:
            torch.cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """The stream that launches go to: torch's current one, else the default stream 0."""
        raw = self._raw_stream
        if raw is None:
            torch = self.torch()
            if torch is None:
                return 0

            def slowly(index: int) -> int:
                return torch.cuda.current_stream(index).cuda_stream

            raw = self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", slowly)
        return raw(self.get_current_device() if device is None else device)

    def get_active_torch_device(self) -> Any:
        torch = sys.modules.get("torch")
        device = f"cuda:{self.get_current_device()}"  # torch's name of AMD's as well
        return device if torch is None else torch.device(device)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return partial(benchmark, self)

    def clear_cache(self, cache: Any) -> None:
        """Evict all data from the caches."""
        cache.zero_()
