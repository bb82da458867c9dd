"""Gluon programs against NumPy: as the reference semantics run them, and as compiled for warps."""

from __future__ import annotations

import pytest

from tests.gluon import (
    aggregate_programs,
    blackwell_programs,
    bulk_programs,
    cluster_programs,
    hopper_programs,
    memory_programs,
    pair_programs,
    partition_programs,
    programs,
)
from tests.gluon.support import HOW, launcher

PROGRAMS = {**programs.PROGRAMS, **memory_programs.PROGRAMS}


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", HOW[1:])  # those that are assembled are interpreted as well
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, how: str) -> None:
    PROGRAMS[name](launcher(how))


FOR_HOPPER = {
    **hopper_programs.PROGRAMS, **partition_programs.PROGRAMS, **aggregate_programs.PROGRAMS,
    **bulk_programs.PROGRAMS,
}  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["engine", "sm_90"])
@pytest.mark.parametrize("name", FOR_HOPPER)
def test_programs_for_hopper(name: str, how: str) -> None:
    FOR_HOPPER[name](launcher(how))


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["engine", "sm_90"])
@pytest.mark.parametrize("name", cluster_programs.PROGRAMS)
def test_programs_for_clusters(name: str, how: str) -> None:
    cluster_programs.PROGRAMS[name](launcher(how))


@pytest.mark.every(2)
@pytest.mark.parametrize("how", ["sm_100", pytest.param("sm_103", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", blackwell_programs.PROGRAMS)
def test_programs_for_blackwell(name: str, how: str) -> None:
    blackwell_programs.PROGRAMS[name](launcher(how))


@pytest.mark.parametrize("how", ["sm_100", pytest.param("sm_103", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", pair_programs.PROGRAMS)
def test_programs_for_clusters_of_blackwell(name: str, how: str) -> None:
    pair_programs.PROGRAMS[name](launcher(how))
