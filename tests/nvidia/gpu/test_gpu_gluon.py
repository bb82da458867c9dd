"""Gluon programs on a GPU, against NumPy."""

from __future__ import annotations

import pytest

from tests.gluon import hopper_programs, memory_programs, partition_programs, programs
from tests.gluon.support import launcher
from tritium.backends.active import driver

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", [*programs.PROGRAMS, *memory_programs.PROGRAMS])
def test_programs(name: str) -> None:
    {**programs.PROGRAMS, **memory_programs.PROGRAMS}[name](launcher("gpu"))


@pytest.mark.parametrize("name", [*hopper_programs.PROGRAMS, *partition_programs.PROGRAMS])
def test_programs_for_hopper(name: str) -> None:
    if driver.active.get_current_target().arch != 90:
        pytest.skip("wgmma is of sm_90 alone")
    {**hopper_programs.PROGRAMS, **partition_programs.PROGRAMS}[name](launcher("gpu"))
