"""Random Gluon programs beside NumPy alone.

    python tools/fuzz_gluon.py --device simt32 --minutes 5 --jobs 2 [--seed 0]

A program is made of statements on tiles in random layouts, on shared memory in random layouts and
views of it, on matrix units, copies beside the program and partitions of warps, in loops and
branches; each is written as kernel text and computed with NumPy at once. A program is valid as it
is made: barriers are where they must be, so that a wrong result or an error is a fault. Arrays lie
between pages (on a GPU: bytes) that must not be accessed. Program number N of a device is the same
everywhere: `--seed N --programs 1` runs it again, with `--show` its text is printed. Exits with 1
if a result is wrong, a kernel is refused, or a process dies or hangs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def work(given: argparse.Namespace) -> None:
    """Run seeds `seed`, `seed + step`, ...; a line of JSON before and after each."""
    from tools.gluon_programs.running import check
    from tools.tile_programs.devices import use

    use(given.device)
    for seed in range(given.seed, given.seed + given.programs * given.step, given.step):
        if time.time() > given.until:
            break
        print(json.dumps({"begins": seed}), flush=True)
        found = check(seed, given.device, given.show)
        print(json.dumps({"seed": seed, **found}), flush=True)


def main() -> None:
    from tools.gluon_programs.running import ABILITIES
    from tools.tile_programs import sessions

    given = sessions.options(__doc__, "simt32", " ".join(ABILITIES)).parse_args()
    if given.work:
        work(given)
        return
    sessions.run(__file__, given)


if __name__ == "__main__":
    main()
