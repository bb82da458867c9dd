"""Timing configurations against each other, past those that hang, crash or clearly lose.

First each has a short look, when it is compiled. Once all have had one, those that are not clearly
behind have a second, and the best few are measured in turns, so that what disturbs a machine for
some time (other programs, a clock that rises) disturbs all of them alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from statistics import median
from typing import Any, TypeVar

from tritium.backends.active import driver
from tritium.runtime.workers.children import ChildError, ChildUnready, ForkWorker, available

QUANTILES = (0.5, 0.2, 0.8)
HOPELESS = 5.0
"""A trial that takes this multiple of the fastest look's time gets no look. (It ran beside other
work.)"""
BEHIND = 1.2
"""A configuration whose look takes this multiple of the fastest one gets no second look."""
CLOSE = 1.1
"""Configurations within this multiple of the fastest one are measured in turns."""
FINALISTS = 3
_LOOK = 5.0
"""Milliseconds of a short look."""
_TURN = 15.0
"""Milliseconds of a turn."""
_TURNS = 3
LENGTH = _TURN * _TURNS
"""Milliseconds, all in all, of what is measured well."""
_LONG = 1.0
"""Seconds after which a trial is not repeated."""

K = TypeVar("K", bound=Hashable)


class Trials:
    """Runs configurations in a child process first, where they harm nobody, if the device can be
    used there.

    Args:
        call: gives what to run for a number; called in the child with what `run` is given.
        limit: seconds that one may take.
    """

    def __init__(self, call: Callable[..., Callable[[], Any]], limit: float):
        self._call, self.limit = call, limit
        self._worker: ForkWorker | None = None

    def begin(self) -> None:
        """Start the child; it gets ready for launches, which takes a while in a new process."""
        possible = getattr(driver.active, "shares_processors", False) and available()
        if possible and self._worker is None:
            self._worker = ForkWorker(
                lambda *which: _time(self._call(*which)), self.limit, _prepare_to_launch
            )

    def run(self, *which: Any) -> float | None:
        """Milliseconds, or None if that is not known (there is no trying out, or it raised: who
        called will meet it, where hooks see it).

        Raises: `ChildTimeout` if it takes longer than the limit, `ChildCrash` if the child dies.
        """
        try:
            return self._asked(which)
        except ChildUnready:  # forked while another thread held a lock, of torch say
            return self._asked(which)

    def _asked(self, which: tuple[Any, ...]) -> float | None:
        self.begin()
        if self._worker is None:
            return None
        try:
            return self._worker.ask(*which)
        except ChildError:
            self.close()  # the next one gets another child
            raise
        except Exception:
            return None

    def close(self) -> None:
        """End the child."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _prepare_to_launch() -> None:
    from tritium.launch import native  # as `runtime.jit` does, after the first launch

    _use_one_torch_thread()
    native.load()
    driver.active.load_native()


def _time(call: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(2):  # the first time touches memory that the child still shares
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        if times[-1] > _LONG:
            break
    return min(times) * 1e3


def _use_one_torch_thread() -> None:
    """torch's threads do not exist in a forked child, and it would wait for them."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with suppress(RuntimeError):
            torch.set_num_threads(1)


def times_of(measured: Any) -> list[float]:
    """The times that a user's benchmark returned, as a list. Raises `TypeError` for what is
    no number."""
    several = hasattr(measured, "__len__") and getattr(measured, "ndim", 1) > 0
    try:
        times = [float(time) for time in measured] if several else [float(measured)] * 3
    except (TypeError, ValueError):
        times = []
    if not times or times[0] != times[0]:
        raise TypeError(
            f"autotune: do_bench returned {measured!r}; milliseconds, or a list of them, are "
            "required"
        )
    return times


def look(bench: Callable[..., Any], call: Callable[[], Any]) -> list[float]:
    """A first idea of a call's time: the median and the quantiles 0.2 and 0.8, in milliseconds.
    `bench` is a driver's benchmarker."""
    return list(bench(call, quantiles=QUANTILES, warmup=0, rep=_LOOK))


def race(
    looks: Mapping[K, list[float]], again: Callable[[K, float], list[float] | None]
) -> dict[K, list[float]]:
    """The median and the quantiles 0.2 and 0.8 of all; of the fastest, measured in turns.

    Args:
        looks: the first ones.
        again: measures one for a further number of milliseconds; None if it fails, which ends the
            race for it.
    """
    found = dict(looks)

    def ahead(ratio: float) -> list[K]:
        fastest = min((time[0] for time in found.values()), default=0.0)
        order = sorted(found, key=lambda one: found[one][0])
        return [one for one in order if found[one][0] <= ratio * fastest]

    def update(one: K, times: list[list[float] | None], of: Callable[[list[float]], float]) -> None:
        good = [time for time in times if time is not None]
        if len(good) < len(times):
            found[one] = [float("inf")] * 3
        else:
            found[one] = [of(list(values)) for values in zip(*good, strict=True)]

    def take_turns(ones: list[K]) -> None:
        times: dict[K, list[list[float] | None]] = {one: [] for one in ones}
        for turn in range(_TURNS):
            for one in ones:
                if turn == 0 or found[one][0] < _TURN:  # one that is long is in itself a mean
                    times[one].append(again(one, _TURN))
        for one in ones:
            update(one, times[one], median)

    contenders = ahead(BEHIND)
    if len(contenders) < 2:
        return found
    for one in contenders:
        if found[one][0] < _TURN:
            update(one, [found[one], again(one, _LOOK)], min)
    finalists = ahead(CLOSE)[:FINALISTS]
    take_turns(finalists)
    # One that had seemed slower than these looked may be the fastest now.
    while (best := ahead(1.0)[0]) not in finalists and found[best][0] < float("inf"):
        take_turns([best])
        finalists.append(best)
    return found
