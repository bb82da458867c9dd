"""Cache keys of compilations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritium import knobs
from tritium.backends.base import BaseBackend
from tritium.fingerprint import compiler_key


def cache_invalidating_env_vars() -> dict[str, str]:
    """The environment variables that are set and change what is compiled."""
    return knobs.cache_invalidating_env()


def get_cache_key(
    src: Any, backend: BaseBackend, backend_options: Any, env_vars: Mapping[str, str]
) -> str:
    """The dependencies of compiling `src` with these options, as text."""
    return "-".join(
        [
            compiler_key(),
            src.hash(),
            backend.hash(),
            backend_options.hash(),
            str(sorted(env_vars.items())),
        ]
    )
