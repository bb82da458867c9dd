"""Snapshots of compiled kernels, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tritium.errors import TritonError
from tritium.tools.explore.record import KernelRecord
from tritium.tools.instruction_mix import instruction_mix
from tritium.version import __version__

FORMAT = 1
"""The version of the form of snapshot files."""

FIGURES = {
    "code": "bytes of the binary", "instructions": "instructions", "registers": "registers",
    "spills": "spills", "shared": "bytes of shared memory", "scratch": "bytes of scratch",
    "compile": "ms to compile",
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


def snapshot(records: Iterable[KernelRecord], title: str) -> Snapshot:
    """The figures of some kernels; of several with the same name and constants the later ones get
    numbers."""
    found: dict[str, Measured] = {}
    for record in records:
        name, number = record.label, 2
        while name in found:
            name, number = f"{record.label} #{number}", number + 1
        found[name] = _measured(record, name)
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
) -> Comparison:  # fmt: skip
    """Compare two snapshots, kernel by kernel; a single kernel on both sides is compared whatever
    its name.

    Args:
        tolerance: by which share a figure may grow.
        ignore: figures that are shown and never count as worse.
    """
    unknown = [word for word in ignore if word not in FIGURES]
    if unknown:
        raise SnapshotError(f"no figure is called {unknown[0]!r}; there are {', '.join(FIGURES)}")
    if not tolerance >= 0:
        raise SnapshotError(f"the tolerance is {tolerance}; at least 0 is required")
    result = Comparison((first.title, second.title))
    pairs: list[tuple[Measured, Measured]] = []
    if len(first.kernels) == len(second.kernels) == 1:
        pairs = [(first.kernels[0], second.kernels[0])]
    else:
        known = {kernel.name: kernel for kernel in second.kernels}
        pairs = [(k, known[k.name]) for k in first.kernels if k.name in known]
        both = {kernel.name for kernel, _ in pairs}
        result.missing = [
            (kernel.name, side.title) for side in (first, second) for kernel in side.kernels
            if kernel.name not in both
        ]  # fmt: skip
    for before, after in pairs:
        name = before.name if before.name == after.name else f"{before.name} | {after.name}"
        for figure in FIGURES:
            if figure in before.figures and figure in after.figures:
                a, b = before.figures[figure], after.figures[figure]
                worse = b > a * (1 + tolerance) and figure not in ignore
                result.rows.append(Row(name, figure, a, b, worse))
        words = sorted({*before.mix, *after.mix})
        counts = [(word, before.mix.get(word, 0), after.mix.get(word, 0)) for word in words]
        changed = [count for count in counts if count[1] != count[2]]
        result.mixes[name] = sorted(changed, key=lambda c: -abs(c[2] - c[1]))
    return result


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
    lines += [f"\nonly in {title}: {name}" for name, title in result.missing]
    count = len(result.regressions)
    lines += ["", f"{count} regression{'s' if count != 1 else ''}" if count else "no regression"]
    return "\n".join(lines) + "\n"


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
        f"<style>{_STYLE}</style><h1>{len(result.regressions)} regressions</h1>",
        f"<p>A: {first}<br>B: {second}</p>",
    ]
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
