"""`tritium exact`: a comparison of what two programs' kernels compute, in exact numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tritium.cli.explore import ExploreError, in_process, record
from tritium.sanitize.exact.comparison import Outputs, differing


def save(program: Sequence[str], file: Path) -> int:
    """Run a program with exact numbers and save what its launches leave; returns how many arrays
    that are. Raises `ExploreError` where the program fails or launches nothing."""
    outputs = Outputs()
    with outputs.recording():
        record(program, None, None, None, to_the_end=True)
    if not outputs.arrays:
        raise ExploreError(f"{program[0]}: no kernel was launched with arrays")
    outputs.save(file)
    return len(outputs.arrays)


def compare_programs(
    sources: Sequence[str], settings: tuple[Sequence[str], Sequence[str]]
) -> tuple[str, bool]:
    """Run two programs, each in a process of its own: a report, and whether the arrays that kernels
    of both get by the same names end up with the same bits."""
    if len(sources) > 2:
        raise ExploreError(f"tritium exact: {len(sources)} programs; one or two are compared")
    first, second = sources[0], sources[-1]
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for side, (source, own) in enumerate(zip((first, second), settings, strict=True)):
            place = Path(folder, f"{side}.npz")
            try:
                in_process(["exact", "--save", str(place)], {}, [source], own)
            except ExploreError as error:
                raise ExploreError(f"{source}: {error}") from None
            found.append(Outputs.load(place))
    common = [name for name in found[0] if name in found[1]]
    if not common:
        names = [", ".join(side) for side in found]
        raise ExploreError(
            f"{first} and {second}: no argument of a kernel has the same name in both "
            f"({names[0]}; {names[1]})"
        )
    lines = list(differing(*({n: side[n] for n in common} for side in found)))
    title = f"{Path(first).name} and {Path(second).name}: "
    if not lines:
        names = ", ".join(common)
        return f"{title}the same in exact numbers ({names})\n", True
    report = [f"{title}not the same in exact numbers", *(f"  {line}" for line in lines), ""]
    return "\n".join(report), False
