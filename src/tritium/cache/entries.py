"""The entries of a cache folder: recognizing, measuring and removing them.

A cache folder may hold anything beside entries: `TRITON_CACHE_DIR` is the user's choice. An entry
is a folder (not a link to one) with the name that `cache` gives to a SHA-256 digest. It holds
files, and folders in which an interrupted process left parts of files. Anything else is foreign.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tritium import knobs
from tritium.cache.files import PARTS_PREFIX

# 256 bits in base 32: 51 characters of 5 bits, and one of which only the top bit is used.
_NAME = re.compile(r"[A-Z2-7]{51}[AQ]")
_GROUP = "__grp__"


class FolderError(OSError):
    """The folder that the settings name cannot be that of a cache."""


@dataclass(frozen=True)
class Entry:
    """One entry on disk.

    Attributes:
        path: its folder.
        kernels: how many compiled kernels it holds, that is groups with a metadata file. Launchers
            and tuning results are entries without one.
        size: bytes of all its files.
    """

    path: Path
    kernels: int
    size: int

    def remove(self) -> bool:
        """Delete the entry once no process writes it; False if something foreign is in it."""
        with knobs.system().lock(str(self.path)):
            if not _is_entry(self.path):
                return False
            for item in _listed(self.path):
                if item.is_dir() and not item.is_symlink():
                    shutil.rmtree(item)
                else:
                    item.unlink(missing_ok=True)
            with suppress(OSError):  # another process began to write it again
                self.path.rmdir()
        return True


def find_entries(folder: str) -> tuple[list[Entry], list[Path]]:
    """The entries of a cache folder, and the folders in it that are none.

    Raises:
        FolderError: `folder` is no folder for a cache.
        OSError: the folder cannot be read.
    """
    entries: list[Entry] = []
    foreign: list[Path] = []
    for path in sorted(_listed(_checked(folder))):
        if path.is_dir():
            if _is_entry(path):
                entries.append(_measured(path))
            else:
                foreign.append(path)
    return entries, foreign


def _checked(folder: str) -> Path:
    if not folder.strip():
        raise FolderError("the cache folder is an empty text; set TRITON_CACHE_DIR to a folder")
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FolderError(f"the cache folder {path} is a file; set TRITON_CACHE_DIR to a folder")
    return path


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _is_entry(path: Path) -> bool:
    """The name is a digest's, and all that is inside can have been written by a cache manager."""
    if not _NAME.fullmatch(path.name) or path.is_symlink():
        return False
    return all(_can_be_ours(item) for item in _listed(path))


def _can_be_ours(item: Path) -> bool:
    if item.is_symlink():
        return False
    return not item.is_dir() or item.name.startswith(PARTS_PREFIX)


def _measured(path: Path) -> Entry:
    kernels = sum(
        item.name.startswith(_GROUP) and path.joinpath(item.name[len(_GROUP) :]).exists()
        for item in _listed(path)
    )
    return Entry(path, kernels, sum(_sizes(path)))


def _sizes(path: Path) -> Iterator[int]:
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # a process has just replaced it
            if file.is_file():
                yield file.stat().st_size
