"""Launches whose cache entry is damaged, whose cache cannot be written, or that are interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.backends.cpu.compiler import CPUBackend

pytestmark = pytest.mark.cpu


@tritium.jit
def fill(out, value):
    tl.store(out + tl.program_id(0), value)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("TRITON_CACHE_DIR", str(path))
    return path


def launch(value: int = 7) -> list[bool]:
    """Launch as a new process would, check the result, and say whether it was compiled."""
    kernel = tritium.jit(fill.fn)
    hits: list[bool] = []
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda **info: hits.append(info["cache_hit"])  # pyright: ignore
        out = np.zeros(3, np.int32)
        kernel[(3,)](out, value)
    assert out.tolist() == [value] * 3
    return hits


def files(cache: Path) -> dict[str, Path]:
    (path,) = cache.glob("*/fill.json")
    return {p.name: p for p in path.parent.iterdir()}


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "flipped": lambda path: path.write_bytes(
        path.read_bytes()[:-9] + bytes([path.read_bytes()[-9] ^ 1]) + path.read_bytes()[-8:]
    ),
    "other": lambda path: path.write_bytes(b'{"a": []}'),
    "unreadable": lambda path: (path.unlink(), path.mkdir()),  # for root, too
}


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["fill.obj", "fill.json", "fill.ttir", "__grp__fill.json"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_entries_are_compiled_again(cache: Path, name: str, damage: str) -> None:
    assert launch() == [False] and launch() == [True]
    DAMAGE[damage](files(cache)[name])
    with pytest.warns(RuntimeWarning, match=r"ignoring the damaged cache entry .*fill") as seen:
        assert launch() == [False]
    assert len([w for w in seen if "ignoring the damaged" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert launch() == [True]


def test_a_wrong_digest_that_the_group_believes(cache: Path) -> None:
    """Metadata that is valid JSON but not what was stored is not used."""
    launch()
    path = files(cache)["fill.json"]
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "scratch_bytes": 1 << 40}))
    with pytest.warns(RuntimeWarning, match=r"its content is not what was stored"):
        assert launch() == [False]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """A file stands where the cache directory should be: kernels run, with one warning."""
    (tmp_path / "file").touch()
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import warnings
        import numpy as np
        import tritium, tritium.language as tl

        @tritium.jit
        def fill(out, value):
            tl.store(out + tl.program_id(0), value)

        out = np.zeros(3, np.float64)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for value in (3, 16, 1, 2.5):
                fill[(3,)](out, value)
                assert (out == value).all()
                assert "tt.store" in fill[(3,)](out, value).asm["ttir"]
        texts = [str(w.message) for w in seen]
        assert len(texts) == 1 and "cannot be written" in texts[0], texts
        assert "kept in memory" in texts[0]
        print("fine")
    """)
    )
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "file" / "cache")}
    result = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True
    )
    assert result.stdout == "fine\n", result.stderr


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tritium.cache import FileCacheManager

    def full(self: Any, path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileCacheManager, "_write", full)
    with pytest.warns(RuntimeWarning, match=r"cannot be written.*No space left") as seen:
        assert launch() == [False]
        assert launch(5) == [True], "it is found in memory"
    assert len([w for w in seen if "cannot be written" in str(w.message)]) == 1
    assert not [p for p in cache.rglob("*") if p.is_file()]


@pytest.mark.parametrize("stage", ["ttir", "tile", "llir", "obj"])
def test_an_interrupt_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    original = CPUBackend.add_stages

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        original(self, stages, *rest)

        def interrupted(*_: Any) -> Any:
            raise KeyboardInterrupt

        stages[stage] = interrupted

    with monkeypatch.context() as patch:
        patch.setattr(CPUBackend, "add_stages", add_stages)
        with pytest.raises(KeyboardInterrupt):
            launch()
    assert not list(cache.glob("*/__grp__fill.json")) and not list(cache.glob("*/tmp.*"))
    assert not list(cache.glob("*/fill.*")), "no part of an entry"
    assert launch() == [False] and launch() == [True]


def test_an_interrupt_while_storing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(source: Any, target: Any) -> None:
        if str(target).endswith("fill.obj"):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            launch()
    assert not list(cache.glob("*/__grp__fill.json")) and not list(cache.glob("*/tmp.*"))
    assert launch() == [False] and launch() == [True]


def test_a_compilation_error_leaves_nothing(cache: Path) -> None:
    @tritium.jit
    def wrong(out):
        tl.store(out, undefined)  # noqa: F821  # pyright: ignore

    with pytest.raises(tritium.CompilationError, match=r"undefined"):
        wrong[(1,)](np.zeros(1))
    assert not list(cache.glob("*/wrong.*"))
