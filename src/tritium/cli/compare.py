"""`tritium compare`: snapshots of what programs compile to, and their differences."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tritium.cli.explore import ExploreError, in_process, record
from tritium.tools.compare import Snapshot, SnapshotError, snapshot


def take(
    program: Sequence[str], file: Path, kernel: str | None, target: str | None,
    signature: str | None, title: str | None = None,
) -> int:  # fmt: skip
    """Compile what `tritium explore` would, and save the snapshot; returns how many kernels it
    has. Raises `SnapshotError` for none, `ExploreError` for a program that fails."""
    found = [r for r in record(program, kernel, target, signature, to_the_end=True)
             if kernel in (None, r.kernel.name)]  # fmt: skip
    if not found:
        raise SnapshotError(f"{program[0]}: no kernel{f' called {kernel!r}' if kernel else ''} was "
                            "compiled")  # fmt: skip
    snapshot(found, title or Path(program[0]).name).save(file)
    return len(found)


def side(
    source: str, kernel: str | None, target: str | None, signature: str | None,
    settings: Sequence[str],
) -> Snapshot:  # fmt: skip
    """One side of a comparison: a snapshot file as it is, or one of a program or a file of IR,
    compiled in a process of its own with these settings (`NAME=VALUE`)."""
    if source.endswith(".json"):
        if settings:
            raise SnapshotError(f"{source} is a snapshot, which {settings[0]!r} cannot change")
        return Snapshot.load(Path(source))
    title = " ".join([Path(source).name, *([target] if target else []), *settings])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "snapshot.json")
        options = {"kernel": kernel, "target": target, "signature": signature, "title": title}
        try:
            in_process(["compare", "--save", str(place)], options, [source], settings)
        except ExploreError as error:
            raise SnapshotError(f"{title}: {error}") from None
        return Snapshot.load(place)
