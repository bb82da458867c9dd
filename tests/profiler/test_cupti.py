"""Kernels as CUPTI records them, by a module that stands for cupti-python's."""

from __future__ import annotations

import enum
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
from tritium.profiler import cupti
from tritium.profiler.recording import Recording
from tritium.profiler.timing import device_of


class Domain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class Driver(enum.IntEnum):
    cuLaunchKernel = 1
    cuMemAlloc = 2
    cuLaunchHostFunc = 3
    cuGraphLaunch = 4


class Runtime(enum.IntEnum):
    cudaLaunchKernel_v7000 = 1


class Fake:
    """The functions of `cupti.cupti` that the backend calls: a launch is a call of `launch`; the
    records come when they are flushed, complete once `incomplete` flushes have asked for them, or
    without times where a flush is forced before."""

    CallbackDomain, DriverApiTraceCbid, RuntimeApiTraceCbid = Domain, Driver, Runtime
    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10)
    ApiCallbackSite = SimpleNamespace(API_ENTER=0, API_EXIT=1)
    cuptiError = OSError

    def __init__(self, refuse: bool = False) -> None:
        self.refuse, self.incomplete = refuse, 0
        self.enabled: list[tuple[int, int]] = []
        self.kinds: set[int] = set()
        self.records: list[Any] = []
        self.number = 0

    def subscribe(self, callback: Any, userdata: Any) -> int:
        if self.refuse:
            raise OSError("MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
        self.callback = callback
        return 1

    def unsubscribe(self, subscriber: int) -> None:
        self.callback = None

    def enable_callback(self, enable: int, subscriber: int, domain: int, call: int) -> None:
        self.enabled.append((domain, call))

    def activity_register_callbacks(self, requested: Any, completed: Any) -> None:
        assert requested()[0] > 0
        self.completed = completed

    def activity_enable(self, kind: int) -> None:
        self.kinds.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.kinds.discard(kind)

    def activity_flush_all(self, flag: int) -> None:
        self.incomplete -= 1
        if self.incomplete >= 0 and not flag:
            return
        records, self.records = self.records, []
        if self.incomplete >= 0:
            for record in records:
                record.start = record.end = 0
        self.completed(records)

    def call(self, domain: Domain, call: int, number: int, inside: Callable[[], None]) -> None:
        """Call a function of CUDA that does `inside`, under a correlation id."""
        for site in (0, 1):
            data = SimpleNamespace(callback_site=site, correlation_id=number)
            self.callback(None, domain, call, data)
            if site == 0:
                inside()

    def launch(self, name: str, begin: int, end: int) -> None:
        self.number += 1
        if self.callback is None:
            return
        self.call(Domain.DRIVER_API, Driver.cuLaunchKernel, self.number, lambda: None)
        self.record(name, begin, end)

    def record(self, name: str, begin: int, end: int) -> None:
        record = SimpleNamespace(kind=10, correlation_id=self.number, name=name, start=begin,
                                 end=end, device_id=0, stream_id=7)  # fmt: skip
        self.records += [record, SimpleNamespace(kind=1)]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    cupti.tracing.cache_clear()
    made = Fake()
    monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(cupti=made))
    monkeypatch.setitem(sys.modules, "cupti.cupti", made)  # pyright: ignore
    yield made
    proton.finalize()
    cupti.tracing.cache_clear()


def costs(grid: Any, metadata: Any, arguments: Any) -> dict[str, Any]:
    return {"name": "described", "bytes": 12}


@tritium.jit(launch_metadata=costs)
def kernel(x):
    tl.store(x, 1.0)


def children(node: Any) -> dict[str, Any]:
    return {child["frame"]["name"]: child for child in node["children"]}


def test_kernels_are_recorded_where_they_were_launched(fake: Fake) -> None:
    session = proton.start("out", backend="cupti", hook="triton", data="trace")
    assert fake.enabled == [(1, 1), (1, 4), (2, 1)] and fake.kinds == {10}
    fake.launch("gemm", 100, 150)
    with proton.scope("torch"):
        fake.launch("gemm", 200, 230)
        fake.launch("gemm", 230, 250)
    proton.deactivate(session)
    assert not fake.kinds
    fake.launch("gemm", 300, 400)
    proton.activate(session)
    with proton.scope("late"):
        fake.launch("relu", 500, 501)
        root = proton.data.get(session)[0]
        fake.launch("relu", 600, 602)
    assert children(children(root)["late"])["relu"]["metrics"]["time (ns)"] == 1
    kept = list(cupti.tracing()._launches)
    assert kept == [fake.number], "a place is kept until its record comes"
    top = children(proton.data.get(session)[0])
    metrics = {name: children(top[name]) for name in ("torch", "late")}
    assert top["gemm"]["metrics"]["time (ns)"] == 50
    found = metrics["torch"]["gemm"]["metrics"]
    assert (found["count"], found["time (ns)"]) == (2, 50)
    found = metrics["late"]["relu"]["metrics"]
    assert (found["count"], found["time (ns)"]) == (2, 3)
    proton.finalize()
    events = json.loads(Path("out.chrome_trace").read_text())["traceEvents"]
    spans = [(e["name"], e["dur"]) for e in events if e.get("cat") == "kernel"]
    assert spans == [("gemm", 0.05), ("gemm", 0.03), ("gemm", 0.02), ("relu", 0.001),
                     ("relu", 0.002)]  # fmt: skip


