"""`tritium compare`: snapshots of what programs compile to, and their differences."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tritium.cli.explore import STAGE_FILES, ExploreError, in_process, record
from tritium.tools.compare import (
    Comparison,
    Snapshot,
    SnapshotError,
    as_html,
    compare,
    fastest,
    snapshot,
    together,
)
from tritium.tools.launch_times import LaunchTimes

Pair = tuple[str | None, str | None]
"""An option for A and for B."""
_ENDINGS = (".py", *STAGE_FILES)
"""Endings of the files of a folder that are compared."""


def take(
    program: Sequence[str], file: Path, kernel: str | None, target: str | None,
    signature: str | None, title: str | None = None, timed: bool = False,
) -> int:  # fmt: skip
    """Compile what `tritium explore` would, and save the snapshot; returns how many kernels it
    has. With `timed`, the launches of a program are measured. Raises `SnapshotError` for no kernel,
    `ExploreError` for a program that fails."""
    times = LaunchTimes() if timed else None
    if times is None:
        found = record(program, kernel, target, signature, to_the_end=True)
    else:
        if signature is not None or program[0].endswith(STAGE_FILES):
            raise SnapshotError(f"{program[0]}: --time needs a program that is run")
        with times.measuring():
            found = record(program, kernel, target, signature, to_the_end=True)
    found = [r for r in found if kernel in (None, r.kernel.name)]
    if not found:
        raise SnapshotError(f"{program[0]}: no kernel{f' called {kernel!r}' if kernel else ''} was "
                            "compiled")  # fmt: skip
    snapshot(found, title or Path(program[0]).name, times).save(file)
    return len(found)


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        source: a snapshot file, a program, a file of IR; or several: a folder, or `@LIST`, a file
            that names one a line, with its `--kernel` and `--signature`.
        kernel, target, signature: as of `tritium explore`.
        settings: environment variables, `NAME=VALUE`.
        timed: launches are measured.
    """

    source: str
    kernel: str | None = None
    target: str | None = None
    signature: str | None = None
    settings: Sequence[str] = ()
    timed: bool = False

    @property
    def title(self) -> str:
        """The side's name in reports."""
        name = Path(self.source).name or self.source
        return " ".join([name, *([self.target] if self.target else []), *self.settings])

    def snapshot(self) -> Snapshot:
        """The figures, of a program compiled in a process of its own. Raises `SnapshotError`."""
        if self.source.endswith(".json"):
            if self.settings:
                raise SnapshotError(
                    f"{self.source} is a snapshot, which {self.settings[0]!r} cannot change"
                )
            return Snapshot.load(Path(self.source))
        parts = self._parts()
        if parts is None:
            return self._of_one()
        return together([(name, part._of_one()) for name, part in parts], self.title)

    def _parts(self) -> list[tuple[str, Side]] | None:
        """The sides of the files of a corpus by name; None for a single program."""
        if self.source.startswith("@"):
            return self._listed(Path(self.source[1:]))
        folder = Path(self.source)
        if not folder.is_dir() or (folder / "__main__.py").is_file():
            return None
        files = sorted(f for f in folder.iterdir() if f.suffix in _ENDINGS)
        if not files:
            raise SnapshotError(f"{folder}: a folder without {', '.join(_ENDINGS)} files")
        return [(file.name, replace(self, source=str(file))) for file in files]

    def _listed(self, file: Path) -> list[tuple[str, Side]]:
        if not file.is_file():
            raise SnapshotError(f"{file}: no such list of programs")
        parts: list[tuple[str, Side]] = []
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                words = shlex.split(line, comments=True)
            except ValueError as error:
                raise SnapshotError(f"{file}:{number}: {error}") from None
            if not words:
                continue
            name, *options = words
            given = dict(zip(options[::2], options[1::2], strict=False))
            if len(options) % 2 or not given.keys() <= {"--kernel", "--signature"}:
                raise SnapshotError(f"{file}:{number}: {line.strip()!r}; FILE [--kernel NAME] "
                                    "[--signature TYPES] is required")  # fmt: skip
            part = replace(self, source=str(file.parent / name),
                           kernel=given.get("--kernel", self.kernel),
                           signature=given.get("--signature", self.signature))  # fmt: skip
            parts.append((name, part))
        if not parts:
            raise SnapshotError(f"{file}: the list names no program")
        return parts

    def _of_one(self) -> Snapshot:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "snapshot.json")
            options = {"kernel": self.kernel, "target": self.target, "signature": self.signature,
                       "title": self.title, "time": "" if self.timed else None}  # fmt: skip
            try:
                in_process(["compare", "--save", str(place)], options, [self.source],
                           self.settings)  # fmt: skip
            except ExploreError as error:
                raise SnapshotError(f"{self.title}: {error}") from None
            return Snapshot.load(place)


