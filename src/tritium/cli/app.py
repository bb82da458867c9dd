"""The commands and their options. Each command's work is in a module of its own, imported late:
`tritium cache` should not wait for a compiler to load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from tritium.errors import TritonError, message_of
from tritium.version import REFERENCE_VERSION, __version__

_T = TypeVar("_T")
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}

app = typer.Typer(
    name="tritium",
    help="Compile and run Triton kernels on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cache_app = typer.Typer(help="Show or clear the compiled kernels on disk.")
app.add_typer(cache_app, name="cache")

_REFUSED = (TritonError, ValueError, TypeError, NotImplementedError, OSError)
"""Errors of what a command is given: their message is enough."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tritium {__version__} (follows triton {REFERENCE_VERSION})")
        raise typer.Exit()


def fail(message: object) -> typer.Exit:
    """Print an error of the user's, and return what ends the command with status 1."""
    typer.echo(f"tritium: error: {message_of(message)}", err=True)
    return typer.Exit(1)


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


SetsOfA = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="An environment variable of A.")
]
SetsOfB = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="An environment variable of B.")
]


@app.command()
def demo(
    quick: Annotated[bool, typer.Option(help="Smaller inputs and fewer repetitions.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Run this kernel only; may be repeated.")
    ] = None,
) -> None:
    """Compile four kernels natively, check them against NumPy in float64, and time them."""
    from tritium.cli.demo import run_demo

    try:
        passed = run_demo(quick=quick, only=only)
    except ValueError as error:
        raise fail(error) from None
    if not passed:
        raise typer.Exit(1)


@app.command(context_settings=_PASS_ON)
def run(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROG ARGS...",
            help="A file, folder, -m MODULE, -c TEXT or - (standard input); its arguments.",
        ),
    ] = None,
    sanitize: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKS",
            help="Put checks into kernels, and stop at the first that fails: bounds (if none is "
            "named), races, unwritten, fp.",
        ),
    ] = None,
) -> None:
    """Run an unmodified program that says `import triton`, on Tritium."""
    from tritium.cli.run import is_program, run_program, sanitize_kernels

    given = arguments or []
    if sanitize is not None and is_program(sanitize):
        sanitize, given = "bounds", [sanitize, *given]
    if sanitize is not None:
        sanitize_kernels(sanitize)
    if not given:
        raise typer.BadParameter("a program is needed: tritium run PROG ARGS...")
    run_program(given)


@app.command(context_settings=_PASS_ON)
def pytest(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS...")] = None,
) -> None:
    """Run pytest on tests that say `import triton`, on Tritium.

    The option --device and the fixtures device, fresh_knobs, fresh_triton_cache and with_allocator
    are there, as in the reference's own suite; the tests' conftest.py may define others.
    """
    from tritium.cli.run import run_program

    run_program(["-m", "pytest", "-p", "tritium.testing.cli_plugin", *(arguments or [])])


class OptCommand(TyperCommand):
    """`tritium opt`, which takes passes as `triton-opt` does, too: `-tritongpu-coalesce`; and its
    `-debug` and `-debug-only=a,b`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The spelling of `triton-opt` becomes that of the options below."""
        from tritium.cli.opt import options_of

        return super().parse_args(ctx, [option for word in args for option in options_of(word)])


