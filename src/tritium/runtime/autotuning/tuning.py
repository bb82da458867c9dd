"""One tuning: configurations are compiled side by side, tried out, and measured one at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from typing import Any

from tritium.backends.active import driver
from tritium.runtime.autotuning.configs import Config
from tritium.runtime.autotuning.measuring import HOPELESS, QUANTILES, Trials, look, race
from tritium.runtime.workers.compile_ahead import Ahead, NoWorkers, Outcome, Workers, workers_for

Timings = dict[Config, list[float]]


class Tuning:
    """The state of the configurations during autotuning. A context manager: on leaving
    it, what still compiles is stopped.

    Args:
        ahead: the configurations and what has to be compiled for them.
        call: gives what is measured of a configuration.
        bench: the driver's benchmarker.
        limit: seconds that one configuration may take to compile, or to be tried out.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        ahead: Ahead,
        call: Callable[[Config], Callable[[], None]],
        bench: Callable[..., Any],
        limit: float,
    ):
        self.configs, self.ahead, self.call, self.bench = list(configs), ahead, call, bench
        self.limit = limit
        self.contenders: dict[Config, Callable[[], None]] = {}
        self._kernels: dict[Config, list[Mapping[str, str]]] = {}
        self._workers: Workers | None = None
        self._trials = Trials(self._trial, limit)
        self._fastest = float("inf")

    def __enter__(self) -> Tuning:
        return self

    def __exit__(self, *_: object) -> None:
        self._trials.close()
        self._stop()

    def _stop(self) -> None:
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def compiled(self, executor: Executor | None) -> Iterator[Outcome]:
        """The configurations, each when it is compiled."""
        self._workers = workers_for(executor, self.limit)
        if not isinstance(self._workers, NoWorkers):
            self._trials.begin()  # it gets ready while the compiler is imported
        for outcome in self.ahead.compile(self._workers):
            self._kernels[outcome.item] = outcome.kernels
            yield outcome
        self._stop()

    def _trial(self, number: int, kernels: list[Mapping[str, str]]) -> Callable[[], None]:
        """Tasks of a child process: what to try out."""
        self.ahead.adopt(self.configs[number], kernels)
        return self.call(self.configs[number])

    def try_out(self, config: Config) -> float | None:
        """Run a configuration where it harms nobody; see `Trials.run`."""
        return self._trials.run(self.configs.index(config), self._kernels.get(config, []))

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Suspend compilation during a measurement on a device that also compiles."""
        shared = self._workers is not None and getattr(driver.active, "shares_processors", False)
        with self._workers.paused() if self._workers and shared else nullcontext():
            yield

    def look(self, config: Config, tried: float | None) -> list[float]:
        """A short look at a configuration: its quantiles (`QUANTILES`), in milliseconds.
        `tried` is what trying it out took."""
        if tried is not None and tried > HOPELESS * self._fastest:
            return [tried] * 3
        self.contenders[config] = call = self.call(config)
        timing = look(self.bench, call)
        self._fastest = min(self._fastest, timing[0])
        return timing

    def longer(self, config: Config, milliseconds: float) -> list[float]:
        """A longer one."""
        call = self.contenders[config]
        return list(self.bench(call, quantiles=QUANTILES, warmup=0, rep=milliseconds))

    def race(self, looks: Timings, again: Callable[[Config, float], list[float] | None]) -> Timings:
        """The timings of all that have been looked at; see `measuring.race`."""
        return {**looks, **race({c: looks[c] for c in self.contenders}, again)}
