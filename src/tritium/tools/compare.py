"""Snapshots of compiled kernels, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from math import exp, log
from pathlib import Path
from typing import Any

from tritium.errors import TritonError
from tritium.tools.explore.record import KernelRecord
from tritium.tools.instruction_mix import instruction_mix
from tritium.tools.launch_times import LaunchTimes
from tritium.version import __version__

FORMAT = 1
"""The version of the form of snapshot files."""

FIGURES = {
    "code": "bytes of the binary", "instructions": "instructions", "registers": "registers",
    "spills": "spills", "shared": "bytes of shared memory", "scratch": "bytes of scratch",
    "compile": "ms to compile", "time": "us of a launch",
}  # fmt: skip
"""The compared quantities, by the word that `--ignore` takes; less is better."""


class SnapshotError(TritonError):
    """A file is no snapshot, or snapshots cannot be compared."""


@dataclass
class Measured:
    """The figures of one kernel; those that its target does not have are left out."""

    name: str
    target: str
    figures: dict[str, float]
    mix: dict[str, int]


@dataclass
class Snapshot:
    """The kernels that one version of a program, with its settings, compiles to."""

    title: str
    kernels: list[Measured]
    version: str = __version__
    format: int = FORMAT

    def save(self, file: Path) -> None:
        """Write the snapshot as JSON."""
        file.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @staticmethod
    def load(file: Path) -> Snapshot:
        """Read a snapshot. Raises `SnapshotError`, `OSError`."""
        try:
            data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise SnapshotError(f"{file}: a snapshot of format {data['format']}, not {FORMAT}")
            kernels = [Measured(**kernel) for kernel in data.pop("kernels")]
            return Snapshot(kernels=kernels, **data)
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(f"{file} is no snapshot: {error}") from None


def snapshot(
    records: Iterable[KernelRecord], title: str, times: LaunchTimes | None = None
) -> Snapshot:
    """The figures of some kernels, with the times of their launches if these were measured; of
    several with the same name and constants the later ones get numbers."""
    found: dict[str, Measured] = {}
    for record in records:
        name, number = record.label, 2
        while name in found:
            name, number = f"{record.label} #{number}", number + 1
        found[name] = _measured(record, name)
        took = None if times is None else times.of(record.kernel.hash)
        if took is not None:
            found[name].figures["time"] = round(took, 3)
    return Snapshot(title, list(found.values()))


def _measured(record: KernelRecord, name: str) -> Measured:
    kernel = record.kernel
    data = kernel.metadata._asdict()
    text = next((t for s in ("ptx", "asm", "amdgcn") if (t := kernel.asm.get(s))), "")
    mix = instruction_mix(text)
    figures = {
        "code": len(kernel.kernel), "instructions": mix.total(),
        "registers": data.get("n_regs"), "spills": data.get("n_spills"),
        "shared": data["shared"] if data["target"].backend != "cpu" else None,
        "scratch": data.get("scratch_bytes"),
        "compile": round(sum(record.stages.values()) * 1e3, 3),
    }  # fmt: skip
    target = f"{data['target'].backend}:{data['target'].arch}"
    known = {figure: float(value) for figure, value in figures.items() if value is not None}
    return Measured(name, target, known, dict(mix.most_common()))


@dataclass
class Row:
    """One figure of one kernel on both sides; `worse` if it has grown by more than is tolerated."""

    kernel: str
    figure: str
    before: float
    after: float
    worse: bool

    @property
    def change(self) -> str:
        """The change in percent."""
        if self.before == self.after:
            return ""
        return f"{(self.after / self.before - 1) * 100:+.1f} %" if self.before else "new"


@dataclass
class Comparison:
    """The differences.

    Attributes:
        titles: of both sides.
        rows: all figures that both sides have.
        mixes: by kernel, the opcodes whose number differs: (opcode, before, after).
        missing: kernels that only one side has, with the side's title.
    """

    titles: tuple[str, str]
    rows: list[Row] = field(default_factory=list[Row])
    mixes: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict[str, Any])
    missing: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def regressions(self) -> list[Row]:
        """The figures that are worse."""
        return [row for row in self.rows if row.worse]


def compare(
    first: Snapshot, second: Snapshot, *, tolerance: float = 0.02, ignore: Sequence[str] = (),
    time_tolerance: float = 0.1, renamed: tuple[str, str] | None = None,
) -> Comparison:  # fmt: skip
    """Compare two snapshots, kernel by kernel; a single kernel on both sides is compared whatever
    its name.

    Args:
        tolerance: by which share a figure may grow.
        ignore: figures that are shown and never count as worse.
        time_tolerance: by which share the time of a launch may grow, at least `tolerance`.
        renamed: the name of a kernel of the first and the one of the kernel of the second that it
            is compared with, constants alike.

    Raises `SnapshotError` for wrong arguments, and where no kernel is on both sides.
    """
    unknown = [word for word in ignore if word not in FIGURES]
    if unknown:
        raise SnapshotError(f"no figure is called {unknown[0]!r}; there are {', '.join(FIGURES)}")
    for name, value in (("tolerance", tolerance), ("tolerance of times", time_tolerance)):
        if not value >= 0:
            raise SnapshotError(f"the {name} is {value}; at least 0 is required")
    result = Comparison((first.title, second.title))
    pairs: list[tuple[Measured, Measured]] = []
    if len(first.kernels) == len(second.kernels) == 1:
        pairs = [(first.kernels[0], second.kernels[0])]
    else:
        known = {_partner(kernel.name, renamed): kernel for kernel in second.kernels}
        pairs = [(k, known.pop(k.name)) for k in first.kernels if k.name in known]
        both = {kernel.name for kernel, _ in pairs}
        alone = [k.name for k in first.kernels if k.name not in both]
        result.missing = [*((name, first.title) for name in alone),
                          *((kernel.name, second.title) for kernel in known.values())]  # fmt: skip
    if not pairs:
        names = "; ".join(f"{side.title} has {', '.join(k.name for k in side.kernels)}"
                          for side in (first, second))  # fmt: skip
        raise SnapshotError("nothing to compare: no kernel has the same name and constants on "
                            f"both sides; {names}; --kernel and --kernel-b choose two")  # fmt: skip
    for before, after in pairs:
        name = before.name if before.name == after.name else f"{before.name} | {after.name}"
        for figure in FIGURES:
            if figure in before.figures and figure in after.figures:
                a, b = before.figures[figure], after.figures[figure]
                most = max(tolerance, time_tolerance) if figure == "time" else tolerance
                worse = b > a * (1 + most) and figure not in ignore
                result.rows.append(Row(name, figure, a, b, worse))
        words = sorted({*before.mix, *after.mix})
        counts = [(word, before.mix.get(word, 0), after.mix.get(word, 0)) for word in words]
        changed = [count for count in counts if count[1] != count[2]]
        result.mixes[name] = sorted(changed, key=lambda c: -abs(c[2] - c[1]))
    return result


def _partner(name: str, renamed: tuple[str, str] | None) -> str:
    """The label of the kernel of the first side that one of the second is compared with."""
    if renamed is None:
        return name
    place, colon, label = name.rpartition(": ")
    word, space, rest = label.partition(" ")
    return f"{place}{colon}{renamed[0] if word == renamed[1] else word}{space}{rest}"


def together(parts: Sequence[tuple[str, Snapshot]], title: str) -> Snapshot:
    """One snapshot of those of several files, whose names go before the kernels'."""
    kernels = [
        replace(kernel, name=f"{file}: {kernel.name}")
        for file, part in parts for kernel in part.kernels
    ]  # fmt: skip
    return Snapshot(title, kernels)


