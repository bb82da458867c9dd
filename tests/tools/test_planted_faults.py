"""The programs with planted faults of `tools/fuzz_sanitize.py`: a sample, and what it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.tile_programs import planted, sanitized

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("seed", range(24, 28))
def test_a_planted_fault_is_reported(seed: int) -> None:
    kind, found = sanitized.KINDS[seed % 4], sanitized.check(seed, True)
    assert (found["kind"], found["outcome"]) == (kind, "reported")


def test_nothing_is_reported_without_the_fault() -> None:
    assert sanitized.check(24, False) | {"text": ""} == {
        "kind": sanitized.KINDS[0], "mode": "bounds,races,unwritten,fp", "outcome": "nothing",
        "text": "",
    }  # fmt: skip


@pytest.mark.parametrize(("seed", "changes", "outcome"), [
    (24, {"places": frozenset({(0, 1)})}, "reported of another element"),
    (24, {"argument": "p0"}, "reported of another element"),
    (24, {"kind": "races"}, "reported as something else"),
    (27, {"words": "overflow"}, "reported as something else"),
])  # fmt: skip
def test_wrong_reports_are_found(
    seed: int, changes: dict, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(planted.Plant):
        def _want(self, words, argument, places) -> None:
            super()._want(words, argument, places)
            self.wanted = replace(self.wanted, **changes)

    monkeypatch.setattr(sanitized, "Plant", Other)
    assert sanitized.check(seed, True)["outcome"] == outcome


@pytest.mark.parametrize("name", ["FAULT", "OTHER"])
def test_wrong_lines_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitized, name, "):")  # the line of the kernel's head
    assert sanitized.check(27, True)["outcome"] == "reported at other lines"


def test_an_origin_that_is_not_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tritium.sanitize.floats.origin", lambda *given: None)
    assert sanitized.check(27, True)["outcome"] == sanitized.UNKNOWN


def test_a_missing_report_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # A fault that no guard page ends the process for.
    monkeypatch.setattr(sanitized, "KINDS", ("fp",) * 4)
    monkeypatch.setattr("tritium.sanitize.floats.CheckFloats.run", lambda self, module: False)
    assert sanitized.check(40, True)["outcome"] == "not reported"
