"""Gluon programs on a GPU, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gluon import cluster_programs
from tests.gluon.support import launcher
from tests.gluon.test_programs import FOR_HOPPER, PROGRAMS
from tritium.backends.active import driver
from tritium.launch.allocation import set_allocator

pytestmark = pytest.mark.gpu


@pytest.fixture
def with_allocator() -> Iterator[None]:
    """Memory for the tensor maps that a kernel makes."""
    torch = pytest.importorskip("torch")
    set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    yield
    set_allocator(None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    PROGRAMS[name](launcher("gpu"))


@pytest.mark.usefixtures("with_allocator")
@pytest.mark.parametrize("name", FOR_HOPPER)
def test_programs_for_hopper(name: str) -> None:
    if driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is of sm_90 alone")
    FOR_HOPPER[name](launcher("gpu"))


@pytest.mark.parametrize("name", cluster_programs.PROGRAMS)
def test_programs_for_clusters(name: str) -> None:
    if driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is of sm_90 alone")
    cluster_programs.PROGRAMS[name](launcher("gpu"))