def fastest(first: Snapshot, second: Snapshot) -> Snapshot:
    """A snapshot with the least times of two of the same program."""
    times = {k.name: k.figures for k in second.kernels}
    kernels: list[Measured] = []
    for kernel in first.kernels:
        other = times.get(kernel.name, {})
        least = {f: min(kernel.figures[f], other[f]) for f in ("time", "compile")
                 if f in kernel.figures and f in other}  # fmt: skip
        kernels.append(replace(kernel, figures={**kernel.figures, **least}))
    return replace(first, kernels=kernels)


def means(result: Comparison) -> list[tuple[str, float, int]]:
    """For each figure the geometric mean of its growth over the kernels, and of how many; those
    that are 0 on a side are left out."""
    found: list[tuple[str, float, int]] = []
    for figure in FIGURES:
        growth = [r.after / r.before for r in result.rows
                  if r.figure == figure and r.before > 0 and r.after > 0]  # fmt: skip
        if growth:
            found.append((figure, exp(sum(map(log, growth)) / len(growth)), len(growth)))
    return found


_MIX_SHOWN = 8


def as_text(result: Comparison) -> str:
    """The comparison for a terminal or a log."""
    lines = [f"A: {result.titles[0]}", f"B: {result.titles[1]}"]
    for kernel, changed in result.mixes.items():
        lines += ["", kernel]
        for row in (r for r in result.rows if r.kernel == kernel):
            mark = "  WORSE" if row.worse else ""
            numbers = f"{row.before:>12g}{row.after:>12g}  {row.change:>9}"
            lines.append(f"  {FIGURES[row.figure]:26}{numbers}{mark}".rstrip())
        shown = ", ".join(f"{word} {a} -> {b}" for word, a, b in changed[:_MIX_SHOWN])
        if shown:
            more = f", {len(changed) - _MIX_SHOWN} more" if len(changed) > _MIX_SHOWN else ""
            lines.append(f"  instructions that differ: {shown}{more}")
    if len(result.mixes) > 1:
        lines += ["", "geometric mean of B / A"]
        lines += [f"  {FIGURES[figure]:26}{mean:>9.3f} of {count} kernels"
                  for figure, mean, count in means(result)]  # fmt: skip
    lines += [f"\nonly in {title}: {name}" for name, title in result.missing]
    return "\n".join([*lines, "", _counted(result)]) + "\n"


