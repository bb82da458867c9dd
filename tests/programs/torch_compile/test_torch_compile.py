"""torch.compile, whose code generator writes Triton kernels, on Tritium."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import device

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = Path(__file__).parent / "program.py"
USER_KERNELS = Path(__file__).parent / "user_kernels.py"
SRC = Path(__file__).parents[3] / "src"
GPU_PARTS = 5
CASES, GROUP = 94, 10


def run(tmp_path: Path, *arguments: str | Path) -> list[str]:
    """The lines that a program prints."""
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    places = {"PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tritium", "run", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.cpu
def test_its_kernels_are_ours(tmp_path: Path):
    assert run(tmp_path, PROGRAM, "0:1") == ["right gelu_ln"]
    written = "".join(file.read_text() for file in tmp_path.rglob("*.py"))
    assert "triton_heuristics.persistent_reduction(" in written and "cpp_fused" not in written


def check_functions(tmp_path: Path, first: int) -> None:
    lines = run(tmp_path, PROGRAM, f"{first}:{first + GROUP}", device.device)
    assert len(lines) == min(GROUP, CASES - first)


@pytest.mark.cpu
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, GROUP))
def test_all_kinds_of_functions(tmp_path: Path, first: int):
    check_functions(tmp_path, first)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, CASES, GROUP))
def test_all_kinds_of_functions_on_a_gpu(tmp_path: Path, first: int):
    check_functions(tmp_path, first)


@pytest.mark.cpu
@pytest.mark.slow
def test_kernels_of_the_program_itself(tmp_path: Path):
    assert run(tmp_path, USER_KERNELS) == [
        "right launch_combine",
        "right launch_in_place",
        "right launch_tuned",
        "right launch_unqualified",
        "right call_ops",
        "right launch_combine",
        "right launch_with_computed_block",
        "right analysis",
        "right inputs_are_not_copied",
    ]
