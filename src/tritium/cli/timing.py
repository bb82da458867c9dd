"""Timing rivals fairly: interleaved, so that whatever disturbs the machine disturbs them all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds for one run: the median of `samples`, and the quartiles around it."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.samples) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high


Clock = Callable[[], float]


def time_once(
    run: Callable[[], object], calls: int = 1, clock: Clock = time.perf_counter
) -> float:
    """Seconds for one of `calls` calls in a row."""
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def calls_for(run: Callable[[], object], seconds: float) -> int:
    """The number of calls that take about `seconds`: at least one."""
    run()
    return max(1, round(seconds / max(time_once(run, 3), 1e-9)))


def interleave(
    runs: dict[str, Callable[[], object]], *, rounds: int, sample_seconds: float = 0.01,
    rest: float = 0.0, clock: Clock = time.perf_counter,
) -> Iterator[dict[str, float]]:  # fmt: skip
    """For each round, seconds for one run of each, measured one after the other.

    A sample of a short run is the mean of as many calls as fill `sample_seconds`. Each follows
    `rest` seconds in which nothing is done: threads of another library that have no work may keep a
    processor busy for a while (those of OpenBLAS for 0.1 to 0.2 s).
    """
    calls = {name: calls_for(run, sample_seconds) for name, run in runs.items()}
    for _ in range(rounds):
        sample: dict[str, float] = {}
        for name, run in runs.items():
            if rest:
                time.sleep(rest)
                run()  # our own threads sleep, too, by now
            sample[name] = time_once(run, calls[name], clock)
        yield sample


def compare(
    runs: dict[str, Callable[[], object]], *, rounds: int, sample_seconds: float = 0.01,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:  # fmt: skip
    """The timings of all, over all rounds."""
    rows = interleave(runs, rounds=rounds, sample_seconds=sample_seconds, clock=clock)
    samples = list(rows)
    return {name: Timing(tuple(sample[name] for sample in samples)) for name in runs}