@app.command(cls=OptCommand)
def opt(
    file: Annotated[
        str | None, typer.Argument(help="A .ttir, .ttgir, .llir or reproducer file; - for stdin.")
    ] = None,
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass", "-p", metavar="NAME",
            help="A pass to run, with its options if any (unroll{factor=4}); repeat, in order.",
        ),
    ] = None,
    print_after_all: Annotated[
        bool, typer.Option("--print-after-all", help="Print the IR after each pass, to stderr.")
    ] = False,
    print_after: Annotated[
        list[str] | None,
        typer.Option(
            "--print-after", metavar="NAME", help="Print the IR after this pass, to stderr."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
    list_passes: Annotated[bool, typer.Option("--list", help="List the passes.")] = False,
) -> None:
    """Run named passes over IR and print the result."""
    from tritium.cli import opt as command

    if list_passes:
        command.list_passes()
        return
    if file is None:
        raise fail("opt needs a FILE (or - for standard input); --list shows the passes")
    try:
        text = command.optimize(file, passes or [], print_after_all=print_after_all,
                                print_after=print_after or [])  # fmt: skip
    except OSError as error:
        raise fail(f"{error.filename}: {error.strerror}") from None
    except TritonError as error:
        raise fail(error) from None
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


@app.command(context_settings=_PASS_ON)
def explore(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="PROG ARGS...",
            help="A program, which is run; a .ttir or .ttgir file; a file of --kernel; a "
            "profile.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page to write.")
    ] = Path("explore.html"),
    kernel: Annotated[str | None, typer.Option(help="Show only kernels of this name.")] = None,
    target: Annotated[
        str | None, typer.Option(help="For what is not run: cpu, cpu:haswell, cuda:90:32.")
    ] = None,
    signature: Annotated[
        str | None,
        typer.Option(help='Types and constants of --kernel, "*fp32:16, i32, 64"; not launched.'),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="A profile to show beside: .hatchet or .chrome_trace.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Another program or file beside which to show this one, or its .json."),
    ] = None,
    target_b: Annotated[str | None, typer.Option(help="Another target for --against.")] = None,
    set_b: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An environment variable for --against."),
    ] = None,
) -> None:
    """Write an HTML page that shows kernels at every stage of their compilation."""
    from tritium.cli.explore import Other
    from tritium.cli.explore import explore as make

    other = Other(against, target_b, set_b or []) if against or target_b or set_b else None
    try:
        page, names = make(program, output, kernel, target, signature, profile=profile, other=other)
    except _REFUSED as error:
        raise fail(error) from None
    typer.echo(f"{page}: {', '.join(names)}")


@app.command()
def layout(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TYPE|FILE", help='"tensor<16x16xf16, #ttg.blocked<{...}>>", or a .ttgir file.'
        ),
    ],
    aliases: Annotated[
        list[str] | None,
        typer.Option("--layout", "-l", metavar="NAME", help="Of a file this one; may be repeated."),
    ] = None,
    hardware: Annotated[
        bool, typer.Option("--hardware", help="For each thread (or offset) what it holds.")
    ] = False,
) -> None:
    """Print which thread and register (or which place of memory) holds each element of a tile."""
    from tritium.cli.layout import show

    try:
        sys.stdout.write(show(source, aliases or [], hardware=hardware))
    except _REFUSED as error:
        raise fail(error) from None


@app.command(context_settings=_PASS_ON)
def reduce(
    program: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="A .ttir or .ttgir file; a program and its arguments."),
    ],
    passes: Annotated[
        list[str] | None,
        typer.Option("--pass", "-p", metavar="NAME", help="A pass that fails; repeat, in order."),
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="A shell command that fails; {} is the file.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What to compile for: cpu, cpu:haswell, cuda:90:32.")
    ] = None,
    num_warps: Annotated[int, typer.Option(help="Warps of a program.")] = 4,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
) -> None:
    """Shrink a kernel or IR on which the compiler fails to the least that fails alike."""
    from tritium.cli.reduce import shrink

    try:
        options = {"num_warps": num_warps}
        text = shrink(program, passes or [], command, target, options)
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8")
    except _REFUSED as error:
        raise fail(error) from None


