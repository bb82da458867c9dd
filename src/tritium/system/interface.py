"""The interfaces of an operating system, as types."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

Threads = Literal["linux", "posix", "windows"]


class System(Protocol):
    """An operating system.

    Attributes:
        own_linker: whether `native/elf` loads objects; else LLVM's loader does.
        forks: whether a forked child of a process with threads can compile and launch.
        crash_reports: whether a kernel that accesses memory that is not its own is named.
    """

    own_linker: bool
    forks: bool
    crash_reports: bool

    @property
    def threads(self) -> Threads:
        """The functions for threads that native code calls: Linux's futexes and affinity, POSIX
        threads with condition variables, or the Windows API."""
        ...

    def native_functions(self) -> dict[str, int]:
        """The addresses of functions that native code calls and that a lookup by name in this
        process does not find."""
        ...

    def usable_cpus(self) -> list[int]:
        """The CPUs that this process may run on, ascending."""
        ...

    def processor_name(self) -> str:
        """The processor's name, for people."""
        ...

    def cache_sizes(self, lowest: int = 2) -> dict[int, int]:
        """Bytes of a CPU's caches for data by level from `lowest`, as far as they are known."""
        ...

    def arm_features(self) -> list[str]:
        """LLVM's names of what this AArch64 processor has."""
        ...

    def may_use_amx(self) -> bool:
        """True if the process may use AMX's registers from now on."""
        ...

    def free_memory(self) -> int | None:
        """Bytes of memory that this process can still have, if that is known."""
        ...

    def loaded_files(self) -> list[str]:
        """Paths of the files that are mapped into this process, libraries among them; none where
        the system does not tell."""
        ...

    def lock(self, directory: str) -> AbstractContextManager[None]:
        """Hold a directory's lock, which other processes wait for, where it can be locked."""
        ...

    def write_in_memory(self, name: str, data: bytes) -> str:
        """Write a file outside of any cache directory; the path at which this process and its
        children can read it while this process lives. Raises `OSError`."""
        ...

    def file_without_name(self, name: str) -> int:
        """The descriptor of a new, empty file, which lasts until all processes that have it close
        it or end; `name` is for people. Raises `OSError`."""
        ...
