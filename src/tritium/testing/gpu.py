"""Helpers for measurements on GPUs, by torch and the profiler."""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

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


def _needs_profiler(name: str, instead: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name} takes its times from the profiler's records of kernels on the GPU, which are not "
        f"built; use {instead}"
    )


def do_bench_proton(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """`do_bench` by the profiler. Raises `NotImplementedError`."""
    raise _needs_profiler("do_bench_proton", "do_bench")


def do_bench_cudagraph_proton(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """`do_bench_cudagraph` by the profiler. Raises `NotImplementedError`."""
    raise _needs_profiler("do_bench_cudagraph_proton", "do_bench_cudagraph")
