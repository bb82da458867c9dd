"""The page that shows the stages of a matmul shows what the compiler makes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "nvidia_walkthrough.py"


def without_numbers(text: str) -> str:
    """Names of values differ when anything before them changes: only their kind is compared."""
    return re.sub(r"%(\$?[a-zA-Z_]*?)_?\d+", r"%\1", text)


@pytest.mark.ptxas
def test_the_page_is_what_the_compiler_makes(fresh_cache: Path) -> None:
    spec = importlib.util.spec_from_file_location("nvidia_walkthrough", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kept = module.PAGE.read_text()
    assert without_numbers(module.page()) == without_numbers(kept), f"run python {SCRIPT.name}"
