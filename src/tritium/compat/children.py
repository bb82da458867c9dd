"""Pass the alias on to child processes.

Python runs a module `sitecustomize` at its start. `site/` holds one that installs the alias.
That folder is at the head of `PYTHONPATH`, which reaches every Python that a program starts, be it
by multiprocessing (spawn, forkserver), by subprocess, or by a launcher such as torchrun. It is in
`sys.path` too: some programs, torch's compile workers among them, give a child a `PYTHONPATH` that
they make of `sys.path`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tritium import knobs

_VARIABLE = "PYTHONPATH"
_SITE = str(Path(__file__).absolute().parent / "site")


def _others() -> list[str]:
    entries = (knobs.getenv(_VARIABLE) or "").split(os.pathsep)
    return [e for e in entries if e and e != _SITE]


def enable() -> None:
    """Let Python processes started from now on install the alias at their start."""
    knobs.setenv(_VARIABLE, os.pathsep.join([_SITE, *_others()]))
    if _SITE not in sys.path:
        # Not first: that is the folder of the program, where Python and programs look for it.
        sys.path.insert(1, _SITE)


def disable() -> None:
    """Undo `enable()`."""
    knobs.setenv(_VARIABLE, os.pathsep.join(_others()) or None)
    sys.path[:] = [entry for entry in sys.path if entry != _SITE]
