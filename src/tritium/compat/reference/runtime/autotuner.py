"""The reference's path of autotuning."""

from tritium.backends.active import driver
from tritium.cache import get_cache_manager
from tritium.compiler.key import cache_invalidating_env_vars as get_cache_invalidating_env_vars
from tritium.errors import AutotunerError, OutOfResources, PTXASError
from tritium.fingerprint import compiler_key as triton_key
from tritium.runtime.autotuning.autotuner import Autotuner, autotune
from tritium.runtime.autotuning.configs import Config
from tritium.runtime.autotuning.heuristics import Heuristics, heuristics
from tritium.runtime.interface import KernelInterface
from tritium.runtime.jit import JITFunction

__all__ = [
    "Autotuner",
    "AutotunerError",
    "Config",
    "Heuristics",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "PTXASError",
    "autotune",
    "driver",
    "get_cache_invalidating_env_vars",
    "get_cache_manager",
    "heuristics",
    "triton_key",
]
