"""The command `proton`: a session around a program, `proton -n NAME PROG ARGS...`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from tritium import compat
from tritium.profiler.flags import flags
from tritium.profiler.profile import BACKENDS, CONTEXTS, DATA, finalize, start
from tritium.system.programs import objection


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "proton", description="Run a program, or pytest, and record its kernels.",
        usage="proton [options] PROG.py ARGS...\n       proton [options] pytest ARGS...",
    )  # fmt: skip
    add = parser.add_argument
    add("-n", "--name", help="path of the file to write, without its suffix")
    add("-b", "--backend", choices=BACKENDS)
    add("-c", "--context", choices=CONTEXTS, default="shadow")
    add("-m", "--mode", help="of the backend")
    add("-d", "--data", choices=tuple(DATA), default="tree")
    add("-k", "--hook", choices=("triton",))
    add("program", nargs=argparse.REMAINDER, help="a program and its arguments")
    args = parser.parse_args(given)
    if not args.program:
        parser.error("a program is needed")
    program, folder = args.program[0], os.path.dirname(args.name or "")
    if os.path.basename(program) != "pytest":
        try:
            reason = objection(program)
        except OSError as error:
            reason = f"{program}: {error.strerror}"
        if reason is not None:
            parser.error(reason)
    if folder and not os.path.isdir(folder):
        parser.error(f"--name {args.name}: there is no folder {folder}")
    return args


def _run(program: str, arguments: list[str]) -> int:
    """Run a program as `python PROG` would; returns its exit status."""
    if os.path.basename(program) == "pytest":
        import pytest

        return int(pytest.main(arguments))
    before, sys.argv = sys.argv, [program, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.argv = before
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `proton`. What the program itself starts and finalizes is not recorded."""
    args = _arguments(arguments)
    compat.install()
    try:
        start(args.name, context=args.context, data=args.data, backend=args.backend,
              mode=args.mode, hook=args.hook)  # fmt: skip
    except (ValueError, NotImplementedError, RuntimeError) as error:
        sys.exit(f"proton: {error}")
    flags.command_line = True
    try:
        status = _run(args.program[0], args.program[1:])
    finally:
        flags.command_line = False
        finalize()
    sys.exit(status)


if __name__ == "__main__":
    main()
