"""`tritium cache`: where the compiled kernels are, how big they are, and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tritium import knobs
from tritium.cache.entries import Entry, find_entries


@dataclass(frozen=True)
class Count:
    """The amount of something that the cache holds, or held.

    Attributes:
        kernels: compiled kernels.
        others: entries without one: launchers, tuning results.
        size: bytes of all.
        foreign: folders that are not the cache's.
    """

    kernels: int
    others: int
    size: int
    foreign: int

    def __str__(self) -> str:
        text = f"{self.kernels} kernels"
        if self.others:
            text += f", {self.others} other entries"
        return text


def folder() -> Path:
    """The folder of the on-disk cache, as the settings of this process have it."""
    return Path(knobs.cache.dir)


def measure() -> Count:
    """A summary of the cache's contents."""
    entries, foreign = find_entries(knobs.cache.dir)
    return _count(entries, len(foreign))


def _count(entries: Sequence[Entry], foreign: int) -> Count:
    kernels = sum(entry.kernels for entry in entries)
    others = sum(not entry.kernels for entry in entries)
    return Count(kernels, others, sum(entry.size for entry in entries), foreign)


def describe() -> str:
    """One line for people: where, how many, how big."""
    found = measure()
    return f"{folder()}: {found}, {_readable(found.size)}"


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def clear_all() -> Count:
    """Remove every entry and nothing else; returns what was removed, and what is not ours."""
    entries, foreign = find_entries(knobs.cache.dir)
    removed = [entry for entry in entries if entry.remove()]
    return _count(removed, len(foreign) + len(entries) - len(removed))
