"""Numbers that the viewer computes, and its command, from profiles that are written here."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tritium.profiler import viewer

DEVICES = {
    "CUDA": {"0": {"arch": "80", "num_sms": 108, "clock_rate": 1410e3,
                   "memory_clock_rate": 1215e3, "bus_width": 5120}}
}  # fmt: skip


def node(name: str, children: list[Any] | None = None, **metrics: Any) -> dict[str, Any]:
    metrics = {"time (ns)" if n == "time" else n: v for n, v in metrics.items()}
    return {"frame": {"name": name}, "metrics": metrics, "children": children or []}


def kernel(name: str, count: int, time: int, **metrics: Any) -> dict[str, Any]:
    return node(name, count=count, time=time, device_id="0", device_type="CUDA", **metrics)


def write(path: Path, *children: Any) -> str:
    path.write_text(json.dumps([node("ROOT", [*children]), DEVICES]))
    return str(path)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return write(
        tmp_path / "p.hatchet",
        node("scope", [kernel("a", 4, 2_000_000, flops16=6e11, bytes=8_000_000),
                       kernel("b", 1, 500_000, flops16=1e11)],
             **{"cpu_time (ns)": 9_000_000}),
        kernel("c", 5, 1_500_000, bytes=4_000_000),
    )  # fmt: skip


def values(profile: str, *metrics: str) -> dict[str, list[float]]:
    tree, names = viewer.parse(list(metrics), profile)
    assert names == list(metrics)
    return {frame.name: frame.values for frame in tree.walk()}


def test_rates_and_averages(profile: str) -> None:
    found = values(profile, "tflop16/s", "gbyte/s", "avg_time/us", "time/ms", "time/%")
    assert found["ROOT"] == pytest.approx([7e11 / 4e-3 / 1e12, 3.0, 400, 4, 100])
    assert found["scope"] == pytest.approx([280, 3.2, 500, 2.5, 62.5])
    assert found["a"] == pytest.approx([300, 4, 500, 2, 50])
    assert math.isnan(found["c"][0]) and found["c"][1:] == pytest.approx([4 / 1.5, 300, 1.5, 37.5])


def test_a_nodes_own_metrics(profile: str) -> None:
    found = values(profile, "cpu_time/ms", "Count".lower())
    assert found["scope"] == [9, 5] and math.isnan(found["ROOT"][0]) and found["ROOT"][1] == 10


def test_utilization(profile: str) -> None:
    found = values(profile, "util")
    # 312 tflop/s at 16 bits: 6e11 operations take 1.923 ms; 8 MB take 5.1 us.
    assert found["a"][0] == pytest.approx(6e11 / 312e12 / 2e-3)
    assert found["c"][0] == pytest.approx(4e6 / 1555.2e9 / 1.5e-3)
    assert math.isnan(found["ROOT"][0])


def test_differences(profile: str, tmp_path: Path) -> None:
    other = write(tmp_path / "q.hatchet", node("scope", [kernel("a", 4, 1_000_000)]),
                  kernel("d", 1, 250_000))  # fmt: skip
    trees = [viewer.parse(["time/us"], file)[0] for file in (profile, other)]
    found = {frame.name: frame.values[0] for frame in viewer.difference(*trees).walk()}
    assert found == {"ROOT": 2750, "scope": 1500, "a": 1000, "b": 500, "c": 1500, "d": -250}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tritium.profiler.viewer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, "PYTHONUTF8": "1"})  # fmt: skip


def test_the_command(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-m", "time/ms,count", "-d", "2", profile).stdout == (
        "time/ms  count\n4.000 10.000 ROOT\n├─ 2.500 5.000 scope\n└─ 1.500 5.000 c\n"
    )
    viewer.main(["-l", profile])
    assert " ".join(capsys.readouterr().out.split()) == (
        "Available inclusive metrics: - count - time - flops16 - bytes "
        "Available exclusive metrics: - cpu_time"
    )
    viewer.main(["-m", "time/ms", "--print-sorted", "-e", "b", "-t", "2", profile])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["2.000 ROOT", "└─ 2.000 scope", "   └─ 2.000 a"]
    assert [line.split() for line in lines[5:]] == [["scope", "2"], ["a", "2"]]
    viewer.main(["-m", "count", "-diff", profile, profile])
    assert capsys.readouterr().out.splitlines()[1] == "0.000 ROOT"


@pytest.mark.parametrize("arguments, text", [
    (["-m", "speed", "P"], "metric 'speed' is not known, or nothing was recorded for it; recorded "
     "are: cpu_time, count, time, flops16, bytes; there are time/ms"),
    (["-m", "flop64/s", "P"], "'flop64/s' is not known"),
    (["-m", "count/km", "P"], "the unit of 'count/km'"),
    (["-m", "count", "-i", "(", "P"], "include is '('"), (["-m", "count", "none"], "none: No such"),
    (["-m", "count", __file__], "test_viewer.py is no profile in hatchet's JSON"),
    (["-m", "count", "p.chrome_trace"], "(ValueError: it is a timeline, for Perfetto"),
    (["-m", "count", "p.hatchet_msgpack"], "is MessagePack; a .hatchet file is required"),
])  # fmt: skip
def test_wrong_arguments(
    profile: str, arguments: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(profile).parent)
    Path("p.chrome_trace").write_text('{"traceEvents": []}')
    Path("p.hatchet_msgpack").write_bytes(b"\x92")
    with pytest.raises(SystemExit) as ended:
        viewer.main([profile if a == "P" else a for a in arguments])
    assert str(ended.value.code).startswith("proton-viewer: ") and text in str(ended.value.code)


@pytest.mark.parametrize("arguments, text", [
    (["P"], "--metrics is needed"), (["-m", "count", "-i", "a", "-e", "b", "P"], "exclude each"),
    (["-m", "count", "-d", "0", "P"], "--depth is 0"), ([], "required: file"),
])  # fmt: skip
def test_wrong_uses(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    with pytest.raises(SystemExit):
        viewer.main(arguments)
    assert text in capsys.readouterr().err
