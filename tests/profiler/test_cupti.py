"""Kernels as CUPTI records them, by a module that stands for cupti-python's."""

from __future__ import annotations

import enum
import json
import sys
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
    records come when they are flushed."""

    CallbackDomain, DriverApiTraceCbid, RuntimeApiTraceCbid = Domain, Driver, Runtime
    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10)
    ApiCallbackSite = SimpleNamespace(API_ENTER=0, API_EXIT=1)
    cuptiError = OSError

    def __init__(self, refuse: bool = False) -> None:
        self.refuse = refuse
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
        records, self.records = self.records, []
        self.completed(records)

    def launch(self, name: str, begin: int, end: int) -> None:
        self.number += 1
        if self.callback is None:
            return
        for site in (0, 1):
            data = SimpleNamespace(callback_site=site, correlation_id=self.number)
            self.callback(None, Domain.DRIVER_API, Driver.cuLaunchKernel, data)
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
    assert list(cupti.tracing()._places) == [fake.number], "a place is kept until its record comes"
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
