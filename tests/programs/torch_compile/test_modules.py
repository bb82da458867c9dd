"""torch.compile's kernels for modules, forward and backward, in the ways that it can write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import device

pytest.importorskip("torch", reason="torch is not installed")

HERE = Path(__file__).parent
SRC = HERE.parents[2] / "src"
CASES = {"modules.py": 31, "ways.py": 40}
GROUP = 4
GPU_PARTS = 8


def run(tmp_path: Path, program: str, *cases: str) -> list[str]:
    """The lines that a program prints. The program's folder is the only one below which
    torch.compile finds anything compiled."""
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    places = {"PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [
        sys.executable, "-m", "tritium", "run", str(HERE / program), device.device, *cases
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if line.startswith("wrong")]
    assert not wrong, "\n".join([*wrong, done.stderr[-5000:]])
    return lines


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "first"), [(p, i) for p, n in CASES.items() for i in range(0, n, GROUP)]
)
def test_all_modules(tmp_path: Path, program: str, first: int) -> None:
    lines = run(tmp_path, program, f"{first}:{first + GROUP}")
    assert len(lines) == min(GROUP, CASES[program] - first)


# One case a test: some compile for 90 s, and a test on a GPU has 120.
@pytest.mark.gpu
@pytest.mark.parametrize(("program", "case"), [(p, i) for p, n in CASES.items() for i in range(n)])
def test_all_modules_on_a_gpu(tmp_path: Path, program: str, case: int) -> None:
    lines = run(tmp_path, program, f"{case}:{case + 1}")
    assert len(lines) == 1
