"""Random programs of scalars do what Python and NumPy alone say (see tools/fuzz_frontend.py)."""

from __future__ import annotations

import pytest

from tests.frontend.scalar_model import Number, Refused, computed
from tests.frontend.scalar_programs import Program, wrong
from tests.support.agreement import WAYS


def run(seeds: range, way: str) -> int:
    """Run the programs of some seeds; how many have a meaning."""
    ran = 0
    for seed in seeds:
        program = Program(seed)
        try:
            found = wrong(program, WAYS[way])
        except (Refused, OverflowError):
            continue
        assert not found, f"seed {seed}, {way}: {found}\n{program.text}"
        ran += 1
    return ran


@pytest.mark.every(2)
@pytest.mark.parametrize("way", ["evaluated", "interpreted"])
def test_programs_do_what_they_mean(way: str) -> None:
    assert run(range(5), way) > 2


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS))
def test_more_programs(way: str) -> None:
    assert run(range(100, 200), way) > 50


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the model multiplies wrongly, programs differ from it."""

    def wrongly(a: object, b: object) -> Number:
        return computed("-", a, b)

    monkeypatch.setattr(Number, "__mul__", wrongly)
    with pytest.raises(AssertionError, match="instead of"):
        run(range(8), "interpreted")
