"""AMD GPUs as devices."""

from __future__ import annotations

from typing import Any

from tritium.backends.base import DriverBase, c_type
from tritium.target import GPUTarget


class HIPDriver(DriverBase):
    """Launches on AMD GPUs are not built: kernels are only compiled."""

    @classmethod
    def is_active(cls) -> bool:
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        return c_type(ty, pointer="hipDeviceptr_t")

    def get_current_target(self) -> GPUTarget:
        raise NotImplementedError("launches on AMD GPUs")

    def get_active_torch_device(self) -> Any:
        raise NotImplementedError("launches on AMD GPUs")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError("launches on AMD GPUs")
