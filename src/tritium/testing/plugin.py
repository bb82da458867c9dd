"""A pytest plug-in with the fixtures that tests of kernels share.

    pytest -p tritium.testing.plugin --device cpu        or, in a conftest.py:
    pytest_plugins = ["tritium.testing.plugin"]

It is not loaded by itself: the reference's own tests define an option `--device` of theirs.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tritium import knobs
from tritium.backends.active import driver
from tritium.launch.allocation import NullAllocator, set_allocator
from tritium.testing.device import default_alloc_fn

_LIBRARIES = ("build", "nvidia", "amd")
"""Groups of settings that say where programs and libraries are."""


def pytest_addoption(parser: pytest.Parser) -> None:
    with suppress(ValueError):  # somebody else has it already
        parser.addoption("--device", help="what the fixture `device` gives: a torch device "
                         "(default: that which kernels run on)")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interpreter: runs under TRITON_INTERPRET=1 as well")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device that `--device` names; without it the kind that kernels run on."""
    named = request.config.getoption("--device")
    return str(named or str(driver.active.get_active_torch_device()).split(":")[0])


@pytest.fixture
def fresh_triton_cache(tmp_path: Path) -> Generator[str]:
    """An empty cache directory, for this test alone."""
    directory = tmp_path / ".triton" / "cache"
    directory.mkdir(parents=True)
    with knobs.cache.scope(), knobs.runtime.scope():
        knobs.cache.dir = str(directory)
        yield knobs.cache.dir


def _fresh(keep: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    groups = {n: g for n, g in vars(knobs).items() if isinstance(g, knobs.base_knobs)}
    with ExitStack() as stack:
        for name, group in groups.items():
            stack.enter_context(group.scope())
            if name not in keep:
                group.reset()
                for knob in group.knob_descriptors.values():
                    monkeypatch.delenv(knob.key, raising=False)
        yield knobs


@pytest.fixture
def fresh_knobs(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The settings, all at their defaults; what the test sets does not outlive it."""
    yield from _fresh((), monkeypatch)


@pytest.fixture
def fresh_knobs_except_libraries(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The settings at their defaults, except for the paths of compilers and libraries."""
    yield from _fresh(_LIBRARIES, monkeypatch)


@pytest.fixture
def with_allocator() -> Generator[None]:
    """Kernels may ask for memory: torch's, on the active device."""
    set_allocator(cast(Any, default_alloc_fn))
    try:
        yield
    finally:
        set_allocator(NullAllocator())
