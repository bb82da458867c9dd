"""Measured times of configurations, kept in the cache for other processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tritium import cache
from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.compiler.key import cache_invalidating_env_vars, compiler_key
from tritium.runtime.autotuning.configs import OPTIONS, Config


class StoredTimings:
    """The times of a kernel's configurations for one tuning key, on disk.

    Args:
        base_fn: the kernel.
        key: what the choice depends on.
        configs: the configurations to choose from.
    """

    def __init__(self, base_fn: Any, key: tuple[Any, ...], configs: Sequence[Config]):
        parts = [
            compiler_key(),
            make_backend(driver.active.get_current_target()).hash(),
            base_fn.cache_key,
            str(sorted(cache_invalidating_env_vars().items())),
            str(key),
            *(f"{config}, ir_override: {config.ir_override}" for config in configs),
        ]
        self._key, self._configs = key, configs
        self._entry = hashlib.sha256("-".join(parts).encode()).hexdigest()
        self._filename = f"{base_fn.__name__[:150]}.autotune.json"

    def load(self) -> dict[Config, Any] | None:
        """Milliseconds (median and quantiles) by configuration, or None."""
        group = cache.find(self._entry, self._filename)
        if group is None or self._filename not in group:
            return None
        stored = json.loads(Path(group[self._filename]).read_text(encoding="utf-8"))
        # By their places: a dtype or a function among their values is only shown in the file.
        return {self._configs[place]: timing for place, timing in stored["timings"]}

    def save(self, timings: Mapping[Config, Any]) -> None:
        """Store the times."""
        fields = ("kwargs", *OPTIONS)
        data = {
            "key": [str(k) for k in self._key],
            "configs_timings": [
                ({name: getattr(config, name) for name in fields}, timing)
                for config, timing in timings.items()
            ],
            "timings": [
                (self._configs.index(config), timing) for config, timing in timings.items()
            ],
        }
        text = json.dumps(data, default=str)
        cache.publish(self._entry, self._filename, {self._filename: text}, replace=True)
