"""Processors that code can be compiled for, by LLVM's names, with the features of each.

`GPUTarget("cpu", NAME, 1)` compiles for any of them on any machine. NAME is one of `NAMES`, alone
or followed by `:` and a target triple (`haswell:x86_64-pc-windows-msvc`). Alone it means this
machine's operating system, and for Apple's processors macOS.

The features are those that LLVM's `X86TargetParser.def` and `AArch64Processors.td` give, as far as
code generation asks for them; `tests/cpu/test_processors.py` holds the table against LLVM.
"""

from __future__ import annotations

import platform
import sys

from tritium.native.host import CPU, DEFAULT_L2, DEFAULT_L3, architecture_of, host

_X86 = "sse sse2"
_V2 = f"{_X86} cx16 popcnt sse3 ssse3 sse4.1 sse4.2"
_V3 = f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICE_LAKE = f"{_V4} avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq avx512vnni gfni"
_SAPPHIRE_RAPIDS = f"{_ICE_LAKE} avx512bf16 avx512fp16 avxvnni amx-tile amx-bf16 amx-int8"
_ALDER_LAKE = f"{_V3} avxvnni gfni"

_ARM = "neon"
_ARM_8_2 = f"{_ARM} lse fullfp16 dotprod"
_APPLE_M1 = f"{_ARM_8_2} fp16fml"
_APPLE_M2 = f"{_APPLE_M1} bf16 i8mm"

_FEATURES = {
    "x86-64": _X86, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4,
    "nehalem": _V2, "westmere": _V2, "sandybridge": f"{_V2} avx", "ivybridge": f"{_V2} avx f16c",
    "haswell": _V3, "broadwell": _V3, "skylake": _V3, "skylake-avx512": _V4,
    "cascadelake": f"{_V4} avx512vnni", "cooperlake": f"{_V4} avx512vnni avx512bf16",
    "icelake-client": _ICE_LAKE, "icelake-server": _ICE_LAKE, "rocketlake": _ICE_LAKE,
    "tigerlake": _ICE_LAKE, "sapphirerapids": _SAPPHIRE_RAPIDS,
    "emeraldrapids": _SAPPHIRE_RAPIDS, "graniterapids": f"{_SAPPHIRE_RAPIDS} amx-fp16",
    "alderlake": _ALDER_LAKE, "raptorlake": _ALDER_LAKE, "meteorlake": _ALDER_LAKE,
    "znver1": _V3, "znver2": _V3, "znver3": _V3, "znver4": f"{_ICE_LAKE} avx512bf16",
    "znver5": f"{_ICE_LAKE} avx512bf16 avxvnni",
}  # fmt: skip
_ARM_FEATURES = {
    "aarch64": _ARM, "cortex-a53": _ARM, "cortex-a57": _ARM, "cortex-a72": _ARM,
    "cortex-a76": _ARM_8_2, "neoverse-n1": _ARM_8_2,
    "neoverse-v1": f"{_ARM_8_2} fp16fml bf16 i8mm sve",
    "neoverse-n2": f"{_ARM_8_2} fp16fml bf16 i8mm sve sve2",
    "neoverse-v2": f"{_ARM_8_2} fp16fml bf16 i8mm sve sve2",
    "apple-m1": _APPLE_M1, "apple-m2": _APPLE_M2, "apple-m3": _APPLE_M2, "apple-m4": _APPLE_M2,
}  # fmt: skip

NAMES = (*_FEATURES, *_ARM_FEATURES)
"""The processors that can be named, but for the host's own."""
_TRIPLES = {"linux": "unknown-linux-gnu", "darwin": "apple-darwin", "win32": "pc-windows-msvc"}


def processor(name: str | int | None) -> CPU:
    """The processor that an `arch` of a target names.

    The host's is its LLVM name, `native`, `platform.machine()`, `""`, 0 or None: other programs,
    and other backends for CPUs, write all of these.

    Raises:
        ValueError: no such processor, or a triple that is not for it.
    """
    own = host()
    if name in (own.cpu, "native", platform.machine(), "", None, 0):
        return own
    cpu, _, triple = str(name).partition(":")
    found = {**_FEATURES, **_ARM_FEATURES}.get(cpu)
    if found is None and cpu != own.cpu:
        raise ValueError(
            f"GPUTarget('cpu', {name!r}): no processor {cpu!r} is known; there are 'native' (this "
            f"machine's, {own.cpu!r}), {', '.join(NAMES)}"
        )
    architecture = "aarch64" if cpu in _ARM_FEATURES else "x86_64"
    if found is None:
        architecture = own.architecture
    if triple and architecture_of(triple) != architecture:
        raise ValueError(
            f"GPUTarget('cpu', {name!r}): {cpu!r} is a processor of {architecture}, which the "
            f"triple {triple!r} is not for"
        )
    features = own.features if found is None else tuple(sorted(found.split()))
    known = "generic" if cpu == "aarch64" else cpu
    return CPU(
        triple=triple or _triple(cpu, architecture, own), cpu=known, features=features,
        feature_string="", l2=DEFAULT_L2, l3=DEFAULT_L3,
    )  # fmt: skip


def _triple(cpu: str, architecture: str, own: CPU) -> str:
    """The triple of a processor that comes without one."""
    if cpu.startswith("apple-"):
        return "arm64-apple-darwin"
    if architecture == own.architecture:
        return own.triple
    return f"{architecture}-{_TRIPLES.get(sys.platform, _TRIPLES['linux'])}"
