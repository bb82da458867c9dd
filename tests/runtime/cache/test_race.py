"""One cache for many processes, some of which are killed; see `tests.support.cache_race`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.cache_race import main


def test_cache_race_short() -> None:
    """In a process of its own, as processes that have run other tests are slow to fork."""
    command = [sys.executable, "-m", "tests.support.cache_race", "--minutes", "0.02"]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [*command, "--processes", "8", "--kernels", "3"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "were killed; all entries are whole" in done.stdout


@pytest.mark.slow
def test_cache_race_long() -> None:
    main(["--minutes", "2", "--processes", "64"])
