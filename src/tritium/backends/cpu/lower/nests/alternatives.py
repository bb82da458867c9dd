"""Two ways to do the same, of which one is chosen when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.writer import Value


def either(
    c: Context,
    results: Sequence[SSAValue],
    holds: Value,
    first: Callable[[], None],
    second: Callable[[], None],
    names: tuple[str, str] = ("whole", "general"),
) -> None:
    """Code that does `first` if `holds`, else `second`; both define the scalars `results`, unless
    these have a value already. `names` are those of the blocks."""
    f, before = c.f, {r: c.scalars[r] for r in results if r in c.scalars}
    labels, done = [f.new_label(name) for name in names], f.new_label("joined")
    f.branch_if(holds, labels[0], labels[1])
    arrivals: list[tuple[str, list[Value]]] = []
    for label, write in zip(labels, (first, second), strict=True):
        f.label(label)
        c.scalars.update(before)
        write()
        arrivals.append((f.block, [c.scalars[r] for r in results]))
        f.branch(done)
    f.label(done)
    for number, result in enumerate(results):
        incoming = [(values[number], label) for label, values in arrivals]
        c.scalars[result] = f.phi(incoming[0][0].type, incoming).value