def _counted(result: Comparison) -> str:
    count = len(result.regressions)
    return f"{count or 'no'} regression{'s' if count > 1 else ''}"


_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:20px}table{border-collapse:collapse}"
    "td,th{border:1px solid #d0d7de;padding:3px 10px;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "tr.worse{background:#ffebe9}tr.better{background:#dafbe1}"
)


def as_html(result: Comparison) -> str:
    """The comparison as a page that needs no other file."""
    first, second = map(escape, result.titles)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{first} | {second}</title>",
        f"<style>{_STYLE}</style><h1>{_counted(result)}</h1>",
        f"<p>A: {first}<br>B: {second}</p>",
    ]
    if len(result.mixes) > 1:
        rows = "".join(f"<tr><td>{FIGURES[figure]}<td class=n>{mean:.3f}<td class=n>{count}</tr>"
                       for figure, mean, count in means(result))  # fmt: skip
        head = "<tr><th>geometric mean of B / A<th><th>kernels</tr>"
        parts.append(f"<table>{head}{rows}</table>")
    for kernel, changed in result.mixes.items():
        parts.append(f"<h2>{escape(kernel)}</h2><table><tr><th>figure<th>A<th>B<th>change</tr>")
        for row in (r for r in result.rows if r.kernel == kernel):
            kind = "worse" if row.worse else "better" if row.after < row.before else ""
            parts.append(
                f"<tr class='{kind}'><td>{FIGURES[row.figure]}<td class=n>{row.before:g}"
                f"<td class=n>{row.after:g}<td class=n>{row.change}</tr>"
            )
        parts.append("</table>")
        if changed:
            rows = "".join(
                f"<tr><td>{escape(word)}<td class=n>{a}<td class=n>{b}</tr>"
                for word, a, b in changed
            )
            parts.append(
                f"<details><summary>{len(changed)} opcodes differ</summary><table><tr><th>opcode"
                f"<th>A<th>B</tr>{rows}</table></details>"
            )
    parts += [f"<p>only in {escape(t)}: {escape(name)}</p>" for name, t in result.missing]
    return "\n".join(parts) + "</html>\n"
