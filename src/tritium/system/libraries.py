"""Search for shared libraries."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tritium import knobs


def open_first(folders: Iterable[str], names: Sequence[str]) -> Any | None:
    """The first library of some folders that can be loaded, by any of its names; the folder "" is
    where the loader looks. None where there is none."""
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if folder and not os.path.isfile(path):
                continue
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


def loaded_library(name: str) -> str | None:
    """The path of a library that this process has loaded, whose name may end with a version; None
    without one."""
    wanted = re.compile(rf"{re.escape(name)}[.\d]*")
    files = knobs.system().loaded_files()
    found = (f for f in files if wanted.fullmatch(os.path.basename(f)) and os.path.exists(f))
    return next(found, None)
