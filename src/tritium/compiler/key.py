"""What identifies a compilation in the caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritium import knobs
from tritium.backends.base import BaseBackend
from tritium.fingerprint import compiler_key

INVALIDATING = (
    "TRITON_OVERRIDE_ARCH", "DISABLE_LLVM_OPT", "MLIR_ENABLE_DUMP", "TRITON_DEFAULT_FP_FUSION",
    "TRITON_F32_DEFAULT", "DISABLE_MMA_V3", "DISABLE_PTXAS_OPT", "TRITON_ENABLE_ASAN",
    "TRITON_DISABLE_LINE_INFO", "USE_IR_LOC", "TRITON_OVERRIDE_PTX_VERSION", "NVPTX_ENABLE_DUMP",
    "LLVM_IR_ENABLE_DUMP", "AMDGCN_USE_BUFFER_OPS", "LLVM_PASS_PLUGIN_PATH", "MLIR_ENABLE_TIMING",
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_INSTRUMENTATION_MODE",
)  # fmt: skip
"""Environment variables that change what is compiled (or printed while compiling)."""


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
