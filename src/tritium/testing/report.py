"""Sweeps of measurements, as tables, CSV files and plots."""

from __future__ import annotations

import csv
import html
import os
import platform
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast


class Benchmark:
    """A sweep: for each x and each line, one call of the measured function.

    Args:
        x_names: arguments of the function that x gives.
        x_vals: the values; one that is not a tuple or list goes to every name of `x_names`.
        line_arg: the argument that tells the lines apart.
        line_vals: its values.
        line_names: their names in the legend and the table.
        plot_name: title, and name of the files.
        args: further arguments, the same for every call.
        xlabel, ylabel: of the plot; `ylabel` is the unit in the table.
        x_log, y_log: logarithmic axes.
        styles: (colour, line style) for each line.
    """

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: dict[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        styles: Sequence[tuple[str, str]] | None = None,
    ):
        if len(line_vals) != len(line_names):
            raise ValueError(
                f"Benchmark {plot_name}: {len(line_vals)} line_vals and {len(line_names)} "
                "line_names; expected as many names as values"
            )
        if styles is not None and len(styles) < len(line_vals):
            raise ValueError(
                f"Benchmark {plot_name}: {len(styles)} styles for {len(line_vals)} line_vals; "
                "expected one for each"
            )
        self.x_names = list(x_names)
        self.x_vals = list(x_vals)
        self.line_arg = line_arg
        self.line_vals = list(line_vals)
        self.line_names = list(line_names)
        self.plot_name = plot_name
        self.args = dict(args)
        self.xlabel, self.ylabel = xlabel, ylabel
        self.x_log, self.y_log = x_log, y_log
        self.styles = styles


@dataclass
class Results:
    """The results of a sweep: one row for each x; for each line the value and, where known, its
    range."""

    benchmark: Benchmark
    x: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    values: list[list[float]] = field(default_factory=list[list[float]])
    low: list[list[float | None]] = field(default_factory=list["list[float | None]"])
    high: list[list[float | None]] = field(default_factory=list["list[float | None]"])

    @property
    def columns(self) -> list[str]:
        """Names of the x arguments, then each line with its unit."""
        unit = f" ({self.benchmark.ylabel})"
        return [*self.benchmark.x_names, *(name + unit for name in self.benchmark.line_names)]

    def rows(self, diff_col: bool = False) -> tuple[list[str], list[list[Any]]]:
        """Header and rows of the table; `diff_col` adds the second line less the first."""
        rows: list[list[Any]] = [[*x, *v] for x, v in zip(self.x, self.values, strict=True)]
        header = self.columns
        if diff_col and len(self.benchmark.line_names) == 2:
            header = [*header, "Diff"]
            rows = [[*row, row[-1] - row[-2]] for row in rows]
        return header, rows


