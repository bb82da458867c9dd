"""`tritium opt`: named passes over a file of IR."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ..errors import TritonError
from ..ir.parsing import parse_module
from ..ir.printing import print_module
from ..passes import registry


class UnknownPass(TritonError, LookupError):
    """No pass has this name."""


def list_passes() -> None:
    """Print the name of every pass with the first line of its description."""
    for name in sorted(registry.available()):
        text = (registry.get(name).__doc__ or "").strip().split("\n")[0]
        typer.echo(f"{name:24} {text}".rstrip())


def optimize(file: str, names: Sequence[str], *, print_after_all: bool = False) -> str:
    """Parse and verify `file` ("-": standard input), run the passes in order, print the result.

    Raises:
        UnknownPass: before anything is read.
        TritonError: the text does not parse, or does not verify before or after a pass.
    """
    known = registry.available()
    for name in names:
        if name not in known:
            raise UnknownPass(f"no pass is called {name!r}; there are {', '.join(sorted(known))}")
    text = sys.stdin.read() if file == "-" else Path(file).read_text()
    module = parse_module(text, file)
    module.verify()
    for name in names:
        registry.get(name)().run(module)
        module.verify()
        if print_after_all:
            sys.stderr.write(f"// -----// IR after {name} //----- //\n{print_module(module)}\n")
    return print_module(module)
