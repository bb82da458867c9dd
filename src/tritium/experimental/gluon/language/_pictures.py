"""Layouts as pictures (SVG): a cell for each element, coloured by its warp (of shared memory by
its bank), with the threads and registers that hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import product

from tritium.experimental.gluon.language import _views
from tritium.ir.layouts.encodings import LANE, OFFSET, WARP
from tritium.ir.layouts.linear import LinearLayout

CELL_HEIGHT, CHARACTER, MARGIN, GAP = 18, 6.2, 24, 14
FONT = 'font-family="monospace" font-size="10"'
BANKS = 32


def _colour(number: int, of: int, light: float) -> str:
    """One of `of` hues that are far apart."""
    return f"hsl({360 * number / max(of, 1):.0f}, 65%, {light:.0f}%)"


def _fill(layout: LinearLayout, numbers: Mapping[str, int]) -> str:
    """The colour of what is at a place: by warp, lanes from light to dark; or by bank."""
    if OFFSET in numbers:
        return _colour(numbers[OFFSET] % BANKS, BANKS, 78)
    lanes = layout.in_size(LANE)
    light = 90 - 30 * numbers.get(LANE, 0) / max(lanes, 1)
    return _colour(numbers.get(WARP, 0), layout.in_size(WARP), light)


def _cells(layout: LinearLayout) -> dict[tuple[int, ...], tuple[str, str]]:
    """(text, colour) of each element; what holds a copy is added to the text."""
    found: dict[tuple[int, ...], tuple[str, str]] = {}
    for numbers, place in _views.positions(layout):
        named = dict(zip(layout.in_names, numbers, strict=True))
        text, (before, colour) = _views.holder(layout, numbers), found.get(place, ("", ""))
        found[place] = (f"{before}|{text}" if before else text, colour or _fill(layout, named))
    return found


def _table(
    cells: Mapping[tuple[int, ...], tuple[str, str]], outer: tuple[int, ...], rows: int,
    columns: int, width: float, top: float,
) -> Iterator[str]:  # fmt: skip
    """The rectangles and texts of a matrix; `outer`: the coordinates of the axes before it."""
    for j in range(columns):
        x = MARGIN + (j + 0.5) * width
        yield f'<text x="{x:.1f}" y="{top - 4:.1f}" text-anchor="middle" {FONT}>{j}</text>'
    for i in range(rows):
        y = top + i * CELL_HEIGHT
        yield f'<text x="2" y="{y + 13:.1f}" {FONT}>{i}</text>'
        for j in range(columns):
            text, colour = cells.get((*outer, i, j), ("", "white"))
            x = MARGIN + j * width
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{CELL_HEIGHT}" '
                f'fill="{colour}" stroke="white"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + 13:.1f}" text-anchor="middle" {FONT}>'
                f"{escape(text)}</text>"
            )


def svg(layout: LinearLayout, title: str) -> str:
    """The picture of a layout; of more than two axes, a matrix for each place along the others."""
    shape = [layout.out_size(name) for name in layout.out_names]
    cells = _cells(layout)
    if len(shape) == 1:
        cells, shape = {(0, *place): cell for place, cell in cells.items()}, [1, *shape]
    *before, rows, columns = shape
    width = max(len(text) for text, _ in cells.values()) * CHARACTER + 6
    parts, top = list[str](), 2.0 * MARGIN
    for outer in product(*map(range, before)):
        if outer:
            parts.append(f'<text x="2" y="{top - 16:.1f}" {FONT}>{list(outer)}</text>')
        parts += _table(cells, outer, rows, columns, width, top)
        top += rows * CELL_HEIGHT + GAP + MARGIN
    size = f'width="{MARGIN + columns * width + 2:.0f}" height="{top:.0f}"'
    head = f'<text x="2" y="14" {FONT} font-weight="bold">{escape(title)}</text>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', head, *parts, "</svg>"])
