"""The profiler: scopes, launches and their metadata, files and how they are shown."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler as proton
from tritium import knobs
from tritium.profiler import viewer


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
    assert session == 0
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
    assert inner["metrics"]["cpu_time (ns)"] > 0 and set(children(inner)) == {"plain", "copy_7"}
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
    with pytest.raises(ValueError, match="unknown metric 'speed'"):
        viewer.parse(["speed"], "out.hatchet")


@pytest.mark.parametrize("filters, count, names", [
    ({"include": "copy.*"}, 4, ["copy_5", "outer", "inner", "copy_7"]),
    ({"include": "outer"}, 2, ["outer", "inner", "plain", "copy_7"]),
    ({"include": "none"}, 0, []), ({"exclude": "inner|plain"}, 3, ["copy_5", "outer"]),
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
    assert (first, second) == (0, 1)
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
    proton.profile(work, name="c")()
    assert Path("c.hatchet").exists()
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    assert proton.start("d") is None


@pytest.mark.parametrize(
    "options",
    [{"context": "python"}, {"data": "trace"}, {"backend": "cupti"}, {"mode": "pcsampling"},
     {"backend": "instrumentation"}],
)  # fmt: skip
def test_what_is_not_built(options):
    ((name, value),) = options.items()
    with pytest.raises(NotImplementedError, match=f"{name}='{value}' is not built"):
        proton.start("out", **options)


def test_wrong_uses():
    with pytest.raises(ValueError, match="hook='other'"):
        proton.start("out", hook="other")
    with pytest.raises(ValueError, match="no session 5"):
        proton.finalize(5)
    with pytest.raises(ValueError, match="not the innermost scope"):
        proton.exit_scope("nothing")
    with pytest.raises(NotImplementedError, match="chrome_trace"):
        proton.finalize(output_format="chrome_trace")
