"""Random programs under the checks of the sanitizer: none is reported, each planted fault is.

    python tools/fuzz_sanitize.py --minutes 5 [--seed 0] [--device cpu]

Each program (those of `tools/fuzz_tiles.py`) gets one more statement and runs with all checks:
nothing may be reported, and memory must be as NumPy says. Then it runs with a fault in that
statement, with its check alone or with all of them: an index one beyond an array (or one before
it), a mask left out, programs that write what others read or write, a load of what nobody wrote, a
function without a finite result. The report must name the line, a program that does it, and the
element that it does it to; of a race both lines, of a NaN the line that made it. Program number N
is the same everywhere: `--seed N --programs 1 --show`. Exits with 1 for a fault of the sanitizer.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu", help="cpu, interpreter, cuda")
    parser.add_argument("--show", action="store_true", help="print the programs")
    given = parser.parse_args()
    from tools.tile_programs.devices import use
    from tools.tile_programs.sanitized import check

    use(given.device)
    outcomes: collections.Counter[str] = collections.Counter()
    until = time.time() + 60 * given.minutes
    faults = 0
    for seed in range(given.seed, given.seed + given.programs):
        if time.time() > until:
            break
        for faulty in (False, True):
            found = check(seed, faulty, given.device, given.show)
            outcomes[f"{found['kind']}: {found['outcome']}"] += 1
            if found["outcome"] not in ("nothing", "reported", "too large"):
                faults += 1
                print(json.dumps({"seed": seed, "faulty": faulty, **found}), flush=True)
    print(json.dumps({"programs": outcomes.total(), "outcomes": outcomes, "faults": faults}))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
