"""Programs that commands run: Python files, and folders and zip files with a `__main__`."""

from __future__ import annotations

import os


def is_zip(path: str) -> bool:
    """True if a file is a zip archive, which may be a program."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def objection(path: str) -> str | None:
    """The reason why a path cannot be run as a program, which names the path; None where it can.
    Raises `OSError` for a file that cannot be read."""
    if not os.path.exists(path):
        return f"{path}: no such file"
    if os.path.isdir(path):
        main = os.path.join(path, "__main__.py")
        return None if os.path.exists(main) else f"{path}: a folder without __main__.py"
    with open(path, "rb") as file:
        if b"\0" in file.read(4096) and not is_zip(path):
            return f"{path} is no program: it is no text"
    return None
