"""`perf_report`: the calls that it makes, the tables and files that come out."""

from __future__ import annotations

import csv
import sys

import pytest

from tritium.testing import Benchmark, perf_report


def make(**changes) -> Benchmark:
    settings = {
        "x_names": ["n", "m"],
        "x_vals": [1, 2, (3, 4)],
        "line_arg": "provider",
        "line_vals": ["a", "b"],
        "line_names": ["A", "B"],
        "plot_name": "sweep",
        "args": {"scale": 10},
        "ylabel": "GB/s",
        **changes,
    }
    return Benchmark(**settings)


def test_every_point_is_measured_with_all_arguments():
    calls = []

    @perf_report(make())
    def measure(**arguments):
        calls.append(arguments)
        return 1.0

    assert measure.run(extra="yes") is None
    assert len(calls) == 6
    expected = {"n": 1, "m": 1, "provider": "a", "scale": 10, "extra": "yes"}
    assert calls[0] == expected
    assert calls[-1] == {**expected, "n": 3, "m": 4, "provider": "b"}


def test_tables_are_printed_with_units(capsys):
    perf_report(make())(lambda n, m, provider, scale: n + m / 2.0).run(print_data=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sweep:"
    assert lines[1].split() == ["n", "m", "A", "(GB/s)", "B", "(GB/s)"]
    assert lines[4].split() == ["2", "3", "4", "5.000000", "5.000000"]


def test_files(tmp_path):
    @perf_report([make(), make(plot_name="other", line_vals=["a"], line_names=["A"])])
    def measure(n, m, provider, scale):
        return float(n), n - 0.5, n + 0.5

    measure.run(save_path=tmp_path / "new", save_precision=2)
    folder = tmp_path / "new"
    assert {p.name for p in folder.iterdir()} == {
        *("sweep.csv", "sweep.png", "other.csv", "other.png", "results.html")
    }
    with open(folder / "sweep.csv") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["n", "m", "A (GB/s)", "B (GB/s)"],
        ["1", "1", "1.00", "1.00"],
        ["2", "2", "2.00", "2.00"],
        ["3", "4", "3.00", "3.00"],
    ]
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    html = (folder / "results.html").read_text()
    assert '<img src="sweep.png"' in html and '<img src="other.png"' in html
    assert "<th>A (GB/s)</th>" in html and "<td>3</td><td>4</td>" in html


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    measure = lambda n, m, provider, scale: n * (2.0 if provider == "b" else 1.0)  # noqa: E731
    frame = perf_report(make())(measure).run(return_df=True)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["n", "m", "A (GB/s)", "B (GB/s)"]
    assert frame["B (GB/s)"].tolist() == [2.0, 4.0, 6.0]
    (frame,) = perf_report([make()])(measure).run(return_df=True, diff_col=True)
    assert frame["Diff"].tolist() == [1.0, 2.0, 3.0]


def test_what_was_measured_before_an_error_is_kept(tmp_path):
    def measure(n, m, provider, scale):
        if scale == 11:
            raise RuntimeError("too large")
        return 1.0

    mark = perf_report([make(), make(plot_name="fails", args={"scale": 11})])(measure)
    with pytest.raises(RuntimeError, match="too large"):
        mark.run(save_path=tmp_path)
    assert (tmp_path / "sweep.csv").exists() and not (tmp_path / "fails.csv").exists()
    assert "sweep.png" in (tmp_path / "results.html").read_text()


def test_bad_sweeps_are_refused():
    with pytest.raises(ValueError, match="2 line_vals and 1 line_names"):
        make(line_names=["A"])
    with pytest.raises(ValueError, match=r"\(1, 2, 3\) has 3 entries; expected 2"):
        perf_report(make(x_vals=[(1, 2, 3)]))(lambda **k: 1.0).run()
    with pytest.raises(ValueError, match="1 styles for 2 line_vals; expected one for each"):
        make(styles=[("red", "-")])
    for wrong in (None, "fast", (1.0, 2.0)):
        with pytest.raises(TypeError, match=r"the measured function returned .* is required"):
            perf_report(make())(lambda wrong=wrong, **k: wrong).run()


def test_a_name_with_folders(tmp_path):
    perf_report(make(plot_name="fp16/rows"))(lambda **k: 1.0).run(save_path=tmp_path)
    assert {p.name for p in (tmp_path / "fp16").iterdir()} == {"rows.csv", "rows.png"}
    assert 'src="fp16/rows.png"' in (tmp_path / "results.html").read_text()


def test_what_is_missing_is_said_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    measured = []
    sweep = Benchmark(["n"], [1, 2], "line", ["a"], ["A"], "plot", {})
    mark = perf_report(sweep)(lambda **given: measured.append(given) or 1.0)
    for options in ({"save_path": str(tmp_path)}, {"show_plots": True}, {"return_df": True}):
        with pytest.raises(ImportError, match="tritium\\[bench\\]"):
            mark.run(**options)
    assert not measured
