"""Right kernels have no report: the tests of the tutorials, of the library's kernels and of the
language pass under each check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tritium import knobs

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cpu

TUTORIALS = "tests/tutorials/test_tutorials.py"
PROGRAMS = "runs_as_a_program or says_import_triton"
"""Tests that run whole programs, which measure themselves."""
NO_KERNEL = "errors or torch_compile or ops_of_torch or op_of_torch"
KERNELS = [f"tests/kernels/test_{name}.py" for name in (
    "rows", "elements", "cross_entropy", "matmul", "attention", "linear_attention", "order",
)]  # fmt: skip
KERNELS += [f"tests/kernels/{place}.py" for place in (
    "calls/test_operators", "formats/test_layouts", "experts/test_routing", "experts/test_moe",
)]  # fmt: skip
LANGUAGE = [f"tests/conformance/test_{name}.py" for name in (
    "memory", "reductions", "shapes", "programs", "dot", "casts",
)]  # fmt: skip

QUICK = (
    "test_softmax and 37 or matmul_of_transposed_operands or vector_add_is_exact and 4096"
    " or forward_and_backward and 151 or test_masks and int32 and not uint32"
)
"""Tests, as `pytest -k` chooses them."""

PLANTED = "test_stores_out_of_bounds_are_found"
"""A test of the suite that has a kernel write out of bounds."""


def rest(folder: str, known: list[str]) -> list[str]:
    """The files of tests in a folder beside those that are known."""
    files = (ROOT / "tests" / folder).rglob("test_*.py")
    return sorted({file.relative_to(ROOT).as_posix() for file in files} - set(known))


def passed(
    checks: str, files: list[str], chosen: str, limit: float, markers: str = ""
) -> None:
    """Run tests in a process of their own, with these checks in all kernels."""
    command = [
        sys.executable, "-m", "tritium", "run", "--sanitize", checks, "-m", "pytest", "-q",
        "--tb=short", "-p", "no:cacheprovider", "-W", "ignore:races", *files, "-k", chosen,
        "-m", markers,
    ]  # fmt: skip
    path = str(ROOT / "src")
    environment = knobs.child_environment(PYTHONPATH=path, CUDA_VISIBLE_DEVICES="-1")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True,
                          timeout=limit)  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "SanitizerError" not in done.stdout


def test_a_sample() -> None:
    """Under all checks in one process, which takes longer to start than the tests do."""
    files = [TUTORIALS, "tests/conformance/test_memory.py"]
    passed("bounds,races,unwritten,fp", files, QUICK, 300)


@pytest.mark.slow
@pytest.mark.parametrize("checks", ["bounds", "races", "fp", "unwritten"])
def test_all_tutorials(checks: str) -> None:
    passed(checks, [TUTORIALS], f"not ({PROGRAMS})", 1800)


@pytest.mark.slow
@pytest.mark.parametrize("checks", ["bounds", "races"])
@pytest.mark.parametrize("files", [KERNELS, LANGUAGE], ids=["kernels", "language"])
def test_kernels_of_the_library_and_of_the_language(files: list[str], checks: str) -> None:
    passed(checks, files, f"not ({NO_KERNEL})", 3000)


@pytest.mark.slow
@pytest.mark.parametrize("folder, known", [("kernels", KERNELS), ("conformance", LANGUAGE)])
def test_the_rest_of_the_kernels_and_of_the_language(folder: str, known: list[str]) -> None:
    passed("bounds,races", rest(folder, known), f"not ({NO_KERNEL} or {PLANTED})", 3000, "not slow")
