"""Time that calls take on a GPU, by events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def benchmark(
    driver: Any, kernel_call: Callable[[], Any], *, quantiles: Sequence[float], warmup: float = 25,
    rep: float = 100, **others: Any,
) -> list[float]:  # fmt: skip
    """Quantiles of a call's time on the current device in milliseconds, the caches cold (see
    `Benchmarker`). `warmup`, `rep`: milliseconds of calls that do not count, and that do."""
    cache, interface = driver.get_empty_cache_for_benchmark(), driver.get_device_interface()

    def timed(count: int) -> list[float]:
        spans = [(interface.Event(enable_timing=True), interface.Event(enable_timing=True))
                 for _ in range(count)]  # fmt: skip
        for start, end in spans:
            cache.zero_()
            start.record()
            kernel_call()
            end.record()
        interface.synchronize()
        return [start.elapsed_time(end) for start, end in spans]

    kernel_call()
    interface.synchronize()
    estimate = max(sum(timed(5)) / 5, 1e-3)
    timed(max(1, int(warmup / estimate)))
    times = timed(max(1, int(rep / estimate)))
    return np.quantile(times, list(quantiles)).tolist()