class Mark:
    """A function together with its sweeps; made by `perf_report`."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]):
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | os.PathLike[str] = "",
        return_df: bool = False,
        diff_col: bool = False,
        save_precision: int = 6,
        **kwargs: Any,
    ) -> Any:
        """Measure; print tables, write `<plot_name>.csv`, `.png` and `results.html`, show plots.

        Args:
            show_plots: open a window for each plot (needs matplotlib).
            print_data: print each table.
            save_path: a folder, created if need be, for the files (plots need matplotlib).
            return_df: return a pandas DataFrame for each sweep (needs pandas): one, or a list
                where `perf_report` got a list.
            diff_col: add a column with the difference of two lines.
            save_precision: digits after the point in the CSV file.
            kwargs: passed on to the function.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = _as_list(self.benchmarks)
        folder = os.fspath(save_path)
        # Before anything is measured: a sweep may take an hour.
        if (folder or show_plots) and any(b.plot_name for b in benchmarks):
            _pyplot()
        if return_df:
            _pandas()
        if folder:
            os.makedirs(folder, exist_ok=True)
        tables: list[Results] = []
        try:
            for benchmark in benchmarks:
                results = self._measure(benchmark, kwargs)
                tables.append(results)
                if print_data:
                    print(f"{benchmark.plot_name}:\n{_text_table(*results.rows(diff_col))}")
                if folder:
                    named = os.path.join(folder, benchmark.plot_name)
                    os.makedirs(os.path.dirname(named), exist_ok=True)  # a name may have folders
                    _write_csv(results, folder, diff_col, save_precision)
                if (folder or show_plots) and benchmark.plot_name:
                    _plot(results, folder, show_plots)
        finally:
            if folder:
                _write_html(tables, folder)
        if not return_df:
            return None
        frames = [_data_frame(results, diff_col) for results in tables]
        return frames[0] if single else frames

    def _measure(self, benchmark: Benchmark, kwargs: dict[str, Any]) -> Results:
        results = Results(benchmark)
        for x in benchmark.x_vals:
            values = _spread_over(benchmark.x_names, x)
            if len(values) != len(benchmark.x_names):
                raise ValueError(
                    f"Benchmark {benchmark.plot_name}: x value {x} has {len(values)} entries; "
                    f"expected {len(benchmark.x_names)}, one for each of {benchmark.x_names}"
                )
            point = dict(zip(benchmark.x_names, values, strict=True))
            row = [
                _with_range(
                    self.fn(**point, **{benchmark.line_arg: line}, **benchmark.args, **kwargs)
                )
                for line in benchmark.line_vals
            ]
            results.x.append(values)
            results.values.append([value for value, _, _ in row])
            results.low.append([low for _, low, _ in row])
            results.high.append([high for _, _, high in row])
        return results


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Decorate a function with sweeps over its arguments; `.run()` then measures them.

    The function returns a number, or a tuple (value, low, high) which the plot shows as a band.
    """
    return lambda fn: Mark(fn, benchmarks)


def _spread_over(names: Sequence[str], x: Any) -> tuple[Any, ...]:
    """One value for each name: those of a tuple or list, or else `x` for all of them."""
    return tuple(cast("Sequence[Any]", x)) if isinstance(x, list | tuple) else (x,) * len(names)


def _with_range(measured: Any) -> tuple[float, float | None, float | None]:
    """(value, low, high) of what a measured function returned. Raises `TypeError` for others."""
    parts: tuple[Any, ...] = (measured, None, None)
    if isinstance(measured, (tuple, list)):
        parts = tuple(cast("Sequence[Any]", measured))
    if len(parts) != 3 or not hasattr(parts[0], "__float__"):
        raise TypeError(
            f"the measured function returned {measured!r}; a number, or (value, low, high), is "
            "required"
        )
    return cast("tuple[float, float | None, float | None]", parts)


def _as_list(benchmarks: Benchmark | Sequence[Benchmark]) -> Sequence[Benchmark]:
    return [benchmarks] if isinstance(benchmarks, Benchmark) else benchmarks


def _text_table(header: list[str], rows: list[list[Any]]) -> str:
    cells = [["", *header], *([str(i), *map(_cell, row)] for i, row in enumerate(rows))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _write_csv(results: Results, folder: str, diff_col: bool, precision: int) -> None:
    header, rows = results.rows(diff_col)
    path = os.path.join(folder, f"{results.benchmark.plot_name}.csv")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([f"{c:.{precision}f}" if isinstance(c, float) else c for c in row])


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1c2330; background: #f6f7f9; margin: 0; }}
main {{ max-width: 1080px; margin: 0 auto; padding: 32px 20px; }}
h1 {{ font-size: 22px; margin: 0; }}
h2 {{ font-size: 17px; margin: 0 0 12px; }}
header p {{ color: #667085; margin: 4px 0 24px; }}
section {{ background: #fff; border: 1px solid #e3e6ec; border-radius: 10px; padding: 20px;
           margin-bottom: 24px; overflow-x: auto; }}
img {{ max-width: 100%; height: auto; display: block; margin: 0 auto 16px; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: right; padding: 4px 12px; border-bottom: 1px solid #eef0f4; }}
th {{ color: #667085; font-weight: 600; border-bottom: 2px solid #e3e6ec; }}
td.best {{ font-weight: 700; color: #0a7d4f; }}
tr:hover td {{ background: #f9fafc; }}
</style>
</head>
<body>
<main>
<header><h1>{title}</h1><p>{about}</p></header>
{sections}
</main>
</body>
</html>
"""


