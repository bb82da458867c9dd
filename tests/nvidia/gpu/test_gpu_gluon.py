"""Gluon programs on a GPU, against NumPy."""

from __future__ import annotations

import pytest

from tests.gluon import cluster_programs
from tests.gluon.support import launcher
from tests.gluon.test_programs import FOR_HOPPER, PROGRAMS
from tritium.backends.active import driver

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    PROGRAMS[name](launcher("gpu"))


@pytest.mark.usefixtures("with_allocator")  # for the tensor maps that a kernel makes
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
