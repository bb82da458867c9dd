"""A GPU at a fixed clock, and tests under NVIDIA's memory checker."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from tritium import knobs
from tritium.testing.device import get_dram_gbps, get_max_tensorcore_tflops, nvsmi

F = TypeVar("F", bound=Callable[..., Any])
_TOLERANCE = 10
"""Megahertz by which a clock may differ from what was asked for."""
_CHECKED = "TRITIUM_UNDER_MEMCHECK"


@contextmanager
def set_gpu_clock(
    ref_sm_clock: int = 1350, ref_mem_clock: int = 1215
) -> Generator[tuple[float, float]]:
    """Fix the clocks of the first GPU (in MHz), which takes administrator's rights.

    Yields: (TFLOP/s of its tensor cores for 16-bit types at that clock, GB/s of its memory).

    Raises `RuntimeError` where the clocks cannot be set, or do not come to what was asked for; they
    are set free again in any case.
    """
    try:
        _nvidia_smi("--persistence-mode=1")
        _nvidia_smi(f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}")
        _nvidia_smi(f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}")
        sm, memory = nvsmi(["clocks.current.sm", "clocks.current.memory"])
        for name, have, want in (("SM", sm, ref_sm_clock), ("memory", memory, ref_mem_clock)):
            if abs(have - want) > _TOLERANCE:
                raise RuntimeError(f"GPU {name} clock is {have} MHz; {want} MHz were asked for")
        yield get_max_tensorcore_tflops(_HALF, sm * 1e3), get_dram_gbps()
    finally:
        for option in ("--persistence-mode=0", "--reset-gpu-clocks", "--reset-memory-clocks"):
            _nvidia_smi(option, check=False)


class _HALF:
    primitive_bitwidth = 16


def _nvidia_smi(option: str, check: bool = True) -> None:
    try:
        command = ["nvidia-smi", "-i", "0", option]
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("nvidia-smi was not found: NVIDIA's driver is not installed") from None
    if check and done.returncode:
        message = (done.stdout + done.stderr).strip()
        raise RuntimeError(f"nvidia-smi {option} failed: {message}")


def cuda_memcheck(**target_kwargs: Any) -> Callable[[F], F]:
    """Decorate a test function: run it once more under NVIDIA's memory checker.

    Args:
        target_kwargs: only calls with these arguments are checked (a test's parameters).

    The test must take the fixture `request`. Fails with the checker's output where that finds an
    error, and raises `RuntimeError` where no checker is installed.
    """

    def decorator(test: F) -> F:
        @functools.wraps(test)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            under_it = knobs.getenv(_CHECKED) is not None
            if under_it or not target_kwargs.items() <= kwargs.items():
                return test(*args, **kwargs)
            if "request" not in kwargs:
                raise TypeError(f"cuda_memcheck: {test.__name__} must take the fixture `request`")
            _run_checked(kwargs["request"].node)
            return None

        return wrapper  # pyright: ignore[reportReturnType]

    return decorator


def _run_checked(node: Any) -> None:
    tool = shutil.which("compute-sanitizer") or shutil.which("cuda-memcheck")
    if tool is None:
        raise RuntimeError(
            "cuda_memcheck needs compute-sanitizer on PATH; it comes with the CUDA toolkit"
        )
    name = f"{node.path}::{node.nodeid.split('::', 1)[1]}"
    # What the driver's functions refuse is raised by whoever calls them, or asked for on purpose:
    # cuda-bindings looks up functions that a driver may not have.
    command = [tool, "--report-api-errors", "no", sys.executable, "-m", "pytest", "-vs", name]
    env = knobs.child_environment(**{_CHECKED: "1", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    root = node.config.rootpath
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=root)
    assert done.returncode == 0 and "ERROR SUMMARY: 0 errors" in done.stdout, (
        f"{tool} found errors:\n{done.stdout}\n{done.stderr}"
    )