def _write_html(tables: list[Results], folder: str) -> None:
    """A page with the plot and the table of every sweep; the highest value of a row stands out
    where more is better, which the unit tells."""
    title = ", ".join(t.benchmark.plot_name for t in tables) or "results"
    about = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, "
    about += time.strftime("%Y-%m-%d %H:%M")
    page = _PAGE.format(
        title=html.escape(title), about=html.escape(about),
        sections="\n".join(map(_section, tables)),
    )  # fmt: skip
    with open(os.path.join(folder, "results.html"), "w", encoding="utf-8") as file:
        file.write(page)


def _section(results: Results) -> str:
    name = html.escape(results.benchmark.plot_name)
    head = "".join(f"<th>{html.escape(column)}</th>" for column in results.columns)
    unit = results.benchmark.ylabel.lower()
    more_is_better = "/s" in unit or "flops" in unit or "gbps" in unit
    lines: list[str] = []
    for x, values in zip(results.x, results.values, strict=True):
        numbers = [v for v in values if v == v]  # NaN is what could not be measured
        best = (max(numbers) if more_is_better else min(numbers)) if len(numbers) > 1 else None
        cells = [f"<td>{html.escape(str(value))}</td>" for value in x]
        for value in values:
            mark = ' class="best"' if best is not None and value == best else ""
            cells.append(f"<td{mark}>{_short(value)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    rows = "\n".join(lines)
    source = urllib.parse.quote(f"{results.benchmark.plot_name}.png")
    return (
        f'<section><h2>{name}</h2>\n<img src="{source}" alt="{name}">\n'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></section>"
    )


def _short(value: float) -> str:
    """A number with four significant digits, without an exponent where it is of human size."""
    if value != value:
        return "–"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _pandas() -> Any:
    try:
        import pandas  # a heavy optional package: only where a DataFrame was asked for
    except ImportError:
        raise ImportError("return_df needs pandas: pip install 'tritium[bench]'") from None
    return pandas


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt  # a heavy optional package: only where plots are made
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'tritium[bench]'") from None
    return plt


def _data_frame(results: Results, diff_col: bool) -> Any:
    header, rows = results.rows(diff_col)
    return _pandas().DataFrame(rows, columns=header)


def _plot(results: Results, folder: str, show: bool) -> None:
    plt, benchmark = _pyplot(), results.benchmark
    figure: Any = plt.figure(figsize=(8, 5), dpi=144, layout="constrained")
    axes: Any = figure.subplots()
    x = [values[0] for values in results.x]
    for i, name in enumerate(benchmark.line_names):
        colour, style = benchmark.styles[i] if benchmark.styles else (None, None)
        y = [row[i] for row in results.values]
        (line,) = axes.plot(x, y, label=name, color=colour, ls=style, marker="o", markersize=3)
        low, high = ([row[i] for row in bounds] for bounds in (results.low, results.high))
        if None not in low and None not in high:
            axes.fill_between(x, low, high, alpha=0.15, color=line.get_color())
    axes.grid(True, which="major", color="#e3e6ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.set_xlabel(benchmark.xlabel or benchmark.x_names[0])
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")
    axes.set_title(benchmark.plot_name)
    if folder:
        figure.savefig(os.path.join(folder, f"{benchmark.plot_name}.png"))
    if show:
        plt.show()
    plt.close(figure)
