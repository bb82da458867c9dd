"""Interfaces that need Python's standard library alone: for macOS and Windows, and to test them."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

_LOCK = ".lock"
_ABANDONED = 30.0
"""Seconds after which a lock's file is taken to be of a process that was killed; to publish an
entry takes milliseconds."""
_REFUSED = 20
"""Attempts to make it that may be refused: on Windows one is, while the file is being removed."""
_SYSCTL = {1: ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
           2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"), 3: ("hw.l3cachesize",)}  # fmt: skip
"""macOS's names for the sizes of caches, by level."""


class Portable:
    """Any system with Python (see `System`)."""

    own_linker = forks = crash_reports = False

    def __init__(self) -> None:
        self._directory: str | None = None

    @staticmethod
    @functools.cache
    def here() -> Portable:
        """The process's."""
        return Portable()

    @property
    def threads(self) -> Literal["posix", "windows"]:
        """POSIX threads, but on Windows."""
        return "windows" if sys.platform == "win32" else "posix"

    def native_functions(self) -> dict[str, int]:
        """The C functions that our native code needs, on Windows, where a process has no table of
        all its symbols. (`_fltused` is for linkers alone: that code uses floating-point
        numbers.)"""
        return _windows_functions() if sys.platform == "win32" else {}

    def usable_cpus(self) -> list[int]:
        """All processors of the machine: a mask is not known."""
        return list(range(os.cpu_count() or 1))

    def processor_name(self) -> str:
        """The processor's name as Python's `platform` gives it."""
        return platform.processor() or platform.machine()

    def cache_sizes(self, lowest: int = 2) -> dict[int, int]:
        """The sizes that macOS tells; none elsewhere."""
        if sys.platform != "darwin":
            return {}
        found = {level: max(map(_sysctl, names)) for level, names in _SYSCTL.items()}
        return {level: size for level, size in found.items() if size > 0 and level >= lowest}

    def arm_features(self) -> list[str]:
        """The features of every processor of the architecture; LLVM adds those of this one."""
        return ["neon"]

    def may_use_amx(self) -> bool:
        """Always False: there is no known way to ask."""
        return False

    def free_memory(self) -> int | None:
        """None: the number of free bytes is not known."""
        return None

    def loaded_files(self) -> list[str]:
        """An empty list: the files are not known."""
        return []

    @contextmanager
    def lock(self, directory: str) -> Generator[None]:
        """Hold a lock: a file in the directory that only one process can make."""
        path = os.path.join(directory, _LOCK)
        held = _take(path)
        try:
            yield
        finally:
            if held:
                with suppress(OSError):
                    os.unlink(path)

    def write_in_memory(self, name: str, data: bytes) -> str:
        """A file in a temporary directory of the process."""
        del name
        self._directory = self._directory or tempfile.mkdtemp(prefix="tritium-")
        path = os.path.join(self._directory, uuid.uuid4().hex)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def file_without_name(self, name: str) -> int:
        """A temporary file whose name is taken away."""
        with tempfile.TemporaryFile(prefix=name[:200]) as file:
            return os.dup(file.fileno())


WINDOWS_FUNCTIONS = {
    "kernel32": (
        "CloseHandle", "CreateThread", "GetCurrentThreadId", "QueryPerformanceCounter",
        "QueryPerformanceFrequency", "Sleep", "SwitchToThread",
    ),
    "kernelbase": ("WaitOnAddress", "WakeByAddressAll"),
    "ntdll": ("__chkstk", "memcmp", "memcpy", "memmove", "memset"),
    "ucrtbase": ("_aligned_free", "_aligned_malloc", "calloc", "free"),
}  # fmt: skip
"""The functions of Windows that native code calls, by library."""
_FLOATS = ctypes.c_int32(1)


@functools.cache
def _windows_functions() -> dict[str, int]:
    found = {"_fltused": ctypes.addressof(_FLOATS)}
    for name, functions in WINDOWS_FUNCTIONS.items():
        library = ctypes.CDLL(name)
        for function in functions:
            found[function] = ctypes.cast(library[function], ctypes.c_void_p).value or 0
    return found


def _take(path: str) -> bool:
    """Make a lock's file, when nobody else has it; returns whether that was possible at all."""
    refused = 0
    while refused < _REFUSED:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except FileExistsError:
            with suppress(OSError):  # it has just been released
                if time.time() - os.stat(path).st_mtime > _ABANDONED:
                    os.unlink(path)
        except PermissionError:
            refused += 1
        except OSError:  # no such directory, or none that can be written
            return False
        time.sleep(0.002)
    return False


def _sysctl(name: str) -> int:
    """One of the numbers that macOS's kernel tells; 0 where it has no such name."""
    value, size = ctypes.c_int64(), ctypes.c_size_t(8)
    call = ctypes.CDLL(None).sysctlbyname
    failed = call(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else value.value
