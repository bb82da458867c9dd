"""Trials of configurations in a child process."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from tritium.runtime.autotuning import measuring
from tritium.runtime.autotuning.measuring import Trials
from tritium.runtime.workers import children
from tritium.runtime.workers.children import ChildTimeout, available

pytestmark = pytest.mark.skipif(not available(), reason="needs forks")


@pytest.mark.parametrize("often", [1, 2])
def test_a_trial_whose_child_does_not_get_ready(
    often: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets another child, once: the first may have been forked while a lock was held."""

    def prepare() -> None:
        (tmp_path / str(os.getpid())).touch()
        if len(list(tmp_path.iterdir())) <= often:
            signal.pause()

    monkeypatch.setattr(children, "READY", 2.0 if often == 1 else 0.5)  # no child gets ready
    monkeypatch.setattr(measuring, "_prepare_to_launch", prepare)
    with closing(Trials(lambda number: lambda: None, 60.0)) as trials:
        if often == 1:
            assert trials.run(0) is not None and trials.run(1) is not None
        else:
            with pytest.raises(ChildTimeout, match=r"was not ready within 0\.5 s"):
                trials.run(0)
