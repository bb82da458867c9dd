"""Pass the alias on to child processes.

Python runs a module `sitecustomize` at its start. `site/` holds one that installs the alias;
putting that folder at the head of `PYTHONPATH` reaches every Python that a program starts, be it
by multiprocessing (spawn, forkserver), by subprocess, or by a launcher such as torchrun.
"""

from __future__ import annotations

import os
from pathlib import Path

from tritium import knobs

_VARIABLE = "PYTHONPATH"
_SITE = str(Path(__file__).parent / "site")


def _others() -> list[str]:
    entries = (knobs.getenv(_VARIABLE) or "").split(os.pathsep)
    return [e for e in entries if e and e != _SITE]


def enable() -> None:
    """Let Python processes started from now on install the alias at their start."""
    knobs.setenv(_VARIABLE, os.pathsep.join([_SITE, *_others()]))


def disable() -> None:
    """Undo `enable()`."""
    knobs.setenv(_VARIABLE, os.pathsep.join(_others()) or None)
