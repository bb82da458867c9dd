"""Layouts of shared memory in a ttgir text: the bank of each element, and how often accesses to a
bank have to wait for each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import Encoding, SharedEncoding
from tritium.ir.locations import source_position
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action
from tritium.ops.parsing import parse_module
from tritium.ops.ttgir.types import MemDescType

BANKS, BANK_BYTES = 32, 4
"""The banks of shared memory and their width, as NVIDIA's GPUs have them; each serves one word of
a warp's access at a time."""
_MOST_BYTES = 16
"""The most that a thread reads or writes in one access."""
_MOST = 64
"""Rows and columns that are drawn."""


class Waves(NamedTuple):
    """The passes over shared memory that the accesses of one warp to a tile need.

    Attributes:
        width: the bytes of a thread's access.
        needed: the passes, those included that conflicts of banks cost.
        least: the passes without any conflict.
    """

    width: int
    needed: int
    least: int


def shared_layouts_of(text: str) -> list[dict[str, Any]]:
    """The layouts of tiles in shared memory, of one or two axes. For each: its text, the largest
    tile that has it, for the tile's first rows and columns the line of banks, the bank and the
    offset, and the accesses of whole tiles to such memory with their passes."""
    largest: dict[Encoding, Any] = {}
    accesses: dict[Encoding, list[dict[str, Any]]] = {}
    for op in parse_module(text, "<ttgir>").walk():
        for value in (*op.operands, *op.results):
            kind: Any = value.type
            if not isinstance(kind, MemDescType) or not isinstance(kind.encoding, SharedEncoding):
                continue
            shape = tuple(kind.get_shape())
            known = largest.get(kind.encoding)
            if len(shape) in (1, 2) and (known is None or np.prod(shape) > np.prod(_shape(known))):
                largest[kind.encoding] = kind
        if isinstance(op, Op) and (found := _access(op)) is not None:
            accesses.setdefault(found[0], []).append(found[1])
    return [_grid(kind, accesses.get(encoding, [])) for encoding, kind in largest.items()]


def _shape(kind: Any) -> tuple[int, ...]:
    return tuple(kind.get_shape())


def offsets_in(kind: Any) -> Any:
    """The offset of each element of a tile in shared memory, in elements."""
    layout, shape = kind.encoding.to_linear(_shape(kind)), _shape(kind)
    sizes = {name: layout.in_size(name) for name in layout.in_names}
    indices = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    given: dict[str, Any] = dict(zip(sizes, indices, strict=True))
    found = np.full(shape, -1, np.int64)
    found[tuple(layout.apply(given).values())] = given["offset"]
    return found


def waves(tile: Any, memory: Any) -> Waves:
    """The passes that one warp's plain loads or stores of a tile in registers need. (Instructions
    that move whole matrices, and copy engines, have an order of their own.)"""
    layout, size = tile.encoding.to_linear(_shape(tile)), ir.bit_width(tile.element_type) // 8
    offsets = offsets_in(memory)
    registers, lanes = layout.in_size("register"), layout.in_size("lane")
    register, lane = np.indices((registers, lanes)).reshape(2, -1)
    zero: Any = np.zeros_like(register)
    given = dict.fromkeys(layout.in_names, zero) | {"register": register, "lane": lane}
    at = offsets[tuple(layout.apply(given).values())].reshape(registers, lanes) * size
    count = 1
    while count * 2 * size <= _MOST_BYTES and _together(at, 2 * count, size):
        count *= 2
    width = count * size
    needed = least = 0
    for first in at[::count]:
        together = max(1, min(lanes, BANKS * BANK_BYTES // width))
        for start in range(0, lanes, together):
            words = first[start : start + together, None] + np.arange(0, width, BANK_BYTES)
            words = np.unique(words // BANK_BYTES)
            needed += int(np.bincount(words % BANKS).max())
            least += 1
    return Waves(width, needed, least)


def _together(at: Any, count: int, size: int) -> bool:
    """True if each `count` registers of a thread lie one after the other, and are aligned."""
    if len(at) % count:
        return False
    groups = at.reshape(-1, count, at.shape[1])
    steps = np.arange(count)[None, :, None] * size
    aligned = (groups[:, 0] % (count * size) == 0).all()
    return bool(aligned and (groups == groups[:, :1] + steps).all())


def _access(op: Op) -> tuple[Encoding, dict[str, Any]] | None:
    """The layout of the memory that an op moves a whole tile to or from, and the op's passes."""
    values: list[Any] = [*op.operands, *op.results]
    memories: list[Any] = [v.type for v in values if isinstance(v.type, MemDescType)]
    tiles: list[Any] = [v.type for v in values if isinstance(v.type, ir.TensorType)]
    actions = {e.action for e in op.own_effects() if e.resource is SHARED}
    if len(memories) != 1 or len(tiles) != 1 or not actions & {Action.READ, Action.WRITE}:
        return None
    (memory,), (tile,) = memories, tiles
    encoding: Any = getattr(tile, "encoding", None)
    if not isinstance(encoding, Encoding) or _shape(memory) != _shape(tile):
        return None
    _, line, _ = source_position(op.location) or ("", 0, 0)  # pyright: ignore
    found = waves(tile, memory)
    return memory.encoding, {"op": op.name, "line": line, **found._asdict()}


def _grid(kind: Any, accesses: list[dict[str, Any]]) -> dict[str, Any]:
    shape, size = _shape(kind), ir.memory_bytes(kind.element_type)
    offsets = offsets_in(kind) * size
    drawn = offsets.reshape((1, *shape)[-2:])[:_MOST, :_MOST]
    holders = np.stack([drawn // (BANKS * BANK_BYTES), drawn // BANK_BYTES % BANKS, drawn], axis=-1)
    return {
        "text": str(kind.encoding), "shape": list(shape), "rows": drawn.shape[0],
        "columns": drawn.shape[1], "copies": 1, "holders": holders.reshape(-1, 3).tolist(),
        "sizes": {"bank": BANKS}, "shared": True, "accesses": accesses,
    }  # fmt: skip
