"""Kernels and devices for tests of compiling and launching."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import tritium
import tritium.language as tl
from tritium.backends.cpu.driver import CPUDriver, CPUUtils


class Launch(NamedTuple):
    """Arguments with which a launcher was called."""

    grid: tuple[int, int, int]
    stream: Any
    metadata: Any
    args: tuple[Any, ...]


class StubUtils(CPUUtils):
    """Loads nothing."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> Any:
        return object(), object(), 11, 7, 64


class StubDriver(CPUDriver):
    """A driver for the CPU target whose launches are recorded in `launches`, not run.

    `device` is the current device; there may be any number of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.utils = StubUtils()
        self.launches: list[Launch] = []
        self.device = 0
        self.launcher_cls = self._launcher

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int = 0) -> int:
        return 100 + device

    def _launcher(self, src: Any, metadata: Any, function: Any) -> Any:
        def launch(
            gx: int, gy: int, gz: int, stream: Any, function: Any, packed: Any,
            launch_metadata: Any, enter: Any, exit_: Any, *args: Any,
        ) -> None:  # fmt: skip
            if enter is not None:
                enter(launch_metadata)
            self.launches.append(Launch((gx, gy, gz), stream, launch_metadata, args))
            if exit_ is not None:
                exit_(launch_metadata)

        return launch


@tritium.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


_numbers = itertools.count()


def module_from(source: str, folder: Path) -> ModuleType:
    """A module with this source, from a file of its own below `folder`."""
    name = f"generated_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
