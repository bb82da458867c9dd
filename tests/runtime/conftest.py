"""Fixtures of the runtime's tests: a device that only records."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.support.launching import StubDriver
from tritium import knobs
from tritium.runtime import driver


def pytest_itemcollected(item: pytest.Item) -> None:
    """These tests launch on the CPU, but for those of what launches on CUDA (needs no GPU)."""
    if item.path.name != "test_cuda.py":
        item.add_marker("cpu")


@pytest.fixture
def stub() -> Iterator[StubDriver]:
    """The active driver, whose launches are recorded and not run."""
    stub = StubDriver()
    driver.set_active(stub)
    try:
        yield stub
    finally:
        driver.reset_active()


@pytest.fixture
def crashing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Children are meant to crash: pytest's handler, which they inherit, prints no stack."""
    if not faulthandler.is_enabled():
        yield
        return
    faulthandler.disable()
    try:
        yield
    finally:
        faulthandler.enable(file=request.config.stash[fault_handler_stderr_fd_key])


@pytest.fixture(autouse=True)
def hooks_restored() -> Iterator[None]:
    """Hooks that a test sets do not outlive it."""
    with knobs.runtime.scope(), knobs.compilation.scope(), knobs.autotuning.scope():
        yield
