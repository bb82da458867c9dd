"""`tritium compare`: snapshots, regressions, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tools import sample_for_times
from tritium.cli.compare import Side, both, report, take
from tritium.cli.explore import ExploreError
from tritium.tools.compare import Measured, Snapshot, SnapshotError, as_html, as_text, compare
from tritium.tools.launch_times import LaunchTimes

SRC = str(Path(__file__).parents[2] / "src")
KERNELS = """
import os, tritium, tritium.language as tl

@tritium.jit
def scale(x_ptr, out_ptr, n, MORE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.exp(x) if MORE else x * 2, mask=i < n)

if __name__ == "__main__":
    import numpy as np
    x = np.ones(64, np.float32)
    scale[(1,)](x, x, 64, MORE=os.environ.get("MORE") == "1", BLOCK=64)
"""
FIRST = Measured("f (N=1)", "cuda:90", {"code": 1000, "registers": 40, "spills": 0, "compile": 9},
                 {"add": 4, "ld.global": 2})  # fmt: skip
SECOND = Measured("f (N=1)", "cuda:90", {"code": 1010, "registers": 48, "spills": 8, "compile": 99},
                  {"add": 4, "ld.global": 1, "ld.shared": 9})  # fmt: skip
ONLY = Measured("g<x>", "cuda:90", {"code": 1}, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "kernels.py"
    place.write_text(KERNELS)
    return place


def test_growth_beyond_the_tolerance_is_worse():
    result = compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), ignore=["compile"])
    assert [row.figure for row in result.regressions] == ["registers", "spills"]
    text = as_text(result)
    assert "registers                           40          48    +20.0 %  WORSE" in text
    assert "spills                               0           8        new  WORSE" in text
    assert "instructions that differ: ld.shared 0 -> 9, ld.global 2 -> 1" in text
    assert text.endswith("2 regressions\n")
    assert len(compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), tolerance=0).rows) == 4
    worse = compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), tolerance=0).regressions
    assert len(worse) == 4
    back = compare(Snapshot("b", [SECOND]), Snapshot("a", [FIRST]))
    assert not back.regressions and as_text(back).endswith("no regression\n")


def test_kernels_of_one_side_only_are_named():
    result = compare(Snapshot("a", [FIRST, ONLY]), Snapshot("b", [SECOND]))
    assert result.missing == [("g<x>", "a")]
    assert "only in a: g<x>" in as_text(result)
    page = as_html(result)
    assert "only in a: g&lt;x&gt;" in page and "<tr class='worse'>" in page
    assert "src=" not in page and "href=" not in page
    renamed = compare(Snapshot("a", [ONLY]), Snapshot("b", [FIRST]))
    assert [row.kernel for row in renamed.rows] == ["g<x> | f (N=1)"]
    message = r"no kernel has the same name .*; a has f \(N=1\), g<x>; b has ; --kernel and"
    with pytest.raises(SnapshotError, match=message):
        compare(Snapshot("a", [FIRST, ONLY]), Snapshot("b", []))


def test_snapshots_are_files(file: Path, tmp_path: Path):
    place = tmp_path / "a.json"
    assert take([str(file)], place, "scale", "cpu:haswell", "*fp32, *fp32, i32, 0, 64") == 1
    (kernel,) = Snapshot.load(place).kernels
    assert kernel.name == "scale (MORE=0, BLOCK=64)" and kernel.target == "cpu:haswell"
    assert kernel.figures.keys() == {"code", "instructions", "scratch", "compile"}
    assert kernel.figures["instructions"] == sum(kernel.mix.values()) > 20
    assert any(word.startswith("vmul") or word.startswith("vadd") for word in kernel.mix)
    assert Side(str(place)).snapshot().kernels == [kernel]


@pytest.mark.slow
def test_the_command_compares_settings_and_its_status_tells(file: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "tritium", "compare", str(file), "--set-b", "MORE=1",
               "--html", str(page)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SRC})  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "A: kernels.py\nB: kernels.py MORE=1\n" in done.stdout
    assert "scale (MORE=False, BLOCK=64) | scale (MORE=True, BLOCK=64)" in done.stdout
    assert "bytes of the binary" in done.stdout and "WORSE" in done.stdout
    assert "<h2>scale" in page.read_text()
    wrong = subprocess.run([*command[:5]], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": SRC})  # fmt: skip
    assert wrong.returncode == 2 and "compare takes A and B" in wrong.stderr


def test_errors(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tritium.cli.run.run_program", lambda arguments: None)
    broken = tmp_path / "broken.json"
    newer = json.dumps({"format": 9}), "a snapshot of format 9, not 1"
    for text, message in (("{", "is no snapshot"), ("{}", "is no snapshot: 'format'"), newer):
        broken.write_text(text)
        with pytest.raises(SnapshotError, match=message):
            Snapshot.load(broken)
    with pytest.raises(SnapshotError, match="the setting 'MORE' is not NAME=VALUE"):
        Side(str(file), settings=["MORE"]).snapshot()
    with pytest.raises(SnapshotError, match=r"nothing\.py: no such file"):
        Side("nothing.py").snapshot()
    with pytest.raises(SnapshotError, match="no kernel called 'other' was compiled"):
        take([str(file)], broken, "other", None, None)
    with pytest.raises(SnapshotError, match="no figure is called 'size'"):
        compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), ignore=["size"])
    for wrong in (-0.1, float("nan")):
        with pytest.raises(SnapshotError, match="at least 0 is required"):
            compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), tolerance=wrong)
    with pytest.raises(SnapshotError, match="is a snapshot, which 'A=1' cannot change"):
        Side(str(broken), settings=["A=1"]).snapshot()


def test_a_program_that_fails(file: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(arguments: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("tritium.cli.run.run_program", fail)
    with pytest.raises(ExploreError, match=r"kernels\.py: the program ended with status 3"):
        take([str(file)], file.with_suffix(".json"), None, None, None)


TWO = Path(__file__).with_name("sample_for_times.py").read_text()


@pytest.mark.slow
def test_two_kernels_of_one_program_and_their_times(tmp_path: Path):
    """Measured times are shown, and one that has grown is a regression."""
    file = tmp_path / "two.py"
    file.write_text(TWO)
    sides = both(*(Side(str(file), name, timed=True) for name in ("once", "often")))
    result = compare(*sides, ignore=["compile"], renamed=("once", "often"))
    times = {row.kernel: row for row in result.rows if row.figure == "time"}
    (row,) = times.values()
    assert row.kernel == "once (BLOCK=1024) | often (BLOCK=1024)"
    assert 0 < 2 * row.before < row.after < 1e7 and row.worse
    assert "us of a launch" in as_text(result)


def test_kernels_of_different_names_are_paired_by_their_constants():
    def side(*names: str) -> Snapshot:
        return Snapshot("t", [Measured(name, "cpu", {"code": 1}, {}) for name in names])

    result = compare(side("f (N=1)", "f (N=2)"), side("g (N=2)", "g (N=3)"), renamed=("f", "g"))
    assert [row.kernel for row in result.rows] == ["f (N=2) | g (N=2)"]
    assert result.missing == [("f (N=1)", "t"), ("g (N=3)", "t")]
    result = compare(side("a.py: f (N=1)", "a.py: h"), side("a.py: g (N=1)", "a.py: h"),
                     renamed=("f", "g"))  # fmt: skip
    assert [row.kernel for row in result.rows] == ["a.py: f (N=1) | a.py: g (N=1)", "a.py: h"]


def test_a_tolerance_of_its_own_for_times():
    first, second = (Snapshot("t", [Measured("f", "cpu", {"time": t, "code": 10}, {})])
                     for t in (100, 108))  # fmt: skip
    assert not compare(first, second).regressions
    assert compare(first, second, time_tolerance=0.05).regressions
    assert not compare(first, second, time_tolerance=0, tolerance=0.5).regressions
    with pytest.raises(SnapshotError, match="tolerance of times is -1"):
        compare(first, second, time_tolerance=-1)


def test_a_corpus_is_compared_kernel_by_kernel(file: Path, tmp_path: Path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.py").write_text(KERNELS)
    (corpus / "notes.txt").write_text("no program")
    (kernel,) = Side(str(corpus)).snapshot().kernels
    assert kernel.name == "a.py: scale (MORE=False, BLOCK=64)"
    listed = tmp_path / "list.txt"
    listed.write_text('# of the corpus\ncorpus/a.py --kernel scale '
                      '--signature "*fp32, *fp32, i32, 1, 64"\n\n')  # fmt: skip
    (other,) = Side(f"@{listed}").snapshot().kernels
    assert other.name == "corpus/a.py: scale (MORE=1, BLOCK=64)"
    found = Snapshot("corpus", [kernel, other])
    text = as_text(compare(found, found))
    assert "geometric mean of B / A" in text and "1.000 of 2 kernels" in text
    assert "geometric mean" in as_html(compare(found, found))


@pytest.mark.parametrize(("text", "message"), [
    ("", "the list names no program"),
    ("a.py --signature", r"list\.txt:1: 'a\.py --signature'; FILE"),
    ("\na.py --target cpu", r"list\.txt:2: 'a\.py --target cpu'; FILE"),
    ("a.py 'b", r"list\.txt:1: No closing quotation"), ("a.py", r"a\.py: .*no such file"),
])  # fmt: skip
def test_bad_corpora(tmp_path: Path, text: str, message: str):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(SnapshotError, match=message):
        Side(f"@{tmp_path / 'list.txt'}").snapshot()
    with pytest.raises(SnapshotError, match=r"nothing\.txt: no such list of programs"):
        Side(f"@{tmp_path / 'nothing.txt'}").snapshot()
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match=r"empty: a folder without \.py, \.ttir, \.ttgir files"):
        Side(str(tmp_path / "empty")).snapshot()


def test_launches_are_timed_kernel_by_kernel():
    x, times = np.ones(65536, np.float32), LaunchTimes()
    with times.measuring():
        first = sample_for_times.once[(64,)](x, 65536, BLOCK=1024)
        assert times.of(first.hash) is None, "a first launch is not what later ones take"
        kernels = [kernel[(64,)](x, 65536, BLOCK=1024) for _ in range(4)
                   for kernel in (sample_for_times.once, sample_for_times.often)]  # fmt: skip
    once, often = (times.of(kernel.hash) for kernel in kernels[:2])
    assert once and often and 0 < once < often < 1e7
    sample_for_times.once[(64,)](x, 65536, BLOCK=1024)
    assert times.of(kernels[0].hash) == once and times.of("other") is None


def test_kernels_that_are_launched_once_have_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    Snapshot("a", [FIRST, ONLY]).save(tmp_path / "a.json")
    side = Side(str(tmp_path / "a.json"), timed=True)
    report((side, side), 0.1, 0.1, "", None)
    warnings = capsys.readouterr().err.splitlines()
    assert [line.partition(" has no time")[0] for line in warnings] == [
        "tritium: warning: f (N=1)", "tritium: warning: g<x>"
    ]  # fmt: skip


def test_both_files_are_looked_for_first(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Side, "snapshot", lambda side: pytest.fail(f"{side.source} is compiled"))
    with pytest.raises(SnapshotError, match=r"nothing\.py: no such file"):
        both(Side(str(file)), Side(str(file.with_name("nothing.py"))))


def test_all_lines_of_an_error_are_told(tmp_path: Path):
    (tmp_path / "bad.ttir").write_text("module {\n  nonsense\n}\n")
    with pytest.raises(SnapshotError, match=r"nonsense is not registered\n +nonsense\n +\^"):
        Side(str(tmp_path / "bad.ttir")).snapshot()


def test_times_need_a_program_that_runs(file: Path):
    with pytest.raises(SnapshotError, match="--time needs a program that is run"):
        take([str(file)], file.with_suffix(".json"), "scale", "cpu", "*fp32, *fp32, i32, 0, 64",
             timed=True)  # fmt: skip
