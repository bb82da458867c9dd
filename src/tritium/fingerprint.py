"""Digest of the compiler's sources; part of every cache key."""

from __future__ import annotations

import functools
import hashlib
import os

from tritium.version import __version__

_NOT_THE_COMPILER = frozenset({"__pycache__", "cli", "compat", "testing", "tools"})


@functools.cache
def compiler_key() -> str:
    """A digest of the compiler itself."""
    package = os.path.dirname(os.path.abspath(__file__))
    return hashlib.sha256(f"{__version__} {state_of(package)}".encode()).hexdigest()


def state_of(package: str) -> str:
    """A value that changes when the package in this folder changes.

    An installed package is what its installer recorded: its files are not to be edited. In a
    checkout, where they are, each file counts, by its time of change.
    """
    name = f"{os.path.basename(package)}-{__version__}.dist-info"
    record = os.path.join(os.path.dirname(package), name, "RECORD")
    try:
        return f"{record} {os.stat(record).st_mtime_ns}"
    except OSError:
        return _state_of_files(package)


def _state_of_files(package: str) -> str:
    names: list[str] = []
    pending = [package]
    while pending:
        folder = pending.pop()
        try:
            found = os.listdir(folder)
        except OSError:  # a file without an ending, or gone by now
            continue
        for name in found:
            if name.startswith("."):  # what editors leave while they are at work
                continue
            if name.endswith(".py"):
                names.append(f"{folder}/{name}")
            elif "." not in name and name not in _NOT_THE_COMPILER:
                pending.append(f"{folder}/{name}")
    names.sort()
    return f"{names} {[_changed(name) for name in names]}"


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
