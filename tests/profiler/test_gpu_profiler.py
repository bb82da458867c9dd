"""The profiler on a GPU: kernels by CUPTI and by events, and records inside kernels."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
import tritium.profiler.language as pl

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch", reason="torch is not installed")
N, PROGRAMS = 1 << 16, 64


def costs(grid: Any, metadata: Any, arguments: Any) -> dict[str, Any]:
    return {"name": f"scaled_{arguments['n']}", "flops32": arguments["n"], "bytes": 8 * N}


@tritium.jit(launch_metadata=costs)
def scaled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("load"):
        v = tl.load(x + i, mask=i < n)
    with pl.scope("store"):
        tl.store(out + i, v * 2, mask=i < n)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield
    proton.finalize()
    with suppress(KeyError):  # most tests enable nothing
        pl.disable_semantic("triton")


def work() -> None:
    x = torch.ones(N, device="cuda")
    out = torch.zeros_like(x)
    with proton.scope("ours"):
        for _ in range(5):
            scaled[(PROGRAMS,)](x, out, N, BLOCK=N // PROGRAMS)
    with proton.scope("torch"):
        torch.mm(x.reshape(256, 256), out.reshape(256, 256))
    torch.cuda.synchronize()
    assert bool((out == 2).all())


def children(node: dict[str, Any]) -> dict[str, Any]:
    return {child["frame"]["name"]: child for child in node["children"]}


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    root, devices = json.loads(Path("out.hatchet").read_text())
    return children(root), devices


@pytest.mark.parametrize("backend", ["cupti", "events"])
def test_kernels(backend: str) -> None:
    if backend == "cupti":
        pytest.importorskip("cupti", reason="cupti-python is not installed")
    work()  # compiles
    proton.start("out", backend=backend, hook="triton")
    work()
    proton.finalize()
    top, devices = recorded()
    found = children(top["ours"])[f"scaled_{N}"]["metrics"]
    assert (found["count"], found["flops32"], found["bytes"]) == (5, 5 * N, 40 * N)
    assert 0 < found["time (ns)"] < 1e9 and found["device_type"] == "CUDA"
    assert int(devices["CUDA"]["0"]["num_sms"]) > 0
    if backend == "cupti":  # kernels that others launch, too
        assert sum(m["metrics"]["count"] for m in children(top["torch"]).values()) >= 1


def test_a_timeline_of_kernels() -> None:
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    work()
    proton.start("out", backend="cupti", data="trace")
    work()
    proton.finalize()
    events = json.loads(Path("out.chrome_trace").read_text())["traceEvents"]
    spans = [event for event in events if event.get("cat") == "kernel"]
    ours = [span for span in spans if "scaled" in span["name"]]
    assert len(ours) == 5 and len(spans) > 5
    ends = [span["ts"] + span["dur"] for span in ours]
    assert all(a <= b["ts"] for a, b in zip(ends, ours[1:], strict=False)), "one after the other"


def test_records_inside_kernels() -> None:
    pl.enable_semantic("triton")
    proton.start("out", backend="instrumentation")
    work()
    proton.finalize()
    top, _ = recorded()
    kernel = children(top["ours"])["scaled"]
    scopes = {name: child["metrics"] for name, child in children(kernel).items()}
    assert kernel["metrics"]["count"] == 5
    assert {name: m["scope_count"] for name, m in scopes.items()} == {
        "load": 5 * PROGRAMS, "store": 5 * PROGRAMS
    }  # fmt: skip
    assert all(m["scope_time (ns)"] >= 0 for m in scopes.values())


@pytest.mark.parametrize("whose", ["ours", "torch"])
def test_do_bench_proton_measures_kernels_alone(whose: str) -> None:
    if whose == "torch":
        pytest.importorskip("cupti", reason="cupti-python is not installed")
    x = torch.ones(1 << 24, device="cuda")
    out = torch.empty_like(x)

    def call() -> None:
        time.sleep(0.1)
        if whose == "torch":
            x.add_(1)
        else:
            scaled[(1 << 14,)](x, out, 1 << 24, BLOCK=1024)

    took = tritium.testing.do_bench_proton(call, warmup=1, rep=200)
    assert 0 < took < 100, "milliseconds of the kernel, which takes 0.1, without the host's wait"
