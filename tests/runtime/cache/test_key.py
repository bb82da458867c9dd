"""The compiler's part of the cache's keys."""

from __future__ import annotations

import os
from pathlib import Path

from tritium.fingerprint import state_of
from tritium.version import __version__


def touch(path: Path, seconds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (seconds, seconds))


def test_in_a_checkout_each_file_counts(tmp_path: Path):
    package = tmp_path / "tritium"
    touch(package / "ops" / "base.py", 1)
    touch(package / "cli" / "demo.py", 1)
    states = [state_of(str(package))]
    touch(package / "ops" / "base.py", 2)
    states.append(state_of(str(package)))
    touch(package / "ops" / "more.py", 2)
    states.append(state_of(str(package)))
    assert len(set(states)) == 3
    touch(package / "cli" / "demo.py", 2)  # no part of the compiler
    assert state_of(str(package)) == states[-1]


def test_what_is_no_source_does_not_matter(tmp_path: Path):
    """A file without an ending, and the dangling link by which an editor locks a file."""
    package = tmp_path / "tritium"
    touch(package / "ops" / "base.py", 1)
    state = state_of(str(package))
    touch(package / "ops" / "NOTES", 1)
    (package / "ops" / ".#base.py").symlink_to("nobody@nowhere")
    assert state_of(str(package)) == state


def test_an_installed_package_is_what_was_installed(tmp_path: Path):
    package, record = tmp_path / "tritium", tmp_path / f"tritium-{__version__}.dist-info" / "RECORD"
    touch(package / "ops" / "base.py", 1)
    touch(record, 1)
    first = state_of(str(package))
    touch(record, 2)
    assert state_of(str(package)) != first
