"""`tools/test_gpu.py` gets past tests that hang and tests that end the process."""

from __future__ import annotations

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
        "tests/nvidia/sample_for_runner.py",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes = {r["id"].split("::")[1]: r["outcome"]
                for r in map(json.loads, out.read_text().splitlines())}  # fmt: skip
    assert outcomes == {
        "test_before": "passed", "test_that_hangs": "hung",
        "test_that_ends_the_process": "crashed", "test_after": "passed",
    }  # fmt: skip
    assert done.returncode == 1 and "2 passed, 1 hung, 1 crashed" in done.stdout
