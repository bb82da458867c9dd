"""Symmetric memory of two processes on GPUs: one each where there are two, else on one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sanitize.test_symmetric_memory import run_two

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu


def test_two_processes(tmp_path: Path) -> None:
    run_two("cuda", tmp_path, {})
