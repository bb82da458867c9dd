"""Peak rates of devices, beside which measured ones are shown."""

from __future__ import annotations

from collections.abc import Callable


def _fixed(rate: float) -> Callable[..., float]:
    """`rate` operations of 8 bits a second, whatever the device."""

    def flops(width: int, num_sms: int = 0, clock_rate: float = 0) -> float:
        return rate * 8 / width

    return flops


def _each_clock(operations: float) -> Callable[..., float]:
    """`operations` of 8 bits for each multiprocessor and clock."""

    def flops(width: int, num_sms: int, clock_rate: float) -> float:
        return operations * num_sms * clock_rate * 1e3 * 8 / width

    return flops


flops_by_device: dict[str, dict[str, Callable[..., float]]] = {
    "CUDA": {
        "80": _fixed(624e12),
        "89": _fixed(330.3e12),
        "90": _each_clock(1513e12 / 114 / 1755e6),  # as an H100 with PCIe is rated
        "100": _each_clock(16384),
    }
}
"""Operations a second of a width (bits) of `num_sms` multiprocessors at `clock_rate` (kHz), by
device type and architecture."""

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
