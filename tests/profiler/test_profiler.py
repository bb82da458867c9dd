"""The profiler: scopes, launches and their metadata, files and how they are shown."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import msgpack
import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
from tritium import knobs
from tritium.profiler import metric, registry, viewer
from tritium.profiler.hooks import LaunchHook, launch
from tritium.profiler.msgpack import packed
from tritium.profiler.state import get_metadata_state_name


def costs(grid, metadata, arguments):
    return {"name": f"copy_{arguments['n']}", "flops32": 2 * arguments["n"], "bytes": 1000}


@tritium.jit(launch_metadata=costs)
def copy(x, n):
    tl.store(x, n)


@tritium.jit
def plain(x):
    tl.store(x, 1.0)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    proton.finalize()


def record(**options) -> dict:
    x = np.zeros(4, np.float32)
    session = proton.start("out", **options)
    for _ in range(3):
        copy[(1,)](x, 5)
    with proton.scope("outer", {"steps": 2}), proton.cpu_timed_scope("inner"):
        plain[(1,)](x)
        copy[(1,)](x, 7)
    proton.deactivate(session)
    plain[(1,)](x)
    with proton.scope("not recorded"):
        pass
    proton.activate()
    plain[(1,)](x)
    proton.finalize(session)
    plain[(1,)](x)
    return json.loads(Path("out.hatchet").read_text())


def children(node: dict) -> dict:
    return {child["frame"]["name"]: child for child in node["children"]}


def test_launches_are_recorded_under_their_scopes():
    root, devices = record(hook="triton")
    assert root["frame"] == {"name": "ROOT", "type": "function"}
    top = children(root)
    assert list(top) == ["copy_5", "outer", "plain"]
    metrics = top["copy_5"]["metrics"]
    assert (metrics["count"], metrics["flops32"], metrics["bytes"]) == (3, 30, 3000)
    assert metrics["time (ns)"] > 0 and metrics["device_type"] == "CPU"
    assert top["outer"]["metrics"] == {"steps": 2} and top["plain"]["metrics"]["count"] == 1
    inner = children(top["outer"])["inner"]
    assert set(children(inner)) == {"plain", "copy_7"}
    assert inner["metrics"]["cpu_time (ns)"] > 0
    assert devices["CPU"]["0"]["num_sms"] >= 1
    assert not knobs.runtime.launch_enter_hook and not knobs.runtime.launch_exit_hook


def test_metadata_is_left_alone_without_the_hook():
    root, _ = record()
    assert list(children(root)) == ["copy", "outer", "plain"]
    assert "flops32" not in children(root)["copy"]["metrics"]


def test_the_viewer(capsys):
    record(hook="triton")
    tree, metrics = viewer.parse(["count", "time/ms", "gflop32/s", "avg_time/us"], "out.hatchet")
    viewer.print_tree(tree, metrics)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["count", "time/ms", "gflop32/s", "avg_time/us"]
    assert lines[1].startswith("6.000 ") and lines[1].endswith("ROOT")
    assert [line.split()[-1] for line in lines[2:]] == [
        "copy_5", "outer", "inner", "plain", "copy_7", "plain"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="the metric 'speed' is not known"):
        viewer.parse(["speed"], "out.hatchet")


@pytest.mark.parametrize("filters, count, names", [
    ({"include": "copy.*"}, 4, ["copy_5", "outer", "inner", "copy_7"]),
    ({"include": "outer"}, 2, ["outer", "inner", "plain", "copy_7"]),
    ({"include": "none"}, math.nan, []), ({"exclude": "inner|plain"}, 3, ["copy_5", "outer"]),
    ({"include": "outer", "exclude": "plain"}, 1, ["outer", "inner", "copy_7"]),
    ({"threshold": 2}, 3, ["copy_5", "outer", "inner"]),
])  # fmt: skip
def test_filters_of_the_viewer(capsys, filters, count, names):
    record(hook="triton")
    viewer.print_tree(*viewer.parse(["count"], "out.hatchet", **filters))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == f"{count:.3f} ROOT"
    assert [line.split()[-1] for line in lines[1:]] == names


def test_decorators_sessions_and_threads(monkeypatch):
    x = np.zeros(4, np.float32)

    @proton.scope("work")
    def work():
        plain[(1,)](x)

    first, second = proton.start("a"), proton.start("b")
    assert second == first + 1
    with proton.scope("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    proton.deactivate(second)
    work()
    proton.finalize()
    counts = [
        children(children(json.loads(Path(f"{n}.hatchet").read_text())[0])["work"])["plain"]
        for n in "ab"
    ]
    assert [c["metrics"]["count"] for c in counts] == [2, 1]
    profiled = proton.profile(work, name="c")
    profiled(), work(), profiled()
    proton.finalize()
    (both,) = children(children(json.loads(Path("c.hatchet").read_text())[0])["work"]).values()
    assert both["metrics"]["count"] == 2
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    assert proton.start("d") is None


def test_a_second_start_of_a_name_continues_its_session():
    x = np.zeros(4, np.float32)
    first, other = proton.start("same"), proton.start("other")
    plain[(1,)](x)
    proton.deactivate(first)
    assert proton.start("./same", hook="triton") == first != other
    plain[(1,)](x)
    copy[(1,)](x, 5)
    with pytest.raises(ValueError, match=r"is open with the name 'same' and data='tree'"):
        proton.start("same", data="trace")
    proton.finalize()
    top = children(json.loads(Path("same.hatchet").read_text())[0])
    assert top["plain"]["metrics"]["count"] == 2 and top["copy_5"]["metrics"]["flops32"] == 10


@pytest.mark.parametrize(
    "options", [{"backend": "roctracer"}, {"backend": "rocprofiler"}]
)
def test_what_is_not_built(options):
    ((name, value),) = options.items()
    with pytest.raises(NotImplementedError, match=f"{name}='{str(value).split(':')[0]}' is not"):
        proton.start("out", **options)


@pytest.mark.parametrize("runner", registry._RUNNERS)
def test_frames_of_commands_that_run_a_program_are_left_out(runner):
    assert Path(runner).is_file()
    scope = {}
    exec(compile("def run(program):\n    return program()", runner, "exec"), scope)
    (found,) = scope["run"](lambda: registry.frames())
    assert found.startswith(f"{__file__}:") and found.endswith("@<lambda>")


@pytest.mark.parametrize("options, text", [
    ({"hook": "other"}, "hook='other'; one of None, 'triton'"),
    ({"context": None}, "context=None; one of 'shadow', 'python'"),
    ({"data": "list"}, "data='list'; one of 'tree', 'trace'"),
    ({"backend": "cpu"}, "backend='cpu'; one of None, 'events', 'cupti', 'instrumentation'"),
    ({"mode": "fast"}, "mode='fast' for the backend 'events'"),
    ({"mode": "periodic_flushing:format=chrome_trace"}, "takes hatchet, hatchet_msgpack"),
    ({"backend": "instrumentation", "mode": "warp"}, "mode is 'warp'; it begins with"),
    ({"backend": "instrumentation", "mode": "default:fast"}, "'fast' is no option; NAME=VALUE"),
    ({"backend": "instrumentation", "mode": "mma:granularity=two"}, "granularity is 'two'"),
    ({"backend": "instrumentation", "mode": "mma:buffer_size=-1"}, "buffer_size is '-1'"),
])  # fmt: skip
def test_wrong_options(options, text):
    with pytest.raises(ValueError, match=text):
        proton.start("out", **options)
    assert proton.context.depth() is None and not knobs.runtime.launch_enter_hook


def test_wrong_uses():
    with pytest.raises(TypeError, match="name is 3"):
        proton.start(3)
    proton.finalize(session := 1 << 40)  # which there is not
    for use in (proton.activate, proton.deactivate, proton.data.get):
        with pytest.raises(IndexError, match=f": Session has not been initialized: {session}"):
            use(session)
    proton.exit_scope("nothing")  # there is no session
    assert proton.enter_scope("nothing") is None
    session = proton.start("out")
    with pytest.raises(IndexError, match="exit_scope: there is no scope nothing"):
        proton.exit_scope("nothing")
    proton.enter_scope("s")
    with pytest.raises(ValueError, match="'nothing' is not the innermost scope, which is 's'"):
        proton.exit_scope("nothing")
    proton.exit_scope()
    with pytest.raises(ValueError, match="exit_state: there is no state"):
        proton.exit_state()
    with pytest.raises(TypeError, match="name is 3"):
        proton.enter_scope(3)
    with pytest.raises(TypeError, match=r"metrics\['a'\] is 'x'; a number"):
        proton.enter_scope("s", metrics={"a": "x"})
    with pytest.raises(TypeError, match="metrics is 7"), proton.scope("s", 7):
        pass
    with pytest.raises(ValueError, match="metrics: 'cpu_time' is measured"):
        proton.cpu_timed_scope("s", {"cpu_time": 1})
    with pytest.raises(ValueError, match="output_format='chrome_trace' of data='tree'; one of"):
        proton.finalize(session, output_format="chrome_trace")
    with pytest.raises(ValueError, match=r"include is '[(]'"):
        LaunchHook().configure(include="(")
    assert proton.context.depth(session) == 0


def test_timelines():
    x = np.zeros(4, np.float32)
    proton.start("out", data="trace", hook="triton")
    begun = time.time_ns()
    with proton.scope("outer", {"rows": 2}):
        copy[(1,)](x, 5)
    plain[(1,)](x)
    proton.finalize()
    written = json.loads(Path("out.chrome_trace").read_text())
    assert abs(written["baseTimeNanoseconds"] - begun) < 60e9
    events = written["traceEvents"]
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert sorted(spans) == ["copy_5", "outer", "plain"]
    inner, outer = spans["copy_5"], spans["outer"]
    stack = ["ROOT", "outer", "copy_5"]
    assert inner["args"] == {"call_stack": stack, "flops32": 10.0, "bytes": 1000}
    assert outer["args"] == {"call_stack": stack[:2], "metrics": {"rows": 2}}
    assert outer["ts"] <= inner["ts"] and inner["pid"] != outer["pid"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert spans["plain"]["ts"] >= inner["ts"] + inner["dur"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert names == {(outer["pid"], "host"), (inner["pid"], "CPU 0")}


def test_frames_of_python(capsys):
    x = np.zeros(4, np.float32)

    def inner():
        plain[(1,)](x)

    proton.start("out", context="python")
    inner()
    with proton.scope("here", {"steps": 1}):
        inner()
    proton.finalize()
    found = viewer.parse(["count"], "out.hatchet", include="plain")
    viewer.print_tree(*found, format="file_function")
    lines = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    where = "test_profiler.py@"
    assert lines[-2:] == [f"{where}inner", "plain"]
    assert lines.count(f"{where}test_frames_of_python") == 2 and "here" not in lines
    for format, name in (("function_line", "inner"), ("file_function_line", "inner")):
        viewer.print_tree(*viewer.parse(["count"], "out.hatchet"), format=format)
        assert f"@{name}\n" in capsys.readouterr().out
    with pytest.raises(ValueError, match="format='short'; one of full"):
        viewer.print_tree(*viewer.parse(["count"], "out.hatchet"), format="short")


def test_phases():
    x = np.zeros(4, np.float32)
    session = proton.start("out")
    plain[(1,)](x)
    assert not proton.data.is_phase_complete(session, 0)
    assert proton.data.advance_phase(session) == 1
    assert proton.data.is_phase_complete(session, 0)
    for _ in range(2):
        plain[(1,)](x)
    found = [children(proton.data.get(session, n)[0])["plain"]["metrics"]["count"] for n in (0, 1)]
    assert found == [1, 2]
    assert msgpack.unpackb(proton.data.get_msgpack(session, 1)) == proton.data.get(session, 1)
    with pytest.raises(ValueError, match=r"data\.get: session \d+ has no phase 7; it has 0, 1"):
        proton.data.get(session, 7)
    with pytest.raises(IndexError, match=r"data\.clear: Session has not been initialized: 9"):
        proton.data.clear(9)
    proton.data.clear(session, 1)
    assert not children(proton.data.get(session, 1)[0])
    plain[(1,)](x)
    proton.finalize(session, output_format="hatchet_msgpack")
    parts = [msgpack.unpackb(Path(f"out.part_{n}.hatchet_msgpack").read_bytes()) for n in (0, 1)]
    assert [children(part[0])["plain"]["metrics"]["count"] for part in parts] == [1, 1]


def test_periodic_files():
    x = np.zeros(4, np.float32)
    session = proton.start("out", data="trace", mode="periodic_flushing")
    plain[(1,)](x)
    proton.data.advance_phase(session)
    assert Path("out.part_0.chrome_trace").exists()
    with pytest.raises(ValueError, match="has no phase 0; it has 1"):
        proton.data.get(session, 0)
    proton.finalize()
    assert Path("out.part_1.chrome_trace").exists()


def test_messagepack():
    numbers = [0, 1, -1, 127, 128, -32, -33, 1 << 40, (1 << 64) - 1, -(1 << 63), 0.5, True, None]
    value = {"n": numbers, "long": "x" * 300, "longer": "x" * 70000, "s": "y" * 40,
             "many": list(range(20)), "d": {str(i): i for i in range(20)}}  # fmt: skip
    assert msgpack.unpackb(packed(value)) == value


def test_numbers_of_sessions_go_on_and_scopes_end_with_them():
    first = proton.start("out")
    proton.enter_scope("left")
    proton.enter_state("in")
    proton.finalize()
    assert proton.start("out") == first + 1
    with proton.scope("s"):
        pass
    proton.finalize()
    assert set(children(json.loads(Path("out.hatchet").read_text())[0])) == {"s"}


def test_metrics_in_states():
    proton.start("out")
    with proton.state("in"), proton.scope("s", {"m": True, "own (exc)": 2.0}):
        pass
    for rank in ("1", 3):  # the last one stays
        with proton.scope("u", {"rank (pty)": rank}):
            pass
    with pytest.raises(ValueError, match=r"metrics\['v'\] has 1 numbers; it had 2 before"):
        proton.enter_scope("t", metrics={"v": [1, 2]})
        proton.exit_scope(metrics={"v": [1]})
    proton.finalize()
    root = children(json.loads(Path("out.hatchet").read_text())[0])
    scope = root["s"]
    assert scope["metrics"] == {"own": 2.0} and root["u"]["metrics"] == {"rank": 3}
    assert children(scope)["in"]["metrics"] == {"m": 1}


def test_metrics_that_are_arrays():
    proton.start("out")
    for _ in range(2):
        with proton.scope("s", {"bytes": np.float32(3), "flops": np.array([2]), "v": [1, 2.5]}):
            pass
    proton.finalize()
    metrics = children(json.loads(Path("out.hatchet").read_text())[0])["s"]["metrics"]
    assert metrics == {"bytes": 6, "flops": 4.0, "v": [2, 5.0]} and type(metrics["bytes"]) is int


def test_kernels_in_launch_metadata(capsys):
    x = np.zeros(4, np.float32)

    def launches(grid, metadata, arguments):
        plain[(1,)](x)
        return {"bytes": np.array(64), "note": "text"}

    kernel = tritium.jit(launch_metadata=launches)(plain.fn)
    proton.start("out", hook="triton")
    kernel[(1,)](x)
    proton.finalize()
    top = children(json.loads(Path("out.hatchet").read_text())[0])
    assert set(top) == {"plain", "__proton_launch_metadata:plain"}
    assert top["plain"]["metrics"]["bytes"] == 64 and top["plain"]["metrics"]["count"] == 1
    viewer.print_tree(*viewer.parse(["count"], "out.hatchet"))
    assert "metadata" not in capsys.readouterr().out


def test_filters_of_the_launch_hook():
    LaunchHook().configure(exclude="copy_7")
    try:
        root, _ = record(hook="triton")
    finally:
        LaunchHook().configure()
    assert set(children(children(children(root)["outer"])["inner"])) == {"plain", "copy"}
    assert LaunchHook() is LaunchHook()


def test_what_is_known_of_a_described_launch():
    seen, numbers = [], []

    def look(metadata):
        seen.append((launch.enabled.get(), launch.in_hook.get(), launch.op_name.get()))

    def launches(n: int):
        for _ in range(3):
            copy[(1,)](np.zeros(4, np.float32), n)
            numbers.append((launch.id.get(), launch.op_name.get()))

    LaunchHook().configure(exclude="plain")
    proton.start("out", hook="triton")
    knobs.runtime.launch_enter_hook.add(look)
    try:
        plain[(1,)](np.zeros(1, np.float32))
        launches(4)
        thread = threading.Thread(target=launches, args=(5,))
        thread.start()
        thread.join()
    finally:
        knobs.runtime.launch_enter_hook.remove(look)
        LaunchHook().configure()
    described = [(True, False, f"copy_{n}") for n in (4, 4, 4, 5, 5, 5)]
    assert seen == [(False, False, seen[0][2]), *described]
    assert len({number for number, _ in numbers}) == 6 and not launch.enabled.get()
    assert [name for _, name in numbers] == ["copy_4"] * 3 + ["copy_5"] * 3


def test_metrics_by_themselves():
    metric.set_metric_kernels()
    given = {"flops": 3, "bytes": np.array(2.5), "flops8": np.ones(2, np.int32), "n": 7}
    scalars, later = metric.transform_tensor_metrics(given)
    assert scalars == {"flops": 3.0, "bytes": 2, "flops8": [1.0, 1.0], "n": 7} and not later
    assert type(scalars["flops"]) is float and metric.FLOPS_WIDTHS == (8, 16, 32, 64)
    assert get_metadata_state_name() == "__proton_launch_metadata"
    assert get_metadata_state_name("k") == "__proton_launch_metadata:k"


def test_the_folder_of_a_profile_is_made(in_folder: Path):
    session = proton.start("new/folder/profile")
    with proton.scope("work", metrics={"items": 3}):
        pass
    proton.finalize(session)
    text = (in_folder / "new" / "folder" / "profile.hatchet").read_text()
    assert json.loads(text)[0]["children"][0]["frame"]["name"] == "work"
