"""Settings for the whole suite: a kernel cache of its own, removed at the end."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_VARIABLE = "TRITON_CACHE_DIR"


def pytest_configure(config: pytest.Config) -> None:
    # Workers of pytest-xdist inherit the folder from the process that starts them, and share it.
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix="tritium-test-cache-")
    os.environ[_VARIABLE] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
