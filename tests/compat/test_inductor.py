"""Kernels that torch.compile generates; see `inductor_programs`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritium import knobs

PROGRAM = Path(__file__).with_name("inductor_programs.py")
pytest.importorskip("torch._inductor", reason="needs torch")


def run(tmp_path: Path, *names: str) -> list[str]:
    env = knobs.child_environment(
        PYTHONPATH=os.pathsep.join(sys.path), TORCHINDUCTOR_CACHE_DIR=str(tmp_path)
    )
    command = [sys.executable, str(PROGRAM), *names]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.endswith("kernels")]


def test_generated_kernels(tmp_path: Path) -> None:
    assert len(run(tmp_path, "softmax", "sums", "index_add")) == 3


@pytest.mark.slow
def test_all_generated_kernels(tmp_path: Path) -> None:
    assert len(run(tmp_path)) == 25
