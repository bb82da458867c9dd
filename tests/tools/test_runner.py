"""`tools/test_gpu.py` finds the files that use a GPU and gets past tests that hang or crash."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_all_tests_are_accounted_for(tmp_path: Path):
    out = tmp_path / "results.jsonl"
    command = [
        sys.executable, "tools/test_gpu.py", "--limit", "2", "--out", str(out),
        "tests/tools/sample_for_runner.py",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    results = {r["id"].split("::")[1]: r for r in map(json.loads, out.read_text().splitlines())}
    assert {name: r["outcome"] for name, r in results.items()} == {
        "test_before": "passed", "test_that_hangs": "hung", "test_that_fails": "failed",
        "test_that_ends_the_process": "crashed", "test_after": "passed",
    }  # fmt: skip
    assert done.returncode == 1 and "2 passed, 1 failed, 1 hung, 1 crashed" in done.stdout
    text = results["test_that_fails"]["text"]
    assert "reason 0" in text and "reason 999" in text


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("runner", ROOT / "tools" / "test_gpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_parts_of_long_files_begin_first(runner):
    short, long = Path(__file__), ROOT / "tests" / "tools" / "sample_for_runner.py"
    assert runner.parts_of([short, long]) == [(long, "0/2"), (long, "1/2"), (short, "0/1")]


def test_a_number_of_parts_for_every_file(runner):
    paths = [Path(__file__), ROOT / "tests" / "tools" / "sample_for_runner.py"]
    found = runner.parts_of(paths, 3)
    assert sorted(found) == sorted((p, f"{i}/3") for p in paths for i in range(3))


@pytest.mark.slow
def test_another_device(tmp_path):
    out, path = tmp_path / "results.jsonl", "tests/conformance/test_shapes.py"
    command = [
        sys.executable, "tools/test_gpu.py", path, "--device", "amd", "--parts", "2", "--out",
        str(out), "--extra", "--processor", "gfx1200", "--sample", "1",
        "-k", "test_methods or test_joins",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert results and all(r["outcome"] == "passed" for r in results)


def test_files_that_use_no_gpu_are_left_out(runner):
    found = {str(path.relative_to(ROOT / "tests")) for path in runner.files_of([])}
    assert found >= {str(p.relative_to(ROOT / "tests")) for p in ROOT.rglob("tests/test_gpu_*.py")}
    assert "conformance/test_reductions.py" in found, "its kernels run on the device by support.py"
    assert not found & {"ops/test_infer.py", "runtime/cache/test_cache.py", "nvidia/test_lines.py"}
