"""Gluon programs against NumPy: as the reference semantics run them, and as compiled for warps."""

from __future__ import annotations

import pytest

from tests.gluon.programs import PROGRAMS
from tests.gluon.support import HOW, launcher


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, how: str) -> None:
    PROGRAMS[name](launcher(how))
