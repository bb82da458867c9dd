"""Peak rates of devices, beside which measured ones are shown."""

from __future__ import annotations

from collections.abc import Callable

_RATED_H100_PCIE = 1513e12
"""fp8 operations a second, with 114 multiprocessors at 1755 MHz."""

flops_by_device: dict[str, dict[str, Callable[..., float]]] = {
    "CUDA": {
        "80": lambda width, **_: 624e12 * 8 / width,
        "89": lambda width, **_: 330.3e12 * 8 / width,
        "90": lambda width, num_sms, clock_rate, **_: (
            _RATED_H100_PCIE * num_sms / 114 * clock_rate / 1755e3 * 8 / width
        ),
        "100": lambda width, num_sms, clock_rate, **_: (
            16384 * num_sms * clock_rate * 1e3 * 8 / width
        ),
    }
}
"""By device type and architecture: operations a second of a width (bits), `num_sms`
multiprocessors and `clock_rate` (kHz)."""

amd_bps_by_arch = {"gfx90a": 3.2e12, "gfx942": 5.3e12, "gfx950": 8e12}
"""Bytes a second."""

amd_fp8_flops_by_arch = {"gfx90a": 1024, "gfx942": 4096, "gfx950": 8192}
"""Operations of 8 bits that a compute unit starts in a clock."""


def max_flops(device_type: str, arch: str, width: int, num_sms: int, clock_rate: float) -> float:
    """Operations of `width` bits a second; `clock_rate` in kHz. Raises `ValueError` for a device
    that is not known."""
    if device_type == "HIP" and arch in amd_fp8_flops_by_arch:
        return amd_fp8_flops_by_arch[arch] * num_sms * clock_rate * 1e3 * 8 / width
    rate = flops_by_device.get(device_type, {}).get(arch)
    if rate is None:
        raise ValueError(f"max_flops: nothing is known of the {device_type} device {arch}")
    return rate(width, num_sms=num_sms, clock_rate=clock_rate)


def max_bps(device_type: str, arch: str, bus_width: int, memory_clock_rate: float) -> float:
    """Bytes a second between a device and its memory; the bus's width in bits, the rate in kHz.
    Raises `ValueError` for a device that is not known."""
    if device_type == "CUDA":
        return 2 * bus_width * memory_clock_rate * 1e3 / 8
    if device_type != "HIP" or arch not in amd_bps_by_arch:
        raise ValueError(f"max_bps: nothing is known of the {device_type} device {arch}")
    return amd_bps_by_arch[arch]
