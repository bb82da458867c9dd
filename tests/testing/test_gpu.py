"""Helpers for measurements on GPUs, on machines without any."""

from __future__ import annotations

import gc
import sys
import types
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import profiler, testing
from tritium.profiler import registry


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []

    @contextmanager
    def graph(*args: Any, **kwargs: Any):
        seen.append((args, kwargs, gc.isenabled()))
        yield "graph"

    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(graph=graph))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return seen


def test_no_garbage_is_collected_during_a_capture(captures: list[Any]) -> None:
    with testing.cuda_graph_without_gc("g", pool=3) as graph:
        assert graph == "graph" and not gc.isenabled()
    assert gc.isenabled() and captures == [(("g",), {"pool": 3}, False)]
    with pytest.raises(KeyError), testing.cuda_graph_without_gc():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with testing.cuda_graph_without_gc():
            pass
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()


@tritium.jit
def store(x):
    tl.store(x, 1.0)


def test_times_of_the_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(4, np.float32)
    for bench in (testing.do_bench_proton, testing.do_bench_cudagraph_proton):
        with profiler.scope("around"):
            times = bench(lambda: store[(1,)](x), rep=1, return_mode="all")
        assert times and min(times) > 0
        assert bench(lambda: store[(1,)](x), rep=1, quantiles=[0.5]) > 0
    assert not registry.sessions and not list(Path.cwd().glob("do_bench*"))
    with pytest.raises(RuntimeError, match="do_bench_proton: fn launches no kernel"):
        testing.do_bench_proton(lambda: None, warmup=0, rep=0)
    with pytest.raises(TypeError, match="do_bench_proton: fn is 3"):
        testing.do_bench_proton(3)  # pyright: ignore
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    with pytest.raises(RuntimeError, match="is switched off"):
        testing.do_bench_proton(lambda: None, warmup=0, rep=0)
