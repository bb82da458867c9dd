"""What identifies a compilation in the caches."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from typing import Any

from tritium import knobs
from tritium.backends.base import BaseBackend
from tritium.version import __version__

_NOT_THE_COMPILER = frozenset({"__pycache__", "cli", "compat", "testing", "tools"})

INVALIDATING = (
    "TRITON_OVERRIDE_ARCH", "DISABLE_LLVM_OPT", "MLIR_ENABLE_DUMP", "TRITON_DEFAULT_FP_FUSION",
    "TRITON_F32_DEFAULT", "DISABLE_MMA_V3", "DISABLE_PTXAS_OPT", "TRITON_ENABLE_ASAN",
    "TRITON_DISABLE_LINE_INFO", "USE_IR_LOC", "TRITON_OVERRIDE_PTX_VERSION", "NVPTX_ENABLE_DUMP",
    "LLVM_IR_ENABLE_DUMP", "AMDGCN_USE_BUFFER_OPS", "LLVM_PASS_PLUGIN_PATH", "MLIR_ENABLE_TIMING",
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_INSTRUMENTATION_MODE",
)  # fmt: skip
"""Environment variables that change what is compiled (or printed while compiling)."""


@functools.cache
def compiler_key() -> str:
    """A digest of the compiler itself."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return hashlib.sha256(f"{__version__} {state_of(package)}".encode()).hexdigest()


def state_of(package: str) -> str:
    """What changes when the package in this folder does.

    An installed package is what its installer recorded: its files are not to be edited. In a
    checkout, where they are, each file counts, by its time of change.
    """
    name = f"{os.path.basename(package)}-{__version__}.dist-info"
    record = os.path.join(os.path.dirname(package), name, "RECORD")
    try:
        return f"{record} {os.stat(record).st_mtime_ns}"
    except OSError:
        return _state_of_files(package)


def _state_of_files(package: str) -> str:
    names: list[str] = []
    pending = [package]
    while pending:
        folder = pending.pop()
        for name in os.listdir(folder):
            if name.endswith(".py"):
                names.append(f"{folder}/{name}")
            elif "." not in name and name not in _NOT_THE_COMPILER:
                pending.append(f"{folder}/{name}")
    names.sort()
    return f"{names} {[os.stat(name).st_mtime_ns for name in names]}"


def cache_invalidating_env_vars() -> dict[str, str]:
    """The environment variables of `INVALIDATING` that are set."""
    found = ((name, knobs.getenv(name)) for name in INVALIDATING)
    return {name: value for name, value in found if value is not None}


def get_cache_key(
    src: Any, backend: BaseBackend, backend_options: Any, env_vars: Mapping[str, str]
) -> str:
    """What the compilation of `src` with these options depends on, as text."""
    return "-".join(
        [
            compiler_key(),
            src.hash(),
            backend.hash(),
            backend_options.hash(),
            str(sorted(env_vars.items())),
        ]
    )
