"""The interfaces of the operating system that Tritium uses: Linux's own, and a portable form.

`knobs.system()` is the one that this process uses: Linux's on Linux, unless `TRITIUM_PORTABLE=1`
asks for the portable one, which needs nothing but Python's standard library. What native code calls
for threads and sleeping is in `native/threads`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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

    def processor_flags(self) -> list[str]:
        """The names, by LLVM, of features of the processor that code may rely on, as far as the
        system tells."""
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


def system(portable: bool) -> System:
    """The interfaces to use here; with `portable`, the portable ones on Linux too."""
    if sys.platform.startswith("linux") and not portable:
        from tritium.system.linux import Linux

        return Linux.here()
    from tritium.system.portable import Portable

    return Portable.here()


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Have functions called around each fork of this process, where there are forks."""
    if hasattr(os, "register_at_fork"):
        given = {"before": before, "after_in_parent": after_in_parent,
                 "after_in_child": after_in_child}  # fmt: skip
        os.register_at_fork(**{name: call for name, call in given.items() if call is not None})
