"""Helpers for measurements on GPUs, by torch and the profiler."""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from tritium import profiler
from tritium.backends.active import driver
from tritium.profiler.profile import discard, seen
from tritium.profiler.registry import scopes as around
from tritium.profiler.tree import TIME, Node
from tritium.testing.bench import check_callable, check_mode, prepare, summarize
from tritium.testing.cublas import CublasLt

_WORKSPACE = 32 * 1024 * 1024


@functools.cache
def _cublas_of(device: int) -> CublasLt:
    torch: Any = importlib.import_module("torch")
    return CublasLt(torch.empty(_WORKSPACE, device=f"cuda:{device}", dtype=torch.uint8))


def cublas() -> CublasLt:
    """cuBLAS on the current GPU: one object for each."""
    torch: Any = importlib.import_module("torch")
    return _cublas_of(torch.cuda.current_device())


@contextmanager
def cuda_graph_without_gc(*args: Any, **kwargs: Any) -> Generator[Any]:
    """`torch.cuda.graph(*args, **kwargs)` while Python collects no garbage: to free what holds
    memory or code of the device ends a capture with an error."""
    torch: Any = importlib.import_module("torch")
    enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(*args, **kwargs) as graph:
            yield graph
    finally:
        if enabled:
            gc.enable()


def do_bench_proton(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """`do_bench` by the profiler: of each call the time that its kernels took, without what
    launching them cost. Arguments and result are those of `do_bench`.

    Raises `RuntimeError` where `fn` launches no kernel, or the profiler is switched off.
    """
    return _by_profiler("do_bench_proton", fn, warmup, rep, grad_to_none, quantiles, return_mode)


def do_bench_cudagraph_proton(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """`do_bench_cudagraph` by the profiler. On a device without graphs (the CPU) the calls are made
    one by one. Raises `NotImplementedError` for CUDA graphs."""
    if hasattr(driver.active.get_device_interface(), "CUDAGraph"):
        raise NotImplementedError(
            "do_bench_cudagraph_proton: the profiler does not tell the kernels of a CUDA graph "
            "apart; use do_bench_cudagraph or do_bench_proton"
        )
    name = "do_bench_cudagraph_proton"
    return _by_profiler(name, fn, 0, rep, grad_to_none, quantiles, return_mode)


def _by_profiler(
    name: str, fn: Callable[[], object], warmup: float, rep: float,
    grad_to_none: Iterable[Any] | None, quantiles: Sequence[float] | None, return_mode: str,
) -> float | list[float]:  # fmt: skip
    check_mode(return_mode)
    check_callable(name, fn)
    calls, cold = prepare(fn, warmup, rep, grad_to_none)
    scopes = [f"{name} {i}" for i in range(calls)]
    session = profiler.start(name)
    if session is None:
        raise RuntimeError(f"{name}: the profiler is switched off, or `proton` runs the program")
    try:
        for scope in scopes:
            cold()
            with profiler.scope(scope):
                fn()
        tree = Node.from_json(profiler.data.get(session)[0]).at(around.get())
        said = seen(session)
    finally:
        discard(session)
    nodes = [tree.children[scope] for scope in scopes if scope in tree.children]
    times = [time for node in nodes if (time := node.total(TIME) / 1e6) > 0]
    if not times:
        raise RuntimeError(f"{name}: fn launches no kernel that the profiler sees: {said}")
    return summarize(times, quantiles, return_mode)
