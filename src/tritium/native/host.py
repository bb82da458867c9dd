"""Processors in LLVM's terms: name, features, caches; and the one of this machine."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from tritium import knobs

# Used where the operating system does not tell (bytes): small figures, safe for blocking.
DEFAULT_L2, DEFAULT_L3 = 512 << 10, 4 << 20


@dataclass(frozen=True)
class CPU:
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
        """True if the processor has a feature."""
        return feature in self.features

    @property
    def vector_bits(self) -> int:
        """The widest vector register: 512, 256 or 128 bits."""
        return 512 if self.has("avx512f") else 256 if self.has("avx") else 128

    @property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.has("avx512f") or self.architecture == "aarch64" else 16

    @property
    def architecture(self) -> str:
        """The instruction set: `x86_64`, `aarch64`, or what else the triple begins with."""
        return architecture_of(self.triple)

    @property
    def key(self) -> str:
        """All of it that code depends on, as part of a cache's key."""
        return f"{self.triple}-{self.cpu}-{self.feature_string}-{self.l2}-{self.l3}"

    def runs_code_of(self, other: CPU) -> bool:
        """True if this processor, under its operating system, runs code compiled for another."""
        return self.triple == other.triple and set(other.features) <= set(self.features)


def architecture_of(name: str) -> str:
    """The instruction set that a triple, or `platform.machine()`, begins with, by LLVM's name."""
    first = name.lower().partition("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(first, first)


def is_macos(triple: str) -> bool:
    """True if code is for macOS."""
    return "darwin" in triple or "macos" in triple


@functools.cache
def host() -> CPU:
    """The processor this process runs on."""
    import llvmlite.binding as llvm  # which takes long, and the rest of this module does not need

    try:
        features: dict[str, bool] = dict(llvm.get_host_cpu_features())  # pyright: ignore
    except RuntimeError:  # LLVM cannot tell on this system: the name alone then implies some
        features = {}
    system = knobs.system()
    if architecture_of(platform.machine()) == "aarch64":
        features |= dict.fromkeys(system.arm_features(), True)
    if features.get("amx-tile") and not system.may_use_amx():
        features |= {name: False for name in features if name.startswith("amx-")}
    caches = system.cache_sizes()
    return CPU(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=tuple(sorted(name for name, has in features.items() if has)),
        feature_string=",".join(f"{'+' if has else '-'}{n}" for n, has in sorted(features.items())),
        l2=caches.get(2, DEFAULT_L2),
        l3=caches.get(3, DEFAULT_L3),
    )


def is_x86() -> bool:
    """True if the processor is a 64-bit x86."""
    return architecture_of(platform.machine()) == "x86_64"
