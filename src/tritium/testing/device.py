"""Peak rates of a device: the roofs of a roofline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tritium.backends.active import driver

#: Operations that the ordinary cores of one SM finish in a clock, for float32 and for 16-bit
#: floats, by compute capability: NVIDIA's published peaks over SMs and boost clock.
_SIMD_OPERATIONS: dict[tuple[int, int], tuple[int, int]] = {
    (7, 0): (128, 256),
    (7, 5): (128, 256),
    (8, 0): (128, 512),
    (8, 6): (256, 256),
    (8, 9): (256, 256),
    (9, 0): (256, 512),
}

#: The same for the tensor cores of one SM, dense float16, by the capability's first number.
_TENSOR_OPERATIONS: dict[int, int] = {7: 1024, 8: 2048, 9: 4096}


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Numbers that `nvidia-smi` reports for the first GPU, such as `clocks.sm` (MHz)."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}"]
    try:
        out = subprocess.check_output([*command, "--format=csv,noheader,nounits"], text=True)
    except FileNotFoundError:
        raise RuntimeError("nvidia-smi was not found: NVIDIA's driver is not installed") from None
    return [int(number) for number in out.strip().split("\n")[0].split(",")]


def _properties(device: int | None) -> tuple[dict[str, Any], tuple[int, int]]:
    """Properties and compute capability of a CUDA device; the current one for None."""
    active: Any = driver.active
    target = active.get_current_target()
    if target.backend != "cuda":
        raise NotImplementedError(f"roofline figures are known for cuda, not for {target.backend}")
    if device is None:
        device = active.get_current_device()
    major, minor = divmod(int(target.arch), 10)
    return active.utils.get_device_properties(device), (major, minor)


def get_dram_gbps(device: int | None = None) -> float:
    """The memory's bandwidth in GB/s: of a GPU, two transfers a clock over its bus; of the CPU,
    what copying large arrays on all threads reaches (bytes read and written)."""
    if driver.active.get_current_target().backend == "cpu":
        return _measured_bandwidth()
    properties, _ = _properties(device)
    return properties["mem_clock_rate"] * 1e3 * properties["mem_bus_width"] / 8 * 2 / 1e9


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """The dense peak of the tensor cores in TFLOP/s, at `clock_rate` kHz.

    float32 stands for tf32, at half the rate of 16-bit types; 8-bit types have twice that rate.
    """
    properties, capability = _properties(device)
    bits = _bits(dtype)
    allowed = (16,) if capability[0] < 8 else (8, 16, 32)
    if capability[0] not in _TENSOR_OPERATIONS or bits not in allowed:
        raise RuntimeError(f"no tensor-core figure for {dtype} on compute capability {capability}")
    per_clock = _TENSOR_OPERATIONS[capability[0]] * 16 / bits
    return properties["multiprocessor_count"] * clock_rate * 1e3 * per_clock / 1e12


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """The peak of the ordinary cores in TFLOP/s, at `clock_rate` kHz, for 16- and 32-bit types.

    On the CPU, for 32- and 64-bit types: two fused operations on vectors in each clock and core.
    """
    if driver.active.get_current_target().backend == "cpu":
        return _cpu_tflops(dtype, clock_rate)
    properties, capability = _properties(device)
    bits = _bits(dtype)
    if capability not in _SIMD_OPERATIONS or bits not in (16, 32):
        raise RuntimeError(f"no SIMD figure for {dtype} on compute capability {capability}")
    per_clock = _SIMD_OPERATIONS[capability][0 if bits == 32 else 1]
    return properties["multiprocessor_count"] * clock_rate * 1e3 * per_clock / 1e12


_COPY_BYTES = 128 << 20


def _measured_bandwidth() -> float:
    """GB/s that threads reach that copy arrays far larger than the caches; the best of five."""
    count: int = driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    targets, sources = (
        [np.ones(_COPY_BYTES // count, np.uint8) for _ in range(count)] for _ in range(2)
    )
    best = float("inf")
    with ThreadPoolExecutor(count) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.copyto, targets, sources))
            best = min(best, time.perf_counter() - start)
    return 2 * _COPY_BYTES / best / 1e9


def _cpu_tflops(dtype: Any, clock_rate: float) -> float:
    properties = driver.active.utils.get_device_properties(0)
    bits = _bits(dtype)
    if bits not in (32, 64):
        known = "there is one for 32 and 64 bits"
        raise RuntimeError(f"no SIMD figure for {dtype} on the CPU; {known}")
    per_clock = 2 * 2 * properties["vector_bits"] // bits
    return properties["multiprocessor_count"] * clock_rate * 1e3 * per_clock / 1e12


def _bits(dtype: Any) -> int:
    for attribute, unit in (("primitive_bitwidth", 1), ("itemsize", 8)):
        value = getattr(dtype, attribute, None)
        if value is not None:
            return int(value) * unit
    raise TypeError(f"{dtype!r} is not a dtype; expected one of tritium.language or torch")


def default_alloc_fn(size: int, align: int, _: Any) -> Any:
    """An allocator for `set_allocator`: torch's memory on the active device."""
    import torch  # a program that has no torch has no use for this

    return torch.empty(size, dtype=torch.int8, device=driver.active.get_active_torch_device())
