"""Timing a callable on the active device."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tritium.backends.active import driver

RETURN_MODES = ("min", "max", "mean", "median", "all")


class _Clock:
    """Events and synchronization of the active device."""

    def __init__(self) -> None:
        self.device = driver.active
        self.interface: Any = self.device.get_device_interface()

    def event(self) -> Any:
        return self.interface.Event(enable_timing=True)

    def synchronize(self) -> None:
        self.interface.synchronize()

    def time(self, fn: Callable[[], object], calls: int) -> float:
        """Milliseconds that one of `calls` calls in a row takes."""
        start, end = self.event(), self.event()
        self.synchronize()
        start.record()
        for _ in range(calls):
            fn()
        end.record()
        self.synchronize()
        return start.elapsed_time(end) / calls


def quantile(values: Sequence[float], q: float) -> float:
    """The `q`-quantile (0 to 1) of `values`, interpolated linearly between neighbours."""
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q}: expected a number from 0 to 1")
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarize(
    times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str
) -> float | list[float]:
    """The result of `do_bench` for these times: quantiles if asked for, else by `return_mode`."""
    if quantiles is not None:
        found = [quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return list(times)
    if return_mode in ("min", "max"):
        return min(times) if return_mode == "min" else max(times)
    return statistics.fmean(times) if return_mode == "mean" else statistics.median(times)


def check_callable(name: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"{name}: fn is {fn!r}; a function without parameters is required")


def check_mode(return_mode: str) -> None:
    if return_mode not in RETURN_MODES:
        raise ValueError(f"return_mode is {return_mode!r}; expected one of {RETURN_MODES}")


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Time `fn` again and again, each time with a cold last-level cache.

    Args:
        fn: called without arguments.
        warmup: milliseconds of calls before the first that counts.
        rep: milliseconds of calls that count; at least one call does.
        grad_to_none: torch tensors whose `.grad` is dropped before each call.
        quantiles: return these quantiles of the times instead (one number for one quantile).
        return_mode: `min`, `max`, `mean`, `median`, or `all` for the list of times.

    Returns:
        Milliseconds.
    """
    check_mode(return_mode)
    check_callable("do_bench", fn)
    clock = _Clock()
    calls, cold = prepare(fn, warmup, rep, grad_to_none)
    spans = [(clock.event(), clock.event()) for _ in range(calls)]
    for start, end in spans:
        cold()
        start.record()
        fn()
        end.record()
    clock.synchronize()
    return summarize([start.elapsed_time(end) for start, end in spans], quantiles, return_mode)


def prepare(
    fn: Callable[[], object], warmup: float, rep: float, grad_to_none: Iterable[Any] | None
) -> tuple[int, Callable[[], None]]:
    """Warm up; returns how many calls of `fn` fill `rep` ms, and a function that drops gradients
    and clears the last-level cache."""
    clock = _Clock()
    gradients = list(grad_to_none or ())
    cache = clock.device.get_empty_cache_for_benchmark()

    def cold() -> None:
        for tensor in gradients:
            tensor.grad = None
        clock.device.clear_cache(cache)

    fn()
    estimate = clock.time(lambda: (clock.device.clear_cache(cache), fn()), 5)
    for _ in range(_calls(warmup, estimate)):
        fn()
    return _calls(rep, estimate), cold


def _calls(budget: float, each: float) -> int:
    """The number of calls of `each` ms that fill `budget` ms: at least one."""
    return max(1, int(budget / each)) if each > 0 else 1000


def do_bench_cudagraph(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Time `fn` without the cost of launching it: many calls captured in one CUDA graph.

    On a device without graphs (the CPU) as many calls are timed in a row instead. The cache stays
    warm. Arguments and result are those of `do_bench`; `rep` is the length of one measurement, of
    which there are ten.
    """
    check_mode(return_mode)
    check_callable("do_bench_cudagraph", fn)
    clock = _Clock()
    gradients = list(grad_to_none or ())
    for tensor in gradients:
        tensor.detach_().requires_grad_(True).grad = None
    fn()
    calls = _calls(rep, clock.time(fn, 5))

    def batch() -> None:
        for _ in range(calls):
            for tensor in gradients:
                tensor.grad = None
            fn()

    if not hasattr(clock.interface, "CUDAGraph"):
        times = [clock.time(batch, 1) / calls for _ in range(10)]
        return summarize(times, quantiles, return_mode)
    with clock.interface.stream(clock.interface.Stream()):
        graph = clock.interface.CUDAGraph()
        with clock.interface.graph(graph):
            batch()
        times = [clock.time(graph.replay, 1) / calls for _ in range(10)]
    return summarize(times, quantiles, return_mode)
