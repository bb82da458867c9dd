"""Linux's interfaces: affinity, sysfs, `/proc`, memory files, locks that end with their process."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

from tritium.system import linux_processor

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""The number of the futex system call, by the machine's name."""


class Linux:
    """Linux (see `System`)."""

    own_linker = forks = True

    def __init__(self) -> None:
        self.crash_reports = _machine() in ("x86_64", "aarch64")

    @staticmethod
    @functools.cache
    def here() -> Linux:
        """The interfaces, made once for the process."""
        return Linux()

    @property
    def threads(self) -> Literal["linux", "posix"]:
        """`linux` where the number of the futex system call is known, else `posix`."""
        return "linux" if _machine() in FUTEX else "posix"

    def native_functions(self) -> dict[str, int]:
        """An empty dictionary: native code finds all C functions by name."""
        return {}

    def usable_cpus(self) -> list[int]:
        """The CPUs of the process's affinity mask."""
        return sorted(os.sched_getaffinity(0))

    def processor_name(self) -> str:
        """The first CPU's model name in `/proc/cpuinfo`."""
        with suppress(OSError):
            lines = (x.partition(":") for x in _text("/proc/cpuinfo").splitlines())
            for key, _, value in lines:
                if key.strip() == "model name":
                    return value.strip()
        return _machine()

    def cache_sizes(self, lowest: int = 2) -> dict[int, int]:
        """The sizes of the first CPU's caches, from sysfs."""
        found: dict[int, int] = {}
        for index in range(8):
            folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
            try:
                level = int(_first_line(f"{folder}/level"))
                if level < lowest or (
                    level == 1 and _first_line(f"{folder}/type") == "Instruction"
                ):
                    continue
                text = _first_line(f"{folder}/size")
                unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
                found[level] = int(text[:-1] if unit else text) << unit
            except FileNotFoundError:
                break
            except (OSError, ValueError):
                continue
        return found

    def arm_features(self) -> list[str]:
        """The features that the kernel states."""
        return linux_processor.arm_features()

    def may_use_amx(self) -> bool:
        """Ask the kernel for permission, which child processes inherit."""
        return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0

    def free_memory(self) -> int | None:
        """The smaller of the system's free memory and the control group's."""
        found: list[int] = []
        with suppress(OSError, ValueError, IndexError):
            text = _text("/proc/meminfo")
            line = next((x for x in text.splitlines() if x.startswith("MemAvailable:")), "")
            found.append(int(line.split()[1]) << 10)
        files = (
            ("memory.max", "memory.current"),
            ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
        )
        for limit, used in files:
            with suppress(OSError, ValueError):  # "max", or another kind of control groups
                total = int(_text(f"/sys/fs/cgroup/{limit}"))
                found.append(max(total - int(_text(f"/sys/fs/cgroup/{used}")), 0))
        return min(found, default=None)

    def loaded_files(self) -> list[str]:
        """The paths in `/proc/self/maps`."""
        with suppress(OSError):
            lines = _text("/proc/self/maps").splitlines()
            return list(dict.fromkeys(x[x.index("/") :] for x in lines if "/" in x))
        return []

    @contextmanager
    def lock(self, directory: str) -> Generator[None]:
        """A lock of the directory itself, which the system frees if the process is killed."""
        import fcntl

        try:
            descriptor = os.open(directory, os.O_RDONLY)
        except OSError:
            yield
            return
        try:
            with suppress(OSError):  # not every network's file system has locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            # A child that another thread has forked meanwhile has the descriptor, too, and closing
            # it here alone would leave the lock with the child.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def write_in_memory(self, name: str, data: bytes) -> str:
        """A file in memory, which stays open."""
        descriptor = self.file_without_name(name)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        # The process is named so that a child process (an assembler) can read it too.
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def file_without_name(self, name: str) -> int:
        """A file in memory."""
        return os.memfd_create(name[:200])


def _machine() -> str:
    return os.uname().machine


def _text(path: str) -> str:
    # Not by `pathlib`, which takes longer to import than all else here.
    with open(path) as file:
        return file.read()


def _first_line(path: str) -> str:
    # Not by `open`: a text file costs more than all else in finding out about the caches.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 64).decode().strip()
    finally:
        os.close(descriptor)
