"""Work that a compilation puts off until it waits for another program."""

from __future__ import annotations

from pathlib import Path

import pytest

import tritium
from tritium import knobs
from tritium.backends.waiting import catch_up, put_off, waiting
from tritium.target import GPUTarget

REFERENCE = Path(__file__).parents[1] / "ir" / "reference"


def test_tasks_are_done_in_a_wait_or_at_the_end():
    done = list[int]()
    put_off(lambda: done.append(0))
    assert done == [0]  # nothing waits
    with waiting():
        put_off(lambda: done.append(1))
        put_off(lambda: done.append(2))
        assert done == [0]
        catch_up()
        assert done == [0, 1, 2]
        put_off(lambda: done.append(3))
    assert done == [0, 1, 2, 3]


def test_tasks_of_what_fails_are_dropped():
    done = list[int]()
    with pytest.raises(ValueError, match="no"), waiting():
        put_off(lambda: done.append(1))
        raise ValueError("no")
    catch_up()
    assert done == []


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_a_text_that_is_made_late_is_that_of_its_stage(
    name: str, no_ptxas: None, monkeypatch: pytest.MonkeyPatch
):
    """With a hook for stages no text is put off."""
    source, target = REFERENCE / f"{name}.ttir", GPUTarget("cuda", 90, 32)
    late = tritium.compile(source, target=target).asm
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", lambda *_: ("key", "hash"))
    at_once = tritium.compile(source, target=target).asm
    assert late["ttgir"] and list(late.items()) == list(at_once.items())
