"""The kernels of the corpus compile; each processor in a process of its own (`corpus`)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.amd.kernels import TARGETS
from tests.ir.test_reference_runs import CASES, REFERENCE

QUICK = "gfx942"
RDNA = {"gfx1100", "gfx1150", "gfx1200", "gfx1201"}
PRODUCTS = {"attention": RDNA, "matmul": {"gfx1250"}, "dot_scaled": set[str]()}
"""Kernels with products, and the processors whose matrix unit does not take them (float32, a short
K)."""


@pytest.mark.parametrize("arch", [
    a if a == QUICK else pytest.param(a, marks=pytest.mark.slow) for a in TARGETS
])  # fmt: skip
def test_kernels_of_the_corpus(arch: str) -> None:
    command = [sys.executable, "-m", "tests.amd.corpus", arch]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REFERENCE.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert {name for name, _ in lines} == set(CASES)
    for name, rest in lines:
        registers, spilled, scratch, _, *matrix = rest.split()
        assert 0 < int(registers) <= 256 and (spilled, scratch) == ("0", "0"), name
        family = "mfma" if TARGETS[arch] == 64 else "wmma"
        assert all(instruction.startswith(family) for instruction in matrix), name
        assert bool(matrix) == (name in PRODUCTS and arch not in PRODUCTS[name]), name
