"""`simt` as a device: kernels run on the `machine`, over the memory of this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.simt.backend import target
from tests.simt.machine import SHARED_BYTES, machine
from tritium.backends.base import DriverBase, grid_sizes
from tritium.backends.cpu.driver import CPUDriver, CPULauncher, CPUUtils
from tritium.launch.arguments import Param, extract_pointer
from tritium.launch.scalars import extract_scalar
from tritium.sanitize.launch import Checks
from tritium.sanitize.report import REPORT, run_checked
from tritium.sanitize.ring import PARAMETERS
from tritium.target import GPUTarget


class SimtUtils(CPUUtils):
    """The device queries of the runtime."""

    def __init__(self, lanes: int):
        self._lanes = lanes

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        found = super().get_device_properties(device)
        return {**found, "max_shared_mem": SHARED_BYTES, "warpSize": self._lanes}

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[Any, Any, int, int, int]:
        return None, kernel, 255, 0, 2048


class SimtLauncher(CPULauncher):
    """Launches one compiled kernel; arguments are read as for the CPU."""

    def __init__(self, src: Any, metadata: Any, function: bytes):
        self._kinds = list(src.signature.values())
        self._params: list[Param] = []
        self._nested, self._slot = True, 0
        for i, (name, kind) in enumerate(src.signature.items()):
            self._add(str(name), kind, (i,), src.constants, frozenset(metadata.written_args))
        data = getattr(metadata, "sanitizer", None) or {}
        self._labels = data.get("labels")
        if self._labels is not None:
            self._params += [Param(name, "i64") for name in PARAMETERS]
        elif data:
            self._slots = [i for i, param in enumerate(self._params) if param.type != "constexpr"]
            names = [self._params[i].name for i in self._slots]
            self._checks = Checks(data, names, metadata.name)
            self._params += [Param(name, "i64") for name in self._checks.parameters]
        lanes = metadata.target.warp_size
        # Warps are run in either order, so that both directions of a race are met.
        self._machine = machine(
            lanes, metadata.num_warps, metadata.num_ctas, last_warp_first=lanes == 64
        )  # fmt: skip
        self._image = self._machine.load(function)
        self._launch = self._run

    def native_end(self, link: Any) -> None:
        """Launches go through Python."""

    def _launch_checked(
        self, checks: Checks, grid: tuple[int, int, int], args: tuple[Any, ...]
    ) -> None:
        given = [args[i] for i in self._slots]
        record = np.zeros(1, REPORT)
        launch = lambda more: self._launch(*grid, *args, *more)  # noqa: E731
        run_checked(checks, given, grid, record.ctypes.data, launch)

    def _run(self, x: int, y: int, z: int, *args: Any) -> None:
        slots = [
            extract_pointer(arg, i, param.name, param.element, param.writes) if param.is_pointer
            else extract_scalar(arg, i, param.name, param.type)
            for i, (arg, param) in enumerate(zip(args, self._params, strict=True))
            if param.type != "constexpr"
        ]  # fmt: skip
        self._machine.run(self._image, slots, grid_sizes((x, y, z)))


class SimtDriver(CPUDriver):
    """Runs kernels with warps of `lanes`."""

    def __init__(self, lanes: int = 32) -> None:
        super().__init__()
        self._lanes = lanes
        self.utils = SimtUtils(lanes)
        self.launcher_cls = SimtLauncher

    @classmethod
    def is_active(cls) -> bool:
        return False  # only where it is asked for

    def get_current_target(self) -> GPUTarget:
        return target(self._lanes)

    def check_runs(self, metadata: Any) -> None:
        DriverBase.check_runs(self, metadata)
