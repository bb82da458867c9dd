"""`tritium demo`: four kernels compiled natively, checked against float64, timed against rivals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tritium import knobs
from tritium.cli.demo_cases import DEMO, Case, load_torch, vector_add
from tritium.cli.timing import Timing, compare


@dataclass(frozen=True)
class Outcome:
    """The result of one case: its largest error, seconds to compile, and timings by library.

    `compile_seconds` is None where an earlier case had compiled the same kernel already.
    """

    case: Case
    error: float
    compile_seconds: float | None
    timings: dict[str, Timing]

    @property
    def passed(self) -> bool:
        return self.error <= self.case.tolerance  # false for NaN

    def ratio(self, rival: str) -> float | None:
        """The rival's time as a multiple of ours; None if the rival did not run."""
        if rival not in self.timings:
            return None
        return self.timings[rival].median / self.timings["tritium"].median


def measure(case: Case, rounds: int) -> Iterator[str | Outcome]:
    """Compile, check and time one case; yields what it is about to do, at last the outcome."""
    yield "compiling"
    compiled: list[str] = []

    def note(**event: Any) -> None:
        compiled.append(case.name)

    with knobs.compilation.scope():
        # Else the second demo would show how fast a file is read.
        knobs.compilation.always_compile = True
        knobs.compilation.listener = note
        start = time.perf_counter()
        case.launch()
        first = time.perf_counter() - start
    case.out.fill(float("nan"))
    yield "checking"
    case.launch()
    error = case.error()
    yield "timing"
    timings = compare({"tritium": case.launch, **case.rivals}, rounds=rounds)
    seconds = max(0.0, first - timings["tritium"].median) if compiled else None
    yield Outcome(case, error, seconds, timings)


def run_demo(*, quick: bool = False, only: Sequence[str] | None = None) -> bool:
    """Run the demo and print its table; returns whether every result was right.

    Raises:
        ValueError: `only` names a kernel that the demo does not have.
    """
    unknown = [name for name in only or () if name not in DEMO]
    if unknown:
        raise ValueError(f"no demo kernel is called {unknown[0]!r}; there are {', '.join(DEMO)}")
    console = Console()
    chosen = [entry for name, entries in DEMO.items() if not only or name in only
              for entry in entries]  # fmt: skip
    outcomes: list[Outcome] = []
    with _progress(console) as progress:
        task = progress.add_task("loading", total=4 * len(chosen))
        torch = load_torch()
        # The first launch of a process loads the compiler, too; no kernel's time should count that.
        vector_add(1024, block=1024).launch()
        for make, full, small in chosen:
            case = make(*(small if quick else full), torch=torch)
            progress.advance(task)
            for step in measure(case, rounds=5 if quick else 15):
                if isinstance(step, Outcome):
                    outcomes.append(step)
                else:
                    progress.update(task, description=f"{case.name} {case.size}: {step}")
                    progress.advance(task)
        progress.update(task, description="done")
    console.print(_table(outcomes))
    return _verdict(console, outcomes)


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description:32}"), BarColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


def _table(outcomes: Sequence[Outcome]) -> Table:
    threads = knobs.runtime.cpu_threads
    title = f"float32, {threads} thread{'s' if threads > 1 else ''}"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    rivals = [r for r in ("numpy", "torch") if any(r in o.timings for o in outcomes)]
    for heading in ("size", "max error", "time", "rate", *(f"×{r}" for r in rivals), "compile"):
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        case, ours = outcome.case, outcome.timings["tritium"].median
        colour = "green" if outcome.passed else "bold red"
        table.add_row(
            case.name,
            case.size,
            f"[{colour}]{outcome.error:.1e}[/]",
            f"{ours * 1e3:.2f} ms",
            f"{case.rate(ours):.1f} {case.unit}",
            *(_ratio(outcome.ratio(rival)) for rival in rivals),
            "reused" if (s := outcome.compile_seconds) is None else f"{s * 1e3:.0f} ms",
        )
    return table


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _verdict(console: Console, outcomes: Sequence[Outcome]) -> bool:
    wrong = [o for o in outcomes if not o.passed]
    for outcome in wrong:
        console.print(
            f"[bold red]wrong:[/] {outcome.case.name} {outcome.case.size} differs from NumPy in "
            f"float64 by {outcome.error:.2e}; at most {outcome.case.tolerance:.0e} is right"
        )
    if not wrong:
        console.print(f"all {len(outcomes)} results agree with NumPy in float64")
    return not wrong
