"""Helpers for measurements on GPUs, on machines without any."""

from __future__ import annotations

import gc
import sys
import types
from contextlib import contextmanager
from typing import Any

import pytest

from tritium import testing


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


def test_times_of_the_profiler_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="do_bench_proton takes its times from"):
        testing.do_bench_proton(lambda: None)
    with pytest.raises(NotImplementedError, match="use do_bench_cudagraph"):
        testing.do_bench_cudagraph_proton(lambda: None, rep=3)
