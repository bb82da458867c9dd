"""`tritium compare`: snapshots, regressions, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritium.cli.compare import side, take
from tritium.cli.explore import ExploreError
from tritium.tools.compare import (
    Measured,
    Snapshot,
    SnapshotError,
    as_html,
    as_text,
    compare,
)

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


def test_snapshots_are_files(file: Path, tmp_path: Path):
    place = tmp_path / "a.json"
    assert take([str(file)], place, "scale", "cpu:haswell", "*fp32, *fp32, i32, 0, 64") == 1
    (kernel,) = Snapshot.load(place).kernels
    assert kernel.name == "scale (MORE=0, BLOCK=64)" and kernel.target == "cpu:haswell"
    assert kernel.figures.keys() == {"code", "instructions", "scratch", "compile"}
    assert kernel.figures["instructions"] == sum(kernel.mix.values()) > 20
    assert any(word.startswith("vmul") or word.startswith("vadd") for word in kernel.mix)
    assert side(str(place), None, None, None, []).kernels == [kernel]


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
        side(str(file), None, None, None, ["MORE"])
    with pytest.raises(SnapshotError, match=r"nothing\.py: no such file"):
        side("nothing.py", None, None, None, [])
    with pytest.raises(SnapshotError, match="no kernel called 'other' was compiled"):
        take([str(file)], broken, "other", None, None)
    with pytest.raises(SnapshotError, match="no figure is called 'size'"):
        compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), ignore=["size"])
    for wrong in (-0.1, float("nan")):
        with pytest.raises(SnapshotError, match="at least 0 is required"):
            compare(Snapshot("a", [FIRST]), Snapshot("b", [SECOND]), tolerance=wrong)
    with pytest.raises(SnapshotError, match="is a snapshot, which 'A=1' cannot change"):
        side(str(broken), None, None, None, ["A=1"])


def test_a_program_that_fails(file: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(arguments: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("tritium.cli.run.run_program", fail)
    with pytest.raises(ExploreError, match=r"kernels\.py: the program ended with status 3"):
        take([str(file)], file.with_suffix(".json"), None, None, None)
