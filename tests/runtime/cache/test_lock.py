"""Locks of a cache's directories: Linux's, and the portable one."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tritium.system import linux, portable

SYSTEMS = {"linux": linux.Linux(), "portable": portable.Portable()}


@pytest.mark.parametrize("name", SYSTEMS)
def test_one_at_a_time(name: str, tmp_path: Path) -> None:
    system: Any = SYSTEMS[name]
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with system.lock(str(tmp_path)):
                inside.append(number)
                most.append(len(inside))
                os.sched_yield()
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 80 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_child_forked_meanwhile_does_not_keep_it(name: str, tmp_path: Path) -> None:
    system: Any = SYSTEMS[name]
    with system.lock(str(tmp_path)):
        if (child := os.fork()) == 0:
            signal.alarm(100)
            signal.pause()
    again = threading.Event()

    def take() -> None:
        with system.lock(str(tmp_path)):
            again.set()

    thread = threading.Thread(target=take)
    thread.start()
    taken = again.wait(10)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    thread.join()
    assert taken


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_is_released_by_errors(name: str, tmp_path: Path) -> None:
    system: Any = SYSTEMS[name]
    for _ in range(2):
        with pytest.raises(KeyError), system.lock(str(tmp_path)):
            raise KeyError


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_cannot_be_locked_is_not(name: str, tmp_path: Path) -> None:
    system: Any = SYSTEMS[name]
    (tmp_path / "file").touch()
    for place in (tmp_path / "nowhere", tmp_path / "file" / "below"):
        with system.lock(str(place)):
            assert not place.exists()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    lock.touch()
    os.utime(lock, (1, 1))
    with portable.Portable().lock(str(tmp_path)):
        assert lock.stat().st_mtime > 1
    assert not lock.exists()


def test_a_place_that_refuses_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows while the file is being removed, or where nothing can be written."""
    calls: list[Any] = []

    def refuse(*args: Any) -> int:
        calls.append(args)
        raise PermissionError

    monkeypatch.setattr(portable.os, "open", refuse)
    with portable.Portable().lock(str(tmp_path)):
        assert len(calls) > 1


def test_sizes_of_caches_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"hw.perflevel0.l2cachesize": 12 << 20, "hw.l2cachesize": 4 << 20, "hw.l3cachesize": 0}
    monkeypatch.setattr(portable, "_sysctl", lambda name: sizes.get(name, 0))
    assert portable.Portable().cache_sizes() == {}
    monkeypatch.setattr(portable.sys, "platform", "darwin")
    assert portable.Portable().cache_sizes() == {2: 12 << 20}
