"""The random host actions of `tools/fuzz_launch.py`: a sample of them, and what finds faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tritium import knobs
from tritium.backends.base import BaseBackend

pytest.importorskip("torch")

from tools.launch_programs.launches import Mismatch, random_call
from tools.launch_programs.session import Session

pytestmark = pytest.mark.cpu
ROOT = Path(__file__).parents[2]


def run(seed: int, actions: int, device: str = "cpu") -> None:
    command = [
        sys.executable, ROOT / "tools" / "fuzz_launch.py", "--work", "--seed", str(seed),
        "--actions", str(actions), "--device", device,
    ]  # fmt: skip
    environment = {**os.environ, "TRITON_INTERPRET": str(int(device == "interpreter"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@pytest.mark.parametrize("seed", range(4))
def test_sessions_agree_with_the_oracle(seed: int, device: str) -> None:
    run(seed, 60, device)


@pytest.fixture
def session(fresh_cache: Path, tmp_path: Path) -> Iterator[Session]:
    with knobs.runtime.scope(), knobs.cache.scope():
        yield Session(3, "cpu", tmp_path)


def test_a_session_agrees_with_the_oracle(session: Session) -> None:
    session.run(5)


@pytest.mark.parametrize("fault", ["aligned", "not compiled"])
def test_faults_are_found(session: Session, monkeypatch: Any, fault: str) -> None:
    """Kernels that do not fit their arguments, and ones that are compiled too rarely."""

    def launch() -> None:
        for _ in range(12):
            live = session.lives[0]
            session.do(live, random_call(session.source, live, session.arguments))

    if fault == "aligned":
        aligned = staticmethod(lambda arg, **kwargs: "D")
        monkeypatch.setattr(BaseBackend, "get_int_specialization", aligned)
    else:
        session.lives[0].function.device_caches[0]
        monkeypatch.setattr(session, "_compiles", lambda **told: None)
        knobs.runtime.jit_cache_hook = session._compiles
    with pytest.raises(Mismatch, match="divisible" if fault == "aligned" else "compiled 0 times"):
        launch()
