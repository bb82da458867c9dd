"""The profiler's records as GPU code: the first thread of each program writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tritium
import tritium.profiler as proton
import tritium.profiler.language as pl
from tests.profiler.test_instrumentation import COUNTS, PROGRAMS, counts, run, steps
from tests.simt.backend import use
from tritium.backends.active import driver
from tritium.compiler import ASTSource
from tritium.target import GPUTarget


@pytest.fixture(params=[pytest.param(32, marks=pytest.mark.slow), 64], autouse=True)
def device(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = driver.active
    use(request.param)
    pl.enable_semantic("triton")
    yield
    proton.finalize()
    pl.disable_semantic("triton")
    driver.set_active(before)


def test_trees() -> None:
    found = run()
    assert counts(found) == COUNTS
    assert found["outer/steps"]["scope_count"] == PROGRAMS
    assert found["outer/steps"]["device_type"] == "SIMT"


def test_timelines_of_programs() -> None:
    events = [event for event in run(data="trace")["traceEvents"] if event["ph"] == "X"]
    rows = {e["tid"]: e["args"]["program"] for e in events if "program" in e["args"]}
    assert sorted(rows.values()) == [[i, 0, 0] for i in range(PROGRAMS)]
    (launch,) = (e for e in events if e["name"] == "steps" and "program" not in e["args"])
    first = min(e["ts"] for e in events if "program" in e["args"])
    assert first == pytest.approx(launch["ts"], abs=1e-2)


def test_machine_code_of_nvidia() -> None:
    kinds = {"x": "*fp32", "out": "*fp32", "n": "constexpr", "odd_only": "constexpr"}
    source = ASTSource(steps, kinds, {"n": 64, "odd_only": False})
    proton.start("out", backend="instrumentation")
    kernel = tritium.compile(source, target=GPUTarget("cuda", 90, 32))
    assert kernel.metadata.kernel_signature == ["*", "*", "i64", "i64"]
    labels = ["steps", "load", "inner", "callee", "step", "odd"]
    assert kernel.metadata.sanitizer["labels"] == labels
    assert kernel.asm["ptx"].count("%globaltimer") == 12
