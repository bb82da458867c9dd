"""The conformance tests that `--device simt` and `--device amd` leave out, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

SUITE = Path(__file__).parents[1] / "conformance"

REASONS = {
    "test_random_programs.py::test_wrong_native_code_is_found": "code of the CPU backend",
    "test_random_programs.py::test_the_tool_counts_programs": "the tool runs on the CPU",
    "test_random_programs.py::test_the_tool_survives_a_crash": "the tool runs on the CPU",
    "test_messages.py::test_inline_assembly_says_what_it_is_for": "a message of the CPU backend",
}
"""By a file, or a file and a test in it."""


NOT_ON_AMD = {
    "test_casts.py::test_e4b15": "AMD GPUs lack the type",
    "test_casts.py::test_what_does_not_fit_an_integer": "the way of x86",
}
"""The tests that `--device amd` leaves out besides."""
NOT_ON_RDNA = {
    "test_dot.py::test_dtypes[float64-shape3]": "both operands fill the 64 KiB of LDS",
}
"""Those for GPUs without a matrix unit for float64, by tests with their parameters."""


def is_run(item: pytest.Item, processor: str = "") -> bool:
    """Whether a test is of the suite, and not left out. `processor`: AMD's, for `--device amd`."""
    function = getattr(item, "originalname", item.name)
    names = {item.path.name, f"{item.path.name}::{function}", f"{item.path.name}::{item.name}"}
    missing = {**REASONS, **(NOT_ON_AMD if processor else {})}
    if processor.startswith(("gfx11", "gfx12")):
        missing |= NOT_ON_RDNA
    return item.path.is_relative_to(SUITE) and names.isdisjoint(missing)
