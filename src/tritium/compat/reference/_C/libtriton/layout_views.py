"""Text that shows a linear layout, in the reference's form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tritium.ir.layouts.linear import LinearLayout


def distributed(layout: LinearLayout, use_hw_view: bool) -> str:
    """The text of `LinearLayout.get_distributed_view`."""
    _check_inputs(layout, ("register", "lane", "warp", "block"))
    registers, lanes, warps, blocks = map(layout.in_size, ("register", "lane", "warp", "block"))
    if use_hw_view:
        return _of_warps(layout)
    shape = [layout.out_size(name) for name in layout.out_names]
    holders: dict[tuple[int, ...], list[str]] = {}
    for block, warp, lane, register in itertools.product(
        range(blocks), range(warps), range(lanes), range(registers)
    ):
        element = _element(layout, register=register, lane=lane, warp=warp, block=block)
        place = f"B{block}:" if blocks > 1 else ""
        holders.setdefault(element, []).append(f"{place}T{warp * lanes + lane}:{register}")
    width = max(len(text) for texts in holders.values() for text in texts)
    cells = [
        "|".join(text.rjust(width) for text in holders.get(at, []))
        for at in itertools.product(*map(range, shape))
    ]
    return _nested(cells, shape, ", ")


def _of_warps(layout: LinearLayout) -> str:
    registers, lanes, warps, blocks = map(layout.in_size, ("register", "lane", "warp", "block"))
    lines: list[str] = []
    for block in range(blocks):
        lines += [f"Block{block}:"] if blocks > 1 else []
        for warp in range(warps):
            lines.append(f"Warp{warp}:")
            for register in range(registers):
                row = [_element(layout, register=register, lane=lane, warp=warp, block=block)
                       for lane in range(lanes)]  # fmt: skip
                lines.append(", ".join(_tuple(element, layout) for element in row))
    return "\n".join(lines) + "\n"


def shared(layout: LinearLayout, use_hw_view: bool) -> str:
    """The text of `LinearLayout.get_shared_view`."""
    _check_inputs(layout, ("offset", "block"))
    stored, blocks = map(layout.in_size, ("offset", "block"))
    shape = [layout.out_size(name) for name in layout.out_names]
    offsets = range(math.prod(shape) // blocks)  # as many as the tensor has, stored or not
    elements = [
        [_element(layout, offset=offset % stored, block=block) for offset in offsets]
        for block in range(blocks)
    ]
    if not use_hw_view:
        cells = [_tuple(e, layout, ":") for e in itertools.chain(*elements)]
        return _nested(cells, shape, ",")
    lines: list[str] = []
    for block, row in enumerate(elements):
        lines.append(f"Block: {block}:")
        lines += [f"Offset: {at} -> {_tuple(element, layout)}" for at, element in enumerate(row)]
    return "\n".join(lines) + "\n"


def _check_inputs(layout: LinearLayout, needed: Sequence[str]) -> None:
    if missing := [name for name in needed if name not in layout.in_names]:
        raise ValueError(
            f"the layout's input dimensions are {', '.join(layout.in_names)}; this view needs "
            f"{', '.join(missing)}, too"
        )


def _element(layout: LinearLayout, **inputs: int) -> tuple[int, ...]:
    return tuple(int(value) for value in layout.apply(inputs).values())


def _tuple(element: Sequence[int], layout: LinearLayout, separator: str = ",") -> str:
    """An element's coordinates, each as wide as the largest of its dimension."""
    widths = [len(str(layout.out_size(name) - 1)) for name in layout.out_names]
    numbers = (str(n).rjust(width) for n, width in zip(element, widths, strict=True))
    return f"({separator.join(numbers)})"


def _nested(cells: Sequence[str], shape: Sequence[int], separator: str) -> str:
    """The cells, in order, as nested lists of this shape, a line for each row."""
    rank, row = len(shape), shape[-1]
    lines: list[str] = []
    for start in range(0, len(cells), row):
        opened, closed = (_divided(position, shape) for position in (start, start + row))
        head = "[" * opened + " " * (rank - opened)
        lines.append(head + separator.join(cells[start : start + row]) + "]" * closed)
    return "\n".join(lines) + "\n"


def _divided(position: int, shape: Sequence[int]) -> int:
    """The number of innermost dimensions whose lists all begin, or end, at this cell."""
    count, size = 0, 1
    for extent in reversed(shape):
        size *= extent
        if position % size:
            break
        count += 1
    return count
