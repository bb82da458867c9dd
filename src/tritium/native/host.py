"""Processors in LLVM's terms: name, features, caches; and the one of this machine."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Used where the operating system does not tell (bytes): small figures, safe for blocking.
DEFAULT_L2, DEFAULT_L3 = 512 << 10, 4 << 20


@dataclass(frozen=True)
class Processor:
    """A processor that code is compiled for.

    Attributes:
        triple: LLVM's target triple, the operating system's object format included.
        cpu: LLVM's name of it (`znver4`, `skylake-avx512`, `apple-m1`).
        features: what it has, by LLVM's names (`avx512f`, `neon`), sorted.
        feature_string: features it has and has not (`+avx2,-sse4a,...`), as LLVM takes them; empty
            where the name alone implies them.
        l2, l3: bytes of cache that one core reaches; `l3` may be shared.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    feature_string: str
    l2: int
    l3: int

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature."""
        return feature in self.features

    @property
    def vector_bits(self) -> int:
        """The widest vector register: 512, 256 or 128 bits."""
        return 512 if self.has("avx512f") else 256 if self.has("avx") else 128

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.has("avx512f") or self.architecture == "aarch64" else 16

    @property
    def architecture(self) -> str:
        """The instruction set: `x86_64`, `aarch64`, or what else the triple begins with."""
        return architecture_of(self.triple)

    @property
    def key(self) -> str:
        """All of it that code depends on, as part of a cache's key."""
        return f"{self.triple}-{self.cpu}-{self.feature_string}-{self.l2}-{self.l3}"

    def runs_code_of(self, other: Processor) -> bool:
        """Whether this processor, under its operating system, runs code compiled for another."""
        return self.triple == other.triple and set(other.features) <= set(self.features)


def architecture_of(name: str) -> str:
    """The instruction set that a triple, or `platform.machine()`, begins with, by LLVM's name."""
    first = name.lower().partition("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(first, first)


def _caches(cpu: int = 0) -> dict[int, int]:
    """Bytes of cache by level from the second, as far as Linux's sysfs tells."""
    found: dict[int, int] = {}
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        try:
            level = int(_first_line(f"{folder}/level"))
            if level == 1:  # the only one that instructions have to themselves
                continue
            text = _first_line(f"{folder}/size")
            unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
            found[level] = int(text[:-1] if unit else text) << unit
        except FileNotFoundError:
            break
        except (OSError, ValueError):
            continue
    return found


def _first_line(path: str) -> str:
    # Not by `open`: a text file costs more than all else in finding out about the caches.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 64).decode().strip()
    finally:
        os.close(descriptor)


_HWCAP = {1: "neon", 8: "lse", 10: "fullfp16", 20: "dotprod", 22: "sve", 23: "fp16fml"}
_HWCAP2 = {1: "sve2", 13: "i8mm", 14: "bf16"}
"""LLVM's names of features by the bits of the kernel's `asm/hwcap.h` for AArch64."""


def _arm_features() -> list[str]:
    """What Linux says that an AArch64 processor has. LLVM reads `/proc/cpuinfo` instead, which
    containers and emulators of another processor show as their host's."""
    if architecture_of(platform.machine()) != "aarch64":
        return []
    if not is_linux():
        return ["neon"]  # of every processor of the architecture
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return [
        name
        for vector, names in ((16, _HWCAP), (26, _HWCAP2))
        for bit, name in names.items()
        if getauxval(vector) >> bit & 1
    ]


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


def _may_use_amx() -> bool:
    """Ask Linux for AMX's registers, which a process has only from then on, its children too."""
    if not is_x86() or not is_linux():
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0


@functools.cache
def host() -> Processor:
    """The processor this process runs on."""
    import llvmlite.binding as llvm  # which takes long, and the rest of this module does not need

    try:
        features: dict[str, bool] = dict(llvm.get_host_cpu_features())  # pyright: ignore
    except RuntimeError:  # LLVM cannot tell on this system: the name alone then implies some
        features = {}
    features |= dict.fromkeys(_arm_features(), True)
    if features.get("amx-tile") and not _may_use_amx():
        features |= {name: False for name in features if name.startswith("amx-")}
    caches = _caches()
    return Processor(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=tuple(sorted(name for name, has in features.items() if has)),
        feature_string=",".join(f"{'+' if has else '-'}{n}" for n, has in sorted(features.items())),
        l2=caches.get(2, DEFAULT_L2),
        l3=caches.get(3, DEFAULT_L3),
    )


def is_x86() -> bool:
    """Whether the processor is a 64-bit x86."""
    return architecture_of(platform.machine()) == "x86_64"


def is_linux() -> bool:
    """Whether the operating system is Linux (futexes and CPU affinity exist)."""
    return sys.platform.startswith("linux")


def free_memory() -> int | None:
    """Bytes of memory that this process can still have: the system's, and its control group's."""
    found: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text()
        line = next((x for x in text.splitlines() if x.startswith("MemAvailable:")), "")
        found.append(int(line.split()[1]) << 10)
    files = (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    )
    for limit, used in files:
        with suppress(OSError, ValueError):  # "max", or another kind of control groups
            total = int(Path("/sys/fs/cgroup", limit).read_text())
            found.append(max(total - int(Path("/sys/fs/cgroup", used).read_text()), 0))
    return min(found, default=None)
