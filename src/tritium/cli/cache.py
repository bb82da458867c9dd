"""`tritium cache`: where the compiled kernels are, how big they are, and removing them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tritium import knobs


def folder() -> Path:
    """The folder of the on-disk cache, as the settings of this process have it."""
    return Path(knobs.cache.dir)


def _entries() -> list[Path]:
    try:
        return [entry for entry in folder().iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []


def measure() -> tuple[int, int]:
    """The number of cached kernels and their size in bytes."""
    entries = _entries()
    total = sum(f.stat().st_size for e in entries for f in e.rglob("*") if f.is_file())
    return len(entries), total


def describe() -> str:
    """One line for people: where, how many, how big."""
    kernels, size = measure()
    return f"{folder()}: {kernels} kernels, {_readable(size)}"


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def clear_all() -> int:
    """Remove every entry; returns how many there were. Other files in the folder stay."""
    entries = _entries()
    for entry in entries:
        shutil.rmtree(entry)
    return len(entries)
