"""Random calls of `tritium_kernels` beside NumPy's float64.

    python tools/fuzz_kernels.py --minutes 5 --jobs 2 [--device cuda] [--only softmax norm]

A call has random shapes about the sizes of tiles, types, layouts in memory (transposed, sliced,
expanded, negative views, ...), kinds of numbers (huge, tiny, ties, infinite, NaN, ...) and options.
It is made several times, so that it is repeated from a record: with and without gradients, under
`no_grad`, in threads, by torch's tracers and compiler. Results and gradients are compared with the
same computation in NumPy, which carries a bound of the error that each operation may make in the
kernels' type (`tools/kernel_calls/bounded.py`); there are no tolerances. Call number N is the same
everywhere: `--seed N --programs 1` makes it again. Exits with 1 if one was wrong or a process died.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def work(given: argparse.Namespace) -> None:
    """Make calls `seed`, `seed + step`, ...; a line of JSON before and after each."""
    import torch

    from tools.kernel_calls.cases import CASES
    from tools.kernel_calls.checking import Wrong, check
    from tools.kernel_calls.operands import Source

    torch.set_num_threads(1)
    known = {case.__name__: case for case in CASES}
    if unknown := [name for name in given.only if name not in known]:
        sys.exit(f"--only {' '.join(unknown)}: the cases are {', '.join(known)}")
    cases = [known[name] for name in given.only or known]
    for seed in range(given.seed, given.seed + given.programs * given.step, given.step):
        if time.time() > given.until:
            break
        source = Source(seed)
        source.device = given.device
        case = source.choice(cases)
        print(json.dumps({"begins": seed, "case": case.__name__}), flush=True)
        line = {"seed": seed, "case": case.__name__, "outcome": "wrong"}
        trial = None
        try:
            trial = case(source)
            check(trial, source)
            line["outcome"] = "right"
        except Wrong as wrong:
            line["text"] = str(wrong)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            line["text"] = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            if given.show:
                traceback.print_exc()
        if "text" in line and trial is not None:
            line["call"] = trial.text()
        print(json.dumps(line), flush=True)


def main() -> None:
    from tools.tile_programs import sessions

    parser = sessions.options(__doc__, "cpu", "cpu or cuda")
    parser.add_argument("--only", nargs="+", default=[], help="names of cases")
    given = parser.parse_args()
    if given.work:
        work(given)
        return
    sessions.run(__file__, given, ["--only", *given.only] if given.only else [], hangs=300.0)


if __name__ == "__main__":
    main()
