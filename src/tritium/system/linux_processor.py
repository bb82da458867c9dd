"""The processor's features as Linux tells them.

Bundles import this module when they start, and so it imports little.
"""

from __future__ import annotations

import ctypes
import os

_HWCAP = {1: "neon", 8: "lse", 10: "fullfp16", 20: "dotprod", 22: "sve", 23: "fp16fml"}
_HWCAP2 = {1: "sve2", 13: "i8mm", 14: "bf16"}
"""LLVM's names of features by the bits of the kernel's `asm/hwcap.h` for AArch64."""

FLAGS = {
    **{name: name for name in ("avx", "avx2", "bmi2", "f16c", "fma", "avx512f", "avx512bw",
                               "avx512cd", "avx512dq", "avx512vl", "popcnt")},
    "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni", "amx-tile": "amx_tile", "amx-bf16": "amx_bf16", "amx-int8": "amx_int8",
}  # fmt: skip
"""Flags of x86-64's `/proc/cpuinfo` by LLVM's names of the features."""


def flags() -> list[str]:
    """The flags of the first CPU in `/proc/cpuinfo` that `FLAGS` names, by LLVM's names; on
    AArch64 `arm_features`; none where the file cannot be read."""
    if os.uname().machine == "aarch64":
        return arm_features()
    try:
        with open("/proc/cpuinfo", "rb") as file:
            for line in file:
                if line.startswith(b"flags"):
                    words = line.decode().partition(":")[2].split()
                    return [name for name, flag in FLAGS.items() if flag in words]
    except OSError:
        pass
    return []


def arm_features() -> list[str]:
    """The features that the kernel states. LLVM reads `/proc/cpuinfo` instead, which containers
    and emulators of another processor show as their host's."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return [
        name
        for vector, names in ((16, _HWCAP), (26, _HWCAP2))
        for bit, name in names.items()
        if getauxval(vector) >> bit & 1
    ]
