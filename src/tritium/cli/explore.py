"""`tritium explore`: compile kernels and write the page that shows how."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritium import knobs
from tritium.compiler import compile as compile_source
from tritium.errors import TritonError
from tritium.system.programs import objection
from tritium.tools.compile import CompileArgs, compile_given, load_kernel, target_of
from tritium.tools.explore.record import KernelRecord, Recorder

STAGE_FILES = (".ttir", ".ttgir")
_OTHER_FILES = (".json", ".html", ".llir", ".ptx", ".sass", ".cubin", ".so", ".o")
"""Files that this package writes, and that are neither programs nor stages to compile from."""
OPTIONS = ("--output", "-o", "--kernel", "--target", "--signature", "--profile", "--against",
           "--target-b", "--set-b")  # fmt: skip
"""The options of `tritium explore`, which stand before the program."""


class ExploreError(TritonError):
    """Error: there is nothing to show, or a library is missing."""


def explore(
    program: Sequence[str], output: Path, kernel: str | None, target: str | None,
    signature: str | None, *, profile: Path | None = None, other: Other | None = None,
) -> tuple[Path, list[str]]:  # fmt: skip
    """Write the page; returns its path and the kernels that it shows.

    Args:
        program: a file of IR; a profile; or a program with its arguments, which is run; or with
            `signature` a file that defines the kernel, which is compiled without a launch.
        output: with the ending `.json` it takes what the page would show, for `--against`.
        kernel: show only kernels of this name.
        target: what to compile for, where nothing is run.
        signature: as of `tritium.tools.compile`.
        profile: a profile to show, too.
        other: another run beside which this one is shown.
    """
    try:
        from tritium.tools.explore.page import FORMAT, kernel_data, render
        from tritium.tools.explore.profile import ENDINGS, profile_of
    except ImportError as error:
        raise ExploreError(
            f"tritium explore needs jinja2 and pygments ({error}): pip install 'tritium[explore]'"
        ) from None
    if not output.absolute().parent.is_dir():
        raise ExploreError(f"--output {output}: there is no folder {output.parent}")
    title = " ".join(program[:2]) if program[0] in ("-m", "-c") else Path(program[0]).name
    if program[0].endswith(ENDINGS):
        _alone(program)
        given = {"kernel": kernel, "target": target, "signature": signature, "profile": profile,
                 "against": other}  # fmt: skip
        if unused := next((name for name, value in given.items() if value is not None), None):
            raise ExploreError(f"{program[0]} is a profile, for which --{unused} says nothing")
        shown = profile_of(Path(program[0]))
        output.write_text(render([], title, profile=shown), encoding="utf-8")
        return output, [title]
    shown = None if profile is None else profile_of(profile)
    beside = None if other is None else _kernels_of(other, program, kernel, target, signature)
    records = record(program, kernel, target, signature)
    chosen = [r for r in records if kernel in (None, r.kernel.name)]
    if not chosen:
        names = ", ".join(dict.fromkeys(r.kernel.name for r in records))
        what = f"no kernel called {kernel!r} was compiled" if kernel else "no kernel was compiled"
        more = names or "nothing; a program must launch it, or --signature say its arguments"
        raise ExploreError(f"{program[0]}: {what}; compiled: {more}")
    kernels = [kernel_data(r) for r in chosen]
    if output.suffix == ".json":
        data = {"format": FORMAT, "title": title, "kernels": kernels}
        output.write_text(json.dumps(data), encoding="utf-8")
    else:
        run = {} if beside is None else {"others": beside["kernels"], "other": beside["title"]}
        output.write_text(render(kernels, title, profile=shown, **run), encoding="utf-8")
    return output, [r.label for r in chosen]


@dataclass(frozen=True)
class Other:
    """Another run.

    Attributes:
        source: a program, a file of IR, or what was written with `-o NAME.json`; None for the same.
        target: what it is compiled for, if for something else.
        settings: its environment variables, `NAME=VALUE`.
    """

    source: str | None = None
    target: str | None = None
    settings: Sequence[str] = ()


def _kernels_of(
    other: Other, program: Sequence[str], kernel: str | None, target: str | None,
    signature: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The title and the kernels of another run. Raises `ExploreError`."""
    from tritium.tools.explore.page import FORMAT  # with what few installations have

    source = other.source or program[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(source)
        title = " ".join([file.name, *filter(None, [other.target]), *other.settings])
        if source.endswith(".json"):
            if other.settings or other.target:
                raise ExploreError(f"{source} is compiled already; settings cannot change it")
        else:
            file = Path(folder, "other.json")
            options = {"kernel": kernel, "target": other.target or target, "signature": signature}
            try:
                in_process(["explore", "-o", str(file)], options, [source, *program[1:]],
                           other.settings)  # fmt: skip
            except ExploreError as error:
                raise ExploreError(f"{title}: {error}") from None
        try:
            data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise ExploreError(f"{source} has the format {data['format']}, not {FORMAT}")
        except (ValueError, KeyError, TypeError) as error:
            raise ExploreError(f"{source} was not written by explore: {error}") from None
    return {**data, "title": title}


def in_process(
    command: Sequence[str], options: Mapping[str, str | None], program: Sequence[str],
    settings: Sequence[str],
) -> None:  # fmt: skip
    """Run a command of ours on a program in a process of its own, with settings (`NAME=VALUE`).
    Raises `ExploreError` where it fails."""
    pairs = [setting.partition("=") for setting in settings]
    wrong = [setting for setting, (_, equals, _) in zip(settings, pairs, strict=True) if not equals]
    if wrong:
        raise ExploreError(f"the setting {wrong[0]!r} is not NAME=VALUE")
    for name, *_ in pairs:  # which a program, or another backend, may read all the same
        if name.startswith(("TRITON_", "TRITIUM_")) and name not in knobs.variables():
            sys.stderr.write(f"tritium: warning: no setting is called {name}\n")
    words = [sys.executable, "-m", "tritium", *command]
    for name, value in options.items():  # None: not given; empty: without a value
        words += [] if value is None else [f"--{name}", value] if value else [f"--{name}"]
    environment = knobs.child_environment(**{name: value for name, _, value in pairs})
    done = subprocess.run([*words, *program], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)  # fmt: skip
    if done.returncode:
        said, mark, reason = done.stderr.strip().rpartition("tritium: error: ")  # of many lines
        if not mark:
            said, _, reason = reason.rpartition("\n")
        sys.stderr.writelines(f"{line}\n" for line in said.splitlines())
        ended = "ended without a word"
        if done.returncode < 0:
            ended = f"was ended by {signal.Signals(-done.returncode).name}"
        raise ExploreError(reason.removeprefix(f"{program[0]}: ") or f"it {ended}")


def record(
    program: Sequence[str], kernel: str | None, target: str | None, signature: str | None,
    to_the_end: bool = False,
) -> list[KernelRecord]:  # fmt: skip
    """The kernels that compiling a file, or running a program, compiles. With `to_the_end` a
    program that fails is an error; else there are the kernels that it compiled before."""
    recorder, file, given = Recorder(), program[0], None
    _check_program(file)
    if signature is not None and not file.endswith(STAGE_FILES):
        if kernel is None:
            raise ExploreError("--signature needs the name of its kernel: --kernel NAME")
        _alone(program)
        args = CompileArgs(file, kernel, signature, "1,1,1", target, num_warps=4)
        given = load_kernel(args), args  # what the file itself launches is not shown
    with recorder.recording():
        if file.endswith(STAGE_FILES):
            _alone(program)
            compile_source(file, target=target_of(target))
        elif given is not None:
            compile_given(*given)
        elif target is not None:
            raise ExploreError(f"--target {target}: {file} is run, on this machine; a .ttir or "
                               ".ttgir file or --signature is required")  # fmt: skip
        else:
            _run(program, to_the_end)
    return recorder.kernels


def _check_program(file: str) -> None:
    """Raise `ExploreError` for a path that is neither a program nor a stage's file."""
    path = Path(file)
    if file.startswith("-"):  # -m MODULE, -c TEXT
        return
    if path.is_file() and path.suffix in _OTHER_FILES:
        saved = path.suffix == ".json"
        more = "; --against takes what was saved with -o NAME.json" if saved else ""
        raise ExploreError(
            f"{file} is no program; a program, a {' or '.join(STAGE_FILES)} file or a profile is "
            f"required{more}"
        )
    if (reason := objection(file)) is not None:
        raise ExploreError(reason)


def _alone(program: Sequence[str]) -> None:
    """Raise `ExploreError` for arguments of what is not run."""
    if len(program) > 1:
        raise ExploreError(f"{program[1]}: options stand before the file")


def _run(program: Sequence[str], to_the_end: bool) -> None:
    """Run a program as `tritium run` does."""
    from tritium.cli.run import run_program

    first = 2 if program[0] in ("-m", "-c") else 1
    for word in program[first:]:
        if word.partition("=")[0] in OPTIONS:
            sys.stderr.write(f"tritium: warning: {word} stands behind {program[first - 1]}, and is "
                             "passed to it; options of this command stand before it\n")  # fmt: skip
    try:
        run_program(program)
    except SystemExit as end:
        if end.code in (None, 0):
            return
        message = f"the program ended with status {end.code}"
        if to_the_end:
            raise ExploreError(f"{program[0]}: {message}") from None
        sys.stderr.write(f"tritium explore: {message}\n")
