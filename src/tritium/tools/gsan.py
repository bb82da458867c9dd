"""Run a program with the sanitizer's search for races: `python -m tritium.tools.gsan PROG ARGS...`,
the reference's name of `tritium run --sanitize races PROG ARGS...`."""

from __future__ import annotations

import runpy
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from tritium import compat, knobs
from tritium.system.programs import objection


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = ArgumentParser(prog="python -m tritium.tools.gsan", description=__doc__)
    parser.add_argument("script", type=Path, help="the program")
    parser.add_argument("script_args", nargs=REMAINDER, help="its arguments")
    args = parser.parse_args(argv)
    script: Path = args.script.resolve()
    try:
        reason = objection(str(args.script))
    except OSError as error:
        reason = f"{args.script}: {error.strerror}"
    if reason is not None:
        parser.error(reason)
    given = args.script_args[1:] if args.script_args[:1] == ["--"] else args.script_args
    was_installed, old_argv, old_path = compat.is_installed(), sys.argv[:], sys.path[:]
    compat.install()
    sys.argv = [str(script), *given]
    sys.path.insert(0, str(script.parent))
    try:
        with knobs.compilation.scope():
            knobs.compilation.instrumentation_mode = "gsan"
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = old_argv, old_path
        if not was_installed:
            compat.uninstall()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
