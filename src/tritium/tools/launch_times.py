"""Times of a program's launches, by kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from statistics import median
from typing import Any

from tritium import knobs
from tritium.profiler.timing import timed_event


class LaunchTimes:
    """Times the launches within `measuring`, by events of the active driver (on the CPU by the
    clock), kernel by kernel."""

    def __init__(self) -> None:
        self._hashes: dict[Any, str] = {}
        self._open: list[Any] = []
        self._launches: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)

    @contextmanager
    def measuring(self) -> Generator[None]:
        """Note the launches of a program that runs meanwhile."""
        hooks = ((knobs.runtime.kernel_load_end_hook, self._loaded),
                 (knobs.runtime.launch_enter_hook, self._enter),
                 (knobs.runtime.launch_exit_hook, self._exit))  # fmt: skip
        for chain, hook in hooks:
            assert isinstance(chain, knobs.HookChain)
            chain.add(hook)
        try:
            yield
        finally:
            for chain, hook in hooks:
                assert isinstance(chain, knobs.HookChain)
                chain.remove(hook)

    def of(self, hash: str) -> float | None:
        """The median of the launches of a kernel but the first, which finds cold caches and makes
        what launches share, in microseconds; None where there are none."""
        times = [self._between(*pair) for pair in self._launches[hash][1:]]
        return median(times) * 1e3 if times else None

    @staticmethod
    def _between(begin: Any, end: Any) -> float:
        end.synchronize()
        return begin.elapsed_time(end)

    def _loaded(self, module: Any, function: Any, name: str, group: Any, hash: str) -> None:
        self._hashes[function] = hash

    def _enter(self, metadata: Any) -> None:
        self._open.append(timed_event())

    def _exit(self, metadata: Any) -> None:
        end, begin = timed_event(), self._open.pop()
        hash = self._hashes.get(metadata.data["function"])
        if hash is not None:
            self._launches[hash].append((begin, end))
