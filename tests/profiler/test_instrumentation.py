"""Records inside kernels, natively and in the interpreter."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
import tritium.profiler.language as pl
from tritium import knobs
from tritium.errors import TritonError
from tritium.profiler import viewer
from tritium.profiler.hooks import InstrumentationHook
from tritium.sanitize import ring

PROGRAMS, STEPS, N = 6, 3, 64


@tritium.jit(noinline=True)
def scale(v):
    with pl.scope("callee"):
        return_value = v * 2
    return return_value


@tritium.jit
def steps(x, out, n: tl.constexpr, odd_only: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * n + tl.arange(0, n)
    with pl.scope("load"):
        v = tl.load(x + i)
        with pl.scope("inner"):
            v = scale(v)
    for k in range(3):
        pl.enter_scope("step")
        v = v + k
        pl.exit_scope("step")
    if pid % 2 == 1:
        event = pl.allocate_event("odd")
        pl.start_event(event)
        tl.store(out + i, v)
        pl.end_event(event)
    else:
        if not odd_only:
            tl.store(out + i, v)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    pl.enable_semantic("triton")
    yield
    proton.finalize()
    pl.disable_semantic("triton")
    assert not knobs.compilation.instrumentation_mode and not ring.listeners
    assert not proton.flags.flags.instrumentation_on


def children(node: dict[str, Any]) -> dict[str, Any]:
    return {child["frame"]["name"]: child for child in node["children"]}


def run(**options: Any) -> dict[str, Any]:
    """The nodes by path of one launch."""
    x, out = np.arange(PROGRAMS * N, dtype=np.float32), np.zeros(PROGRAMS * N, np.float32)
    session = proton.start("out", backend="instrumentation", **options)
    with proton.scope("outer"):
        steps[(PROGRAMS,)](x, out, N, False)
    proton.finalize(session)
    np.testing.assert_array_equal(out, 2 * x + 3)
    if options.get("data") == "trace":
        return json.loads(Path("out.chrome_trace").read_text())
    root = json.loads(Path("out.hatchet").read_text())[0]
    found: dict[str, Any] = {}

    def walk(node: Any, path: str) -> None:
        for name, child in children(node).items():
            found[f"{path}{name}"] = child["metrics"]
            walk(child, f"{path}{name}/")

    walk(root, "")
    return found


COUNTS = {"load": PROGRAMS, "load/inner": PROGRAMS, "load/inner/callee": PROGRAMS,
          "step": 3 * PROGRAMS, "odd": PROGRAMS // 2}  # fmt: skip


def counts(found: dict[str, Any]) -> dict[str, int]:
    below = "outer/steps/"
    return {path.removeprefix(below): metrics["scope_count"]
            for path, metrics in found.items() if path.startswith(below)}  # fmt: skip


def test_native_records() -> None:
    found = run()
    assert counts(found) == COUNTS
    kernel = found["outer/steps"]
    assert kernel["count"] == 1 and kernel["scope_count"] == PROGRAMS
    times = {path: m["scope_time (ns)"] for path, m in found.items() if path != "outer"}
    assert all(time >= 0 for time in times.values())
    top = sum(times[f"outer/steps/{n}"] for n in ("load", "step", "odd"))
    assert top <= times["outer/steps"]
    assert times["outer/steps/load/inner"] <= times["outer/steps/load"]
    assert times["outer/steps"] <= kernel["time (ns)"] * knobs.runtime.cpu_threads
    tree, _ = viewer.parse(["avg_scope_time/ns", "scope_count"], "out.hatchet")
    shown = {frame.name: frame.values for frame in tree.walk()}
    average = times["outer/steps/step"] / (3 * PROGRAMS)
    assert shown["step"] == pytest.approx([average, 3 * PROGRAMS])
    assert math.isnan(shown["outer"][0])


def test_records_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for function in (steps, scale):
        monkeypatch.setitem(globals(), function.fn.__name__, tritium.jit(function.fn))
    assert counts(run()) == COUNTS


def test_timelines_of_threads() -> None:
    events = run(data="trace")["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    programs = {tuple(e["args"]["program"]): e for e in spans
                if e["name"] == "steps" and "program" in e["args"]}  # fmt: skip
    assert set(programs) == {(i, 0, 0) for i in range(PROGRAMS)}
    for event in spans:
        if event["name"] in ("load", "step", "odd"):
            around = programs[tuple(event["args"]["program"])]
            assert event["tid"] == around["tid"] and event["ts"] >= around["ts"]
            assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 1e-3
    (launch,) = (e for e in spans if e["name"] == "steps" and "program" not in e["args"])
    assert all(e["ts"] >= launch["ts"] for e in programs.values())


def test_the_last_records_stay() -> None:
    lost = 2 * (PROGRAMS + sum(COUNTS.values())) - 16
    with pytest.warns(UserWarning, match=f"lost the first {lost} records of a launch of steps"):
        found = run(mode="default:buffer_size=543")  # 16 records
    assert sum(counts(found).values()) + found["outer/steps"]["scope_count"] <= 8


def test_uninstrumented_kernels_have_no_records() -> None:
    x = np.zeros(PROGRAMS * N, np.float32)
    texts = []
    for _ in range(2):  # instrumented launches come between those of the same kernel
        kernel = steps[(PROGRAMS,)](x, x, N, False)
        texts.append(kernel.asm["ttir"])
        assert counts(run()) == COUNTS
    assert texts[0] == texts[1] and "proton.record" not in texts[0]


def test_an_instrumented_kernel_without_a_session() -> None:
    x = np.zeros(PROGRAMS * N, np.float32)
    with pytest.raises(RuntimeError, match=r"'steps' records its scopes .* but no session of the"):
        steps[(PROGRAMS,)](x, x, N, False, instrumentation_mode="default:granularity=cta")


def test_kernels_that_record_nothing() -> None:
    pl.disable_semantic("triton")
    x = np.zeros(PROGRAMS * N, np.float32)
    session = proton.start("out", backend="instrumentation")
    with pytest.raises(TritonError, match=r"'load' in a kernel of triton, which records nothing"):
        tritium.jit(steps.fn)[(PROGRAMS,)](x, x, N, True)
    proton.finalize(session)
    pl.enable_semantic("triton")


@tritium.jit
def bad_name(x):
    pl.enter_scope(3)


@tritium.jit
def bad_event(x):
    pl.start_event("e")


@pytest.mark.parametrize("kernel, text", [
    (bad_name, "the scope's name is 3; a string"), (bad_event, "'e' is no event of allocate_event"),
])  # fmt: skip
def test_wrong_names(kernel: Any, text: str) -> None:
    proton.start("out", backend="instrumentation")
    with pytest.raises(TritonError, match=text):
        kernel[(1,)](np.zeros(1, np.float32))


@pytest.mark.parametrize("mode", [
    "mma", "default:sampling_strategy=selective:sampling_options=0",
])  # fmt: skip
def test_modes_that_are_not_built(mode: str) -> None:
    with pytest.raises(NotImplementedError, match=r"instrumentation: mode='.*is not built; use"):
        proton.start("out", backend="instrumentation", mode=mode)
    assert proton.context.depth() is None


def test_one_session_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session = proton.start("out", backend="instrumentation")
    with pytest.raises(RuntimeError, match="one session with backend='instrumentation'"):
        proton.start("other", backend="instrumentation")
    proton.finalize(session)
    assert InstrumentationHook.active_count == 0
    with monkeypatch.context() as patch:
        patch.setattr(knobs.compilation, "instrumentation_mode", "bounds")
        with pytest.raises(RuntimeError, match="while instrumentation_mode is 'bounds'"):
            proton.start("other", backend="instrumentation")
    knobs.compilation.instrumentation_mode = knobs.env
