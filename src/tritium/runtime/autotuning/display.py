"""The progress display of autotuning, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from tritium import knobs
from tritium.runtime.autotuning.configs import Config

_PATIENCE = 0.5
"""Seconds that tuning may take before a live display is worth a person's while."""


class TuningDisplay:
    """Progress of one tuning: a live line on a terminal, plain lines elsewhere.

    `knobs.autotuning.progress` says when: "on" always, "off" never; by default on terminals alone.

    Args:
        name: of the kernel.
        total: how many configurations there are.
    """

    def __init__(self, name: str, total: int):
        self.name, self.total = name, total
        self.compiled = self.measured = self.failed = 0
        self.best: tuple[float, Config] | None = None
        wanted = knobs.autotuning.progress
        terminal = sys.stderr.isatty()
        self._lines = wanted == "on" and not terminal
        self._live_wanted = wanted != "off" and terminal and not knobs.autotuning.print
        self._live: Any = None
        self._start = time.monotonic()

    def __enter__(self) -> TuningDisplay:
        self._line(f"autotuning {self.name}: {self.total} configurations")
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._line(f"autotuning {self.name}: {self.summary()}")

    def was_compiled(self, config: Config) -> None:
        """One more is compiled."""
        self.compiled += 1
        self._update()

    def was_measured(self, config: Config, milliseconds: float) -> None:
        """One more is measured."""
        self.measured += 1
        if self.best is None or milliseconds < self.best[0]:
            self.best = milliseconds, config
        self._line(f"  {self._count()} {config}: {milliseconds:.4g} ms")
        self._update()

    def has_failed(self, config: Config, why: object) -> None:
        """One more can be left out."""
        self.failed += 1
        first = next(iter(str(why).strip().split("\n")), "")
        self._line(f"  {self._count()} {config}: failed: {first}")
        self._update()

    def is_decided(self, times: Mapping[Config, float]) -> None:
        """The final times, in milliseconds."""
        self.best = min(((t, c) for c, t in times.items() if t < float("inf")),
                        key=lambda both: both[0], default=None)  # fmt: skip
        self._update()

    def summary(self) -> str:
        """One line with all there is to say."""
        parts = [f"{self.compiled} compiled", f"{self.measured} measured", f"{self.failed} failed"]
        if self.best is not None:
            parts.append(f"best {self.best[0]:.4g} ms with {self.best[1]}")
        return f"{', '.join(parts)}, {time.monotonic() - self._start:.1f} s"

    def _count(self) -> str:
        return f"[{self.measured + self.failed}/{self.total}]"

    def _line(self, text: str) -> None:
        if self._lines:
            print(text, file=sys.stderr, flush=True)

    def _update(self) -> None:
        if self._live_wanted and time.monotonic() - self._start > _PATIENCE:
            if self._live is None:
                self._live = self._start_live()
            self._live.update(self._render(), refresh=True)

    def _start_live(self) -> Any:
        from rich.console import Console  # only a person at a terminal waits for it
        from rich.live import Live

        # No thread that refreshes: a child forked meanwhile would inherit its locks.
        live = Live(
            console=Console(stderr=True), transient=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        live.start()
        return live

    def _render(self) -> Any:
        from rich.progress_bar import ProgressBar  # as above
        from rich.table import Table
        from rich.text import Text

        row = Table.grid(padding=(0, 2))
        counts = Text.assemble(
            (f"{self.compiled}", "bold"), " compiled  ",
            (f"{self.measured}", "bold green"), " measured  ",
            (f"{self.failed}", "bold red" if self.failed else "dim"), " failed",
        )  # fmt: skip
        done = self.measured + self.failed
        row.add_row(
            Text(f"autotuning {self.name}", style="bold cyan"),
            ProgressBar(total=self.total, completed=done, width=24),
            Text(f"{done}/{self.total}"),
            counts,
        )
        if self.best is None:
            return row
        both = Table.grid()
        both.add_row(row)
        best = Text.assemble("  best ", (f"{self.best[0]:.4g} ms", "bold green"), "  ",
                             (str(self.best[1]), "dim"))  # fmt: skip
        both.add_row(best)
        return both
