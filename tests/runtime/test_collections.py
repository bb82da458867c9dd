"""How often Python looks for garbage while a kernel is compiled."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from tritium.compiler import compile
from tritium.compiler.compile import Compilation, prepare


def reads_a_text() -> None:
    compile("kernel.ttir")


def compiles() -> None:
    object.__new__(Compilation).run()


@pytest.mark.parametrize("work", [reads_a_text, compiles])
@pytest.mark.parametrize("given", [700, 0, 10**6])
def test_garbage_is_looked_for_seldom_during_a_compilation_alone(
    given: int, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    seen: list[int] = []

    def fail(*args: Any) -> None:
        seen.append(gc.get_threshold()[0])
        raise ValueError("no kernel")

    monkeypatch.setattr(Compilation, "_run", fail)
    monkeypatch.setitem(prepare.__globals__, "IRSource", fail)
    kept = gc.get_threshold()
    try:
        gc.set_threshold(given, *kept[1:])
        with pytest.raises(ValueError, match="no kernel"):
            work()
        assert gc.get_threshold()[0] == given
    finally:
        gc.set_threshold(*kept)
    assert seen[0] > 10_000 if given == 700 else seen == [given]
