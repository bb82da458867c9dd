"""Sources of torch.compile for NVIDIA GPUs become cubins that its own launcher takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.torch_compile.test_modules import CASES, GROUP

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.cpu, pytest.mark.ptxas,
    pytest.mark.skipif(torch.cuda.is_available(), reason="test_modules runs them on the GPU"),
]  # fmt: skip

HERE = Path(__file__).parent
SRC = HERE.parents[2] / "src"


def check(tmp_path: Path, *arguments: str) -> None:
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    places = {"PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    program = str(HERE / "cuda_sources.py")
    done = subprocess.run(
        [sys.executable, "-m", "tritium", "run", program, *arguments],
        capture_output=True, text=True, env={**os.environ, **places},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if not line.startswith(("right", "elsewhere"))]
    assert done.returncode == 0 and lines and not wrong, "\n".join([*wrong, done.stderr[-5000:]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "first"), [(p, i) for p, n in CASES.items() for i in range(0, n, GROUP)]
)
def test_all_modules(tmp_path: Path, program: str, first: int) -> None:
    check(tmp_path, program.removesuffix(".py"), f"{first}:{first + GROUP}")
