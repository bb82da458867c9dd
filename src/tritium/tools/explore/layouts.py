"""Layouts of a ttgir text as grids: the warp, the lane and the register of each element."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType

from tritium.ir.layouts.encodings import Encoding
from tritium.ops.parsing import parse_module

_MOST = 64
"""Rows and columns that are drawn."""


def layouts_of(text: str) -> list[dict[str, Any]]:
    """The layouts of tiles in the text, of one or two axes. For each: its text, the largest tile
    that has it, and for its first rows and columns the warp, the lane and the register (row by
    row)."""
    largest: dict[Encoding, tuple[int, ...]] = {}
    for op in parse_module(text, "<ttgir>").walk():
        for value in op.results:
            kind = value.type
            if isinstance(kind, TensorType) and isinstance(kind.encoding, Encoding):
                shape = tuple(kind.get_shape())
                if np.prod(shape) > np.prod(largest.get(kind.encoding, (0,))):
                    largest[kind.encoding] = shape
    found = [(e, s) for e, s in largest.items() if len(s) in (1, 2)]
    return [_grid(encoding, shape) for encoding, shape in found]


def _grid(encoding: Encoding, shape: tuple[int, ...]) -> dict[str, Any]:
    layout = encoding.to_linear(shape)
    sizes = {name: layout.in_size(name) for name in layout.in_names}
    rows, columns = (1, *shape)[-2:]
    holders = np.full((rows, columns, 3), -1, np.int64)
    indices = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    given: dict[str, Any] = dict(zip(sizes, indices, strict=True))
    where = list(layout.apply(given).values())
    axes = [np.zeros_like(indices[0]), *where][-2:]
    zero: Any = np.zeros_like(indices[0])
    parts = [given.get(name, zero) for name in ("warp", "lane", "register")]
    # The first holder of an element that several threads hold is drawn.
    order = np.arange(indices.shape[1])[::-1]
    holders[axes[0][order], axes[1][order]] = np.stack(parts, axis=-1)[order]
    copies = indices.shape[1] // int(np.prod(shape))
    drawn = holders[:_MOST, :_MOST]
    return {
        "text": str(encoding), "shape": list(shape), "rows": drawn.shape[0],
        "columns": drawn.shape[1], "copies": copies, "holders": drawn.reshape(-1, 3).tolist(),
        "sizes": sizes,
    }  # fmt: skip
