"""Random tile programs beside NumPy alone, with guard pages around every array.

    python tools/fuzz_tiles.py --minutes 5 --jobs 2 [--seed 0] [--arch native x86-64 haswell]

A program is made of statements on tiles of integers, floats and masks; each is written as kernel
text and computed with NumPy at once, so that the generator knows every value: which accesses are in
bounds, which places programs of the grid share, which floats are exact. Nothing of the compiler's
reference semantics takes part. Arrays end or begin at a page that cannot be accessed; arguments
alias and overlap; processors, sizes of caches, threads, grids and arrays are chosen anew for each
program. Bodies of loops are computed once for each iteration. Compiling may take 2 s of the
processor's time and give 1 MiB of LLVM IR. Program number N is the same everywhere:
`--seed N --programs 1` runs it again, with `--show` its text is printed. With `--schedules` nests
of loops get random lanes, unrolling and versions, as an edited file of the tile stage may. With
`--device` programs run on a GPU or a model of one, with random numbers of warps and stages; their
writes stand between barriers, as threads of a program have no other order. Exits
with 1 if a result is wrong, a process dies or hangs, or a budget is exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
ARCHS = ("native", "x86-64", "haswell", "skylake-avx512")


def work(given: argparse.Namespace) -> None:
    """Run seeds `seed`, `seed + step`, ...; a line of JSON before and after each."""
    from tools.tile_programs.devices import use
    from tools.tile_programs.running import check
    from tools.tile_programs.schedules import random_schedules

    use(given.device)
    for seed in range(given.seed, given.seed + given.programs * given.step, given.step):
        if time.time() > given.until:
            break
        arch = given.arch[seed % len(given.arch)]
        print(json.dumps({"begins": seed, "arch": arch}), flush=True)
        with random_schedules(seed) if given.schedules else nullcontext():
            found = check(seed, arch, given.show, given.device)
        print(json.dumps({"seed": seed, "arch": arch, **found}), flush=True)


def runnable(archs: Sequence[str]) -> list[str]:
    """Those of the processors whose code this machine runs."""
    from tritium.backends.cpu.processors import processor
    from tritium.native.host import host

    return [arch for arch in archs if host().runs_code_of(processor(arch))]


def main() -> None:
    from tools.tile_programs import sessions

    parser = sessions.options(
        __doc__, "cpu", "cuda, interpreter, or a model that executes the code of a GPU here: "
        "simt32, simt64, or the name of an AMD processor"
    )  # fmt: skip
    parser.add_argument(
        "--arch", nargs="+", default=runnable(ARCHS), help="processors, in turn; by default those "
        f"of {', '.join(ARCHS)} whose code runs here"
    )  # fmt: skip
    parser.add_argument(
        "--schedules", action="store_true", help="random schedules and versions of nests"
    )
    given = parser.parse_args()
    if given.work:
        work(given)
        return
    sessions.run(
        __file__, given, ["--arch", *given.arch, *(["--schedules"] if given.schedules else [])]
    )


if __name__ == "__main__":
    main()