ROUNDS = 3
"""Runs of each side, in turn, where launches are measured; the least times count."""


def both(first: Side, second: Side) -> tuple[Snapshot, Snapshot]:
    """The snapshots of both sides."""
    for side in (first, second):  # before either is compiled
        if not side.source.startswith("@") and not Path(side.source).exists():
            raise SnapshotError(f"{side.source}: no such file")
    a, b = first.snapshot(), second.snapshot()
    for _ in range(ROUNDS - 1 if first.timed or second.timed else 0):
        a = fastest(a, first.snapshot()) if not first.source.endswith(".json") else a
        b = fastest(b, second.snapshot()) if not second.source.endswith(".json") else b
    return a, b


def sides(
    sources: Sequence[str], kernels: Pair, targets: Pair, signatures: Pair,
    settings: tuple[Sequence[str] | None, Sequence[str] | None], timed: bool,
) -> tuple[Side, Side]:  # fmt: skip
    """The two sides that a command line names; what it leaves open of B is as of A. Raises
    `ValueError` where it does not name two."""
    changed = any((targets[1], *settings, kernels[1], signatures[1]))
    if len(sources) > 2 or (len(sources) == 1 and not changed):
        raise ValueError(
            "compare takes A and B, or A alone with --target-b, --set-a, --set-b, --kernel-b "
            "or --signature-b"
        )
    if kernels[1] is not None and kernels[0] is None:
        raise ValueError("--kernel-b needs the kernel of A: --kernel NAME")
    first = Side(sources[0], kernels[0], targets[0], signatures[0], settings[0] or [], timed)
    second = Side(
        sources[-1], kernels[1] or kernels[0], targets[1] or targets[0],
        signatures[1] or signatures[0], settings[1] or [], timed,
    )  # fmt: skip
    return first, second


def report(
    pair: tuple[Side, Side], tolerance: float, time_tolerance: float, ignore: str, html: Path | None
) -> Comparison:
    """Compare two sides, and write the page `html` if it is wanted.

    Args:
        ignore: figures, with commas, that never count as regressions.
    """
    first, second = pair[0].kernel, pair[1].kernel
    found = both(*pair)
    if any(side.timed for side in pair):
        _warn_of_untimed(found)
    result = compare(
        *found, tolerance=tolerance, time_tolerance=time_tolerance,
        ignore=[word for word in ignore.split(",") if word],
        renamed=(first, second) if first and second and first != second else None,
    )  # fmt: skip
    if html is not None:
        html.write_text(as_html(result), encoding="utf-8")
    return result


def _warn_of_untimed(found: tuple[Snapshot, Snapshot]) -> None:
    kernels = [kernel for side in found for kernel in side.kernels]
    for name in dict.fromkeys(k.name for k in kernels if "time" not in k.figures):
        sys.stderr.write(f"tritium: warning: {name} has no time: it is launched once, and the "
                         "first launch of a kernel is not measured\n")  # fmt: skip
