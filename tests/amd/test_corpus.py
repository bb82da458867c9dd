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


@pytest.mark.parametrize(("arch", "half"), [
    pytest.param(arch, half, marks=() if (arch, half) == (QUICK, 0) else pytest.mark.slow)
    for arch in TARGETS for half in (0, 1)
])  # fmt: skip
def test_kernels_of_the_corpus(arch: str, half: int) -> None:
    names = sorted(CASES)[half::2]
    command = [sys.executable, "-m", "tests.amd.corpus", arch, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REFERENCE.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert {name for name, _ in lines} == set(names)
    for name, rest in lines:
        registers, spilled, scratch, _, *matrix = rest.split()
        assert 0 < int(registers) <= 256 and (spilled, scratch) == ("0", "0"), name
        family = "mfma" if TARGETS[arch] == 64 else "wmma"
        assert all(instruction.startswith(family) for instruction in matrix), name
        assert bool(matrix) == (name in PRODUCTS and arch not in PRODUCTS[name]), name
