"""The conformance tests that `--device simt` leaves out, and why."""

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


def is_run(item: pytest.Item) -> bool:
    """Whether a test is of the suite, and not left out."""
    function = getattr(item, "originalname", item.name)
    names = {item.path.name, f"{item.path.name}::{function}"}
    return item.path.is_relative_to(SUITE) and names.isdisjoint(REASONS)