@app.command()
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B]",
            help="Programs, .ttir or .ttgir files, snapshots (.json), folders of programs, or "
            "@LIST, a file that names a program a line.",
        ),
    ],
    kernel: Annotated[str | None, typer.Option(help="Only kernels of this name.")] = None,
    signature: Annotated[
        str | None, typer.Option(help="Types and constants of --kernel; nothing is run.")
    ] = None,
    kernel_b: Annotated[
        str | None, typer.Option(help="The kernel of B that --kernel is compared with.")
    ] = None,
    signature_b: Annotated[str | None, typer.Option(help="Another signature for B.")] = None,
    target: Annotated[str | None, typer.Option(help="For what is not run, on both sides.")] = None,
    target_b: Annotated[str | None, typer.Option(help="Another target for B.")] = None,
    set_a: SetsOfA = None,
    set_b: SetsOfB = None,
    save: Annotated[
        Path | None, typer.Option(help="Save a snapshot of A here, and compare nothing.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the saved snapshot is called.")] = None,
    timed: Annotated[
        bool,
        typer.Option("--time", help="Measure the launches of the programs, in three runs a side."),
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page, too.")] = None,
    tolerance: Annotated[float, typer.Option(help="By which share a figure may grow.")] = 0.02,
    time_tolerance: Annotated[
        float, typer.Option(help="By which share the time of a launch may grow.")
    ] = 0.1,
    ignore: Annotated[
        str, typer.Option(help="Figures, with commas, that never count as regressions.")
    ] = "compile",
) -> None:
    """Compare what two programs, settings, targets or versions compile to. Ends with status 1 where
    B is worse than A, with 2 for errors."""
    from tritium.cli.compare import report, sides, take
    from tritium.tools.compare import as_text

    try:
        if save is not None:
            count = take(sources, save, kernel, target, signature, title, timed)
            return typer.echo(f"{save}: {count} kernel{'' if count == 1 else 's'}")
        named = (kernel, kernel_b), (target, target_b), (signature, signature_b), (set_a, set_b)
        result = report(sides(sources, *named, timed), tolerance, time_tolerance, ignore, html)
    except _REFUSED as error:
        fail(error)
        raise typer.Exit(2) from None
    typer.echo(as_text(result), nl=False)
    if result.regressions:
        raise typer.Exit(1)


@app.command()
def exact(
    sources: Annotated[list[str], typer.Argument(metavar="A [B]", help="Programs.")],
    set_a: SetsOfA = None,
    set_b: SetsOfB = None,
    save: Annotated[
        Path | None, typer.Option(help="Save what A's kernels leave here; compare nothing.")
    ] = None,
) -> None:
    """Compare what the kernels of two programs, or of one under two settings, compute, in exact
    numbers. Ends with status 1 where it is not the same, with 2 for errors."""
    from tritium.cli.exact import compare_programs
    from tritium.cli.exact import save as save_outputs

    same = True
    try:
        if save is not None:
            save_outputs(sources, save)
            return
        text, same = compare_programs(sources, (set_a or (), set_b or ()))
    except _REFUSED as error:
        fail(error)
        raise typer.Exit(2) from None
    typer.echo(text, nl=False)
    if not same:
        raise typer.Exit(1)


@cache_app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from tritium.cli.cache import describe

        typer.echo(_or_fail(describe))


def _or_fail(ask: Callable[[], _T]) -> _T:
    """The answer; an error of the file system's is reported as the user's."""
    try:
        return ask()
    except OSError as error:
        raise fail(error) from None


@cache_app.command()
def where() -> None:
    """Print the folder."""
    from tritium.cli.cache import folder

    typer.echo(folder())


@cache_app.command()
def size() -> None:
    """Print how many kernels there are, and the size of all entries in bytes."""
    from tritium.cli.cache import measure

    found = _or_fail(measure)
    typer.echo(f"{found}, {found.size} bytes")


@cache_app.command()
def clear(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Remove every compiled kernel, and what was compiled for its launches; nothing else."""
    from tritium.cli.cache import clear_all, describe

    text = _or_fail(describe)
    if not yes:
        note = "An installed Triton keeps its kernels in the same folder by default."
        typer.confirm(f"{text}\n{note}\nRemove them all?", abort=True)
    removed = _or_fail(clear_all)
    typer.echo(f"removed {removed}")
    if removed.foreign:
        typer.echo(f"left {removed.foreign} folders that are not the cache's", err=True)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for bug reports.")] = False,
) -> None:
    """Say what this machine offers, what is missing, and how to get it."""
    from tritium.cli.doctor import run_doctor

    if not run_doctor(as_json=as_json):
        raise typer.Exit(1)
