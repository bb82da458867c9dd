"""Gluon programs against NumPy: as the reference semantics run them, and as compiled for warps."""

from __future__ import annotations

import pytest

from tests.gluon import hopper_programs, memory_programs, programs
from tests.gluon.support import HOW, launcher

PROGRAMS = {**programs.PROGRAMS, **memory_programs.PROGRAMS}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, how: str) -> None:
    PROGRAMS[name](launcher(how))


@pytest.mark.parametrize("how", ["interpreted", "sm_90"])
@pytest.mark.parametrize("name", hopper_programs.PROGRAMS)
def test_programs_for_hopper(name: str, how: str) -> None:
    hopper_programs.PROGRAMS[name](launcher(how))
