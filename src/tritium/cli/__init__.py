"""The command `tritium`. The commands' own modules are imported when they run."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script and of `python -m tritium`."""
    from tritium.cli.app import (
        app,  # typer takes 60 ms to import; `import tritium.cli` need not pay for it
    )

    app(prog_name="tritium")
