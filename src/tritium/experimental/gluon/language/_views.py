"""Layouts as text: what holds each element, and what each place holds."""

from __future__ import annotations

from itertools import product

from tritium.ir.layouts.encodings import BLOCK, LANE, OFFSET, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout


def positions(layout: LinearLayout) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(the numbers of all inputs, coordinates) of each position of a layout."""
    sizes = [range(layout.in_size(name)) for name in layout.in_names]
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for numbers in product(*reversed(sizes)):
        inputs = dict(zip(layout.in_names, reversed(numbers), strict=True))
        place = layout.apply(inputs)
        found.append((tuple(inputs.values()), tuple(place[n] for n in layout.out_names)))
    return found


def holder(layout: LinearLayout, numbers: tuple[int, ...]) -> str:
    """`T37:2`, the register 2 of the thread 37, or the offset; with more blocks than one `B1:`."""
    named = dict(zip(layout.in_names, numbers, strict=True))
    block = f"B{named[BLOCK]}:" if layout.in_bits(BLOCK) else ""
    if OFFSET in named:
        return f"{block}{named[OFFSET]}"
    thread = named.get(WARP, 0) << layout.in_bits(LANE) | named.get(LANE, 0)
    return f"{block}T{thread}:{named.get(REGISTER, 0)}"


def tensor_view(layout: LinearLayout) -> str:
    """A table of a block's elements: in each place the threads and registers (or the offset) that
    have the element, several with `|` between. More than two axes are a table each."""
    holders: dict[tuple[int, ...], list[str]] = {}
    for numbers, place in positions(layout):
        holders.setdefault(place, []).append(holder(layout, numbers))
    shape = [layout.out_size(name) for name in layout.out_names]
    width = max(len("|".join(texts)) for texts in holders.values())
    lines: list[str] = []
    for outer in product(*map(range, shape[:-2])):
        if outer:
            lines.append(f"{list(outer)}:")
        for row in product(*map(range, shape[len(outer) : -1])):
            cells = [holders.get((*outer, *row, i), []) for i in range(shape[-1])]
            lines.append("[" + ", ".join("|".join(c).rjust(width) for c in cells) + "]")
    return "\n".join(lines)


def hardware_view(layout: LinearLayout) -> str:
    """A table for each warp (and block): a row for each thread, and in it for each register the
    coordinates of the element; of shared memory a row for each offset."""
    lines: list[str] = []
    shared = OFFSET in layout.in_names
    rows: dict[str, list[str]] = {}
    for numbers, place in positions(layout):
        key = holder(layout, numbers)
        key = key if shared else key.rpartition(":")[0]
        rows.setdefault(key, []).append(f"({', '.join(map(str, place))})")
    width = max(map(len, rows))
    for key, places in rows.items():
        lines.append(f"{key.ljust(width)}: {', '.join(places)}")
    return "\n".join(lines)
