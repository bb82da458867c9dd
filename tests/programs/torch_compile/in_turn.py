"""Programs of this folder in one process, as importing torch's compiler takes longer than most of
them: `tritium run in_turn.py PROGRAM ARGUMENT... -- PROGRAM ...`."""

from __future__ import annotations

import runpy
import sys
from itertools import groupby
from pathlib import Path


def main(words: list[str]) -> None:
    for between, group in groupby(words, "--".__eq__):
        if not between:
            sys.argv = [*group]
            runpy.run_path(str(Path(__file__).parent / sys.argv[0]), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
