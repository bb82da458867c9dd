"""Search for the HIP runtime's library, in the order of the reference: the one that is
loaded already, so that there are not two; torch's; those of `LD_LIBRARY_PATH`, `HIP_PATH`,
`hipconfig`, `ROCM_PATH`; those that the loader knows; ROCm's usual folder. `TRITON_LIBHIP_PATH`
goes before all."""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from tritium import knobs
from tritium.system.libraries import loaded_library, open_first

USUAL = "/opt/rocm"
"""The folder in which ROCm is installed by default."""
_WINDOWS = sys.platform == "win32"
_NAME = "amdhip64.dll" if _WINDOWS else "libamdhip64.so"
_VERSIONS = ("", "_7", "_6") if _WINDOWS else ("", ".7", ".6", ".5")
"""Endings of the library's name; only the development packages install it without a version."""


def open_library() -> Any:
    """The library. Raises `OSError`, which lists where it was looked for, if there is none."""
    if path := knobs.amd.libhip_path or loaded_library(_NAME):
        return ctypes.CDLL(path)
    found = open_first(chain(_folders(), [""]), names())
    if found is None:
        where = ", ".join(_folders())
        raise OSError(f"{_NAME} is not in {where}, and the loader does not know it")
    return found


def names() -> list[str]:
    """The names that the library's file may have."""
    stem, dot, last = _NAME.partition(".dll")
    return [f"{stem}{version}{dot}{last}" for version in _VERSIONS]


def _folders() -> Iterator[str]:
    torch = importlib.machinery.PathFinder.find_spec("torch")
    for root in torch.submodule_search_locations or () if torch else ():
        yield os.path.join(root, "lib")
    yield from filter(None, (knobs.getenv("LD_LIBRARY_PATH") or "").split(os.pathsep))
    below = "bin" if _WINDOWS else "lib"
    for find in (partial(knobs.getenv, "HIP_PATH"), _hipconfig,
                 partial(knobs.getenv, "ROCM_PATH"), lambda: USUAL):  # fmt: skip
        if root := find():
            yield os.path.join(root, below)


def _hipconfig() -> str | None:
    """The folder of HIP that its tool names; None without the tool."""
    import shutil  # this and the next take long to import, at the start of each program
    import subprocess

    program = shutil.which("hipconfig")
    if program is None:
        return None
    try:
        done = subprocess.run([program, "--path"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None
