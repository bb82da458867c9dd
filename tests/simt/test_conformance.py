"""A sample of the conformance suite on `simt`, as `make test-simt` runs all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simt.not_run import REASONS, SUITE

SAMPLE = (
    "test_reductions.py::test_reductions[float16]", "test_reductions.py::test_sorting[uint8]",
    "test_shapes.py::test_every_permutation[shape1]", "test_dot.py::test_dtypes[float16-shape0]",
    "test_dot.py::test_scaled_packed_along_rows_or_columns[e2m1-e2m1]",
    "test_memory.py::test_descriptors[int32-2-True]", "test_memory.py::test_contention",
    "test_programs.py::test_assertions", "test_programs.py::test_printing",
)  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 64])
def test_a_sample_of_the_suite(lanes: int) -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "simt",
        "--lanes", str(lanes), *(f"{SUITE}/{name}" for name in SAMPLE),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=SUITE.parents[1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_what_is_left_out_is_there() -> None:
    for name in REASONS:
        file, _, function = name.partition("::")
        assert f"def {function}" in Path(SUITE, file).read_text(), name