def times(session: int | None, *path: str) -> dict[str, Any]:
    """The metrics of the kernels at a path by name, but for their device's."""
    node = proton.data.get(session)[0]
    for name in path:
        node = children(node)[name]
    return {name: {n: v for n, v in child["metrics"].items() if not n.startswith("device")}
            for name, child in children(node).items()}  # fmt: skip


def test_complete_records_are_waited_for(fake: Fake) -> None:
    session = proton.start("out", backend="cupti")
    fake.launch("gemm", 100, 150)
    fake.incomplete = 3
    assert times(session) == {"gemm": {"count": 1, "time (ns)": 50}}
    assert fake.incomplete < 0, "no flush was forced while records were incomplete"


def test_a_record_without_times(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "_PATIENCE", 0.01)
    session = proton.start("out", backend="cupti", data="trace")
    fake.launch("gemm", 100, 150)
    fake.incomplete = 1 << 30
    with pytest.warns(UserWarning, match="CUPTI has no time of 1 kernels"):
        assert times(session) == {"gemm": {"count": 1}}
    assert cupti.tracing().seen() == (
        "CUPTI told of 1 calls that launch kernels and had records of 1 kernels, 1 of them without "
        "times"
    )
    fake.incomplete = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proton.finalize(session)


def test_do_bench_says_what_cupti_saw(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "_PATIENCE", 0.01)
    monkeypatch.setitem(proton.start.__globals__, "_usual_backend", lambda: "cupti")

    def fn() -> None:
        if fake.kinds:
            fake.launch("gemm", 100, 150)

    def incomplete() -> None:
        fn()
        fake.incomplete = 1 << 30

    assert tritium.testing.do_bench_proton(fn, warmup=0, rep=0) == 50e-6
    with pytest.warns(UserWarning, match="no time"), pytest.raises(
        RuntimeError, match=r"sees: CUPTI told of 1 calls.* records of 1 kernels, 1 of them without"
    ):
        tritium.testing.do_bench_proton(incomplete, warmup=0, rep=0)


def test_a_call_of_the_run_time_and_the_drivers_in_it_are_one_launch(fake: Fake) -> None:
    session = proton.start("out", backend="cupti")
    for own_id in (0, 1):
        number = fake.number + 1
        fake.number = number + own_id

        def inside() -> None:
            fake.call(Domain.DRIVER_API, Driver.cuLaunchKernel, fake.number, lambda: None)

        with proton.scope(f"{own_id}"):
            fake.call(Domain.RUNTIME_API, Runtime.cudaLaunchKernel_v7000, number, inside)
        fake.record("add", 10, 15)
        assert times(session, f"{own_id}") == {"add": {"count": 1, "time (ns)": 5}}
        assert not cupti.tracing()._launches
    assert "told of 2 calls" in cupti.tracing().seen()


def test_records_of_a_graph_in_two_parts(fake: Fake) -> None:
    session = proton.start("out", backend="cupti")
    with proton.scope("graph"):
        fake.call(Domain.DRIVER_API, Driver.cuGraphLaunch, 0, lambda: None)
    fake.record("add", 10, 15)
    assert times(session, "graph") == {"add": {"count": 1, "time (ns)": 5}}
    fake.record("mul", 20, 27)
    assert times(session, "graph")["mul"] == {"count": 1, "time (ns)": 7}
    assert not cupti.tracing()._launches


def test_callbacks_that_another_profiler_has_replaced(fake: Fake) -> None:
    session = proton.start("out", backend="cupti")
    proton.deactivate(session)
    fake.activity_register_callbacks(lambda: (1, 0), lambda records: None)
    proton.activate(session)
    fake.launch("gemm", 100, 150)
    assert times(session) == {"gemm": {"count": 1, "time (ns)": 50}}


def test_described_launches(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    session = proton.start("out", backend="cupti", hook="triton")

    class During(proton.hooks.Hook):
        """Launches on the fake device while the kernel is launched."""

        priority = -1
        init_handle = activate = deactivate = exit = lambda *_: None  # type: ignore

        def enter(self, metadata: Any) -> None:
            fake.launch("kernel_0d1d", 10, 14)

    proton.start("other", hook=During())
    with proton.scope("s"):
        kernel[(1,)](np.zeros(1, np.float32))
    proton.finalize(session)
    root = json.loads(Path("out.hatchet").read_text())[0]
    _, device = device_of(Recording(False))
    assert children(children(root)["s"])["described"]["metrics"] == {
        "bytes": 12, "count": 1, "time (ns)": 4, **device
    }  # fmt: skip


def test_cupti_that_refuses(fake: Fake) -> None:
    fake.refuse = True
    with pytest.raises(RuntimeError, match=r"MULTIPLE_SUBSCRIBERS.*backend='events' needs neither"):
        proton.start("out", backend="cupti")
    assert proton.context.depth() is None
    fake.refuse = False
    assert proton.start("out", backend="cupti") is not None


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti.tracing.cache_clear()
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    with pytest.raises(RuntimeError, match="backend='cupti' needs the package cupti-python"):
        proton.start("out", backend="cupti")
    assert proton.start.__module__ and proton.context.depth() is None
