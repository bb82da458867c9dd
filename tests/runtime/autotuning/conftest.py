"""Fixtures of the tests of tuning."""

from __future__ import annotations

from typing import Any

import pytest

from tritium.runtime.workers import children


@pytest.fixture
def begun_long_ago(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of jobs whose time is up when they begin: no test waits for a limit, and no limit is
    short for what ends on a busy machine."""
    worker, numbers = children._Worker, set[int]()  # pyright: ignore[reportPrivateUsage]
    told = worker.told

    def long_ago(self: Any) -> Any:
        found = told(self)
        if self.job in numbers:
            self.since -= 1000
        return found

    monkeypatch.setattr(worker, "told", long_ago)
    return numbers
