"""torch.compile, whose code generator writes Triton kernels, on Tritium's CPU backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = Path(__file__).parent / "program.py"
SRC = Path(__file__).parents[3] / "src"
CASES, GROUP = 94, 10


def run(tmp_path: Path, which: str) -> list[str]:
    """The lines that the program prints for these cases."""
    places = {"PYTHONPATH": str(SRC), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tritium", "run", str(PROGRAM), which]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_its_kernels_are_ours(tmp_path: Path):
    assert run(tmp_path, "0:2") == ["right gelu_ln", "right softmax"]
    written = "".join(file.read_text() for file in tmp_path.rglob("*.py"))
    assert "triton_heuristics.persistent_reduction(" in written and "cpp_fused" not in written


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, GROUP))
def test_all_kinds_of_functions(tmp_path: Path, first: int):
    assert len(run(tmp_path, f"{first}:{first + GROUP}")) == min(GROUP, CASES - first)
