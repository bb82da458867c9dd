"""Timing configurations against each other, past those that hang, crash or clearly lose."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tritium.backends.active import driver
from tritium.runtime.children import Child, ChildError, available

QUANTILES = (0.5, 0.2, 0.8)
LOSES = 2.0
"""How many times as slow as the fastest a configuration must be for a short look to suffice."""
_LOOK = 5.0
"""Milliseconds of a short look."""
_LONG = 1.0
"""Seconds after which a trial is not repeated."""


def try_out(call: Callable[[], Any], limit: float) -> float | None:
    """Run `call` in a child process, where it harms nobody, if the device can be used there.

    Returns: milliseconds, or None if that is not known (there is no trying out, or it raised).

    Raises: `ChildTimeout` if it takes longer than `limit` seconds, `ChildCrash` if the child dies.
    """
    if not (getattr(driver.active, "shares_processors", False) and available()):
        return None
    child = Child(lambda: _time(call), limit)
    try:
        return child.wait()
    except ChildError:
        raise
    except Exception:
        return None  # who called will meet it, where hooks see it


def _time(call: Callable[[], Any]) -> float:
    _use_one_torch_thread()
    seconds = 0.0
    for _ in range(2):  # the first time touches memory that the child still shares
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        if seconds > _LONG:
            break
    return seconds * 1e3


def _use_one_torch_thread() -> None:
    """torch's threads do not exist in a forked child, and it would wait for them."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with suppress(RuntimeError):
            torch.set_num_threads(1)


def measure(
    bench: Callable[..., Any], call: Callable[[], Any], fastest: float, tried: float | None
) -> list[float]:
    """The median and the quantiles 0.2 and 0.8 of a call's time, in milliseconds.

    Args:
        bench: a driver's benchmarker.
        fastest: the best median so far; what takes `LOSES` times as long gets a short look only.
        tried: what trying it out took.
    """
    if tried is not None and tried > LOSES * fastest:
        return [tried] * 3
    if fastest < float("inf"):
        looks: list[list[float]] = []
        for _ in range(2):  # a second one, as the first may have been disturbed
            looks.append(list(bench(call, quantiles=QUANTILES, warmup=0, rep=_LOOK)))
            if looks[-1][1] <= LOSES * fastest:
                break
        else:
            return min(looks)
    return list(bench(call, quantiles=QUANTILES))
