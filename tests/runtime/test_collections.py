"""How often Python looks for garbage while a kernel is compiled."""

from __future__ import annotations

import gc

import pytest

from tritium.compiler.compile import Compilation


@pytest.mark.parametrize("given", [700, 0, 10**6])
def test_garbage_is_looked_for_seldom_during_a_compilation_alone(
    given: int, monkeypatch: pytest.MonkeyPatch
):
    seen: list[int] = []

    def fail(self: Compilation, timer: object) -> None:
        seen.append(gc.get_threshold()[0])
        raise ValueError("no kernel")

    monkeypatch.setattr(Compilation, "_run", fail)
    job = object.__new__(Compilation)
    kept = gc.get_threshold()
    try:
        gc.set_threshold(given, *kept[1:])
        with pytest.raises(ValueError, match="no kernel"):
            job.run()
        assert gc.get_threshold()[0] == given
    finally:
        gc.set_threshold(*kept)
    assert seen[0] > 10_000 if given == 700 else seen == [given]
