"""A processor's model as a device: kernels run over the memory of this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.amd.execution.backend import target
from tests.amd.execution.memory import extent
from tests.amd.execution.workgroup import Kernel
from tritium.backends.amd.processor import processor
from tritium.backends.base import DriverBase, grid_sizes
from tritium.backends.cpu.driver import CPUDriver, CPULauncher, CPUUtils
from tritium.launch.arguments import Param, extract_pointer
from tritium.launch.scalars import extract_scalar
from tritium.system.record_format import CAPACITY, SYMBOL, show
from tritium.target import GPUTarget


class ModelUtils(CPUUtils):
    """The device queries of the runtime."""

    def __init__(self, arch: str):
        self._arch = arch

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        facts = processor(self._arch)
        found = super().get_device_properties(device)
        return {**found, "max_shared_mem": facts.max_shared, "warpSize": facts.lanes}

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[Any, Any, int, int, int]:
        return None, kernel, 255, 0, 1024


class ModelLauncher(CPULauncher):
    """Launches one compiled kernel; arguments are read as for the CPU. Waves and programs run in
    either order, so that both directions of a race are met."""

    def __init__(self, src: Any, metadata: Any, function: bytes):
        self._kinds = list(src.signature.values())
        self._params: list[Param] = []
        self._nested, self._slot = True, 0
        for i, (name, kind) in enumerate(src.signature.items()):
            self._add(str(name), kind, (i,), src.constants, frozenset())
        lanes, arch = metadata.target.warp_size, metadata.target.arch
        self._formats = metadata.output
        self._kernel = Kernel(function.decode(), arch, lanes, metadata.num_warps,
                              metadata.shared, last_first=lanes == 64)  # fmt: skip
        self._launch = self._run

    def native_end(self, link: Any) -> None:
        """Launches go through Python."""

    def _run(self, x: int, y: int, z: int, *args: Any) -> None:
        slots, ranges = list[int](), list[tuple[int, int]]()
        for i, (arg, param) in enumerate(zip(args, self._params, strict=True)):
            if param.type == "constexpr":
                continue
            if param.is_pointer:
                slots.append(
                    extract_pointer(arg, i, param.name, param.element, param.writes)
                )
                ranges.append(extent(np.asarray(arg)))
            else:
                slots.append(extract_scalar(arg, i, param.name, param.type))
        output = self._output()
        ranges += [extent(output)] * bool(output.size)
        self._kernel(slots, grid_sizes((x, y, z)), ranges)
        if output.size:
            show(output.tobytes(), self._formats)

    def _output(self) -> np.ndarray:
        """The buffer of what the kernel prints, of which its module is told."""
        place = self._kernel.variables.get(SYMBOL)
        if place is None:
            return np.zeros(0, np.uint8)
        output = np.zeros(CAPACITY // 8, np.int64)
        place.view(np.uint64)[0] = output.ctypes.data
        return output


class ModelDriver(CPUDriver):
    """Runs kernels on a processor's model."""

    def __init__(self, arch: str = "gfx942") -> None:
        super().__init__()
        self.arch, self.utils, self.launcher_cls = arch, ModelUtils(arch), ModelLauncher

    @classmethod
    def is_active(cls) -> bool:
        return False  # only where it is asked for

    def get_current_target(self) -> GPUTarget:
        return target(self.arch)

    def check_runs(self, metadata: Any) -> None:
        DriverBase.check_runs(self, metadata)


