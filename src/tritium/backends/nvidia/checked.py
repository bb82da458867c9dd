"""Memory for the sanitizer's checks on an NVIDIA GPU (`sanitize.checked.Device`)."""

from __future__ import annotations

from tritium.backends.nvidia.libcuda import check, library


def host_memory(size: int) -> int:
    """The address, for the device and for the host, of memory that lives as long as the process.
    The host can read it after a fault of the device, too."""
    driver = library()
    flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
    return int(check(driver.cuMemHostAlloc(size, flags)))


def moving_memory(size: int) -> int:
    """The address of memory that moves between the device and the host."""
    driver = library()
    everywhere = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    return int(check(driver.cuMemAllocManaged(size, everywhere)))


def free(address: int) -> None:
    """Free memory that moves."""
    library().cuMemFree(address)


def wait(stream: int) -> None:
    """Wait for what has been given to a stream."""
    driver = library()
    check(driver.cuStreamSynchronize(driver.CUstream(stream)))
