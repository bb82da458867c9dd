"""Conversions between layouts, on a model of registers, lanes, warps and shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.layouts.test_encodings import EXPECTED, parse
from tritium.ir.layouts.conversion import Conversion, plan
from tritium.ir.layouts.encodings import linear
from tritium.ir.layouts.linear import LinearLayout

INPUTS = ("register", "lane", "warp")


def blocked(per_thread: list[int], threads: list[int], warps: list[int], order: list[int]) -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = {per_thread}, threadsPerWarp = {threads}, "
        f"warpsPerCTA = {warps}, order = {order}}}>"
    )


ROWS = blocked([1, 8], [4, 8], [4, 1], [1, 0])
NARROW = blocked([1, 1], [1, 32], [4, 1], [1, 0])
COLUMNS = blocked([8, 1], [8, 4], [1, 4], [0, 1])
MMA = (
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
    "instrShape = [16, 64, 16]}>"
)
OPERAND = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"


def elements(layout: LinearLayout) -> np.ndarray:
    """For each (register, lane, warp) the row-major index of the element held there."""
    grids = np.indices([layout.in_size(n) for n in INPUTS])
    where = layout.apply(dict(zip(INPUTS, grids, strict=True)))
    index: np.ndarray = np.zeros(grids[0].shape, np.int64)
    for name, bits in layout.out_dims:
        index = (index << bits) | where[name]
    return index


def offsets(layout: LinearLayout, memory: LinearLayout) -> np.ndarray:
    """For each (register, lane, warp) where in memory its element is."""
    grids = np.indices([layout.in_size(n) for n in INPUTS])
    coordinates = layout.apply(dict(zip(INPUTS, grids, strict=True)))
    found = memory.inverse().apply(coordinates)["offset"]
    return np.broadcast_to(found, grids[0].shape)


def conflicts(where: np.ndarray, vector: int, size: int) -> int:
    """Extra turns that the banks need for all accesses of a tile at these offsets: an access is of
    `vector` neighbours, those of as many lanes as move 128 bytes go together."""
    starts = np.unique(where // vector * vector * size, axis=0)  # (access, lane, warp), in bytes
    count = min(32, 128 // max(vector * size, 4))
    extra = 0
    for access in starts.reshape(-1, *where.shape[1:]):
        for warp in range(access.shape[1]):
            for first in range(0, access.shape[0], count):
                words = np.unique(access[first : first + count, warp] // 4)
                touched = np.unique(
                    words[:, None] + np.arange(max(vector * size // 4, 1))[None, :]
                )
                extra += int(np.bincount(touched % 32).max()) - 1
    return extra


def simulate(source: LinearLayout, result: LinearLayout, found: Conversion) -> np.ndarray:
    """Contents of each (register, lane, warp) of the result after the conversion."""
    held = elements(source)
    if found.kind == "shared":
        assert found.memory is not None
        memory = np.full(1 << found.memory.total_in_bits, -1)
        memory[offsets(source, found.memory)] = held
        return memory[offsets(result, found.memory)]
    grids = np.indices([result.in_size(n) for n in INPUTS])
    place = found.source_of.apply(dict(zip(INPUTS, grids, strict=True)))
    register, lane, _ = (np.broadcast_to(place[n], grids[0].shape) for n in INPUTS)
    if found.kind != "shuffles":
        lane = grids[1]  # no thread may need another
    return held[register, lane, grids[2]]


CASES = [
    (ROWS, ROWS, (64, 64), 2, "none"),
    (MMA, OPERAND, (64, 64), 2, "none"),
    (blocked([2, 2], [32, 1], [4, 1], [1, 0]), blocked([2, 2], [32, 1], [4, 1], [0, 1]),
     (256, 8), 4, "registers"),
    (ROWS, NARROW, (64, 64), 4, "shared"),
    (blocked([1, 4], [4, 8], [4, 1], [1, 0]), blocked([1, 1], [1, 32], [4, 1], [1, 0]),
     (16, 32), 4, "shared"),
    (blocked([1, 2], [2, 16], [4, 1], [1, 0]), blocked([2, 1], [1, 32], [4, 1], [1, 0]),
     (8, 32), 4, "shuffles"),
    (ROWS, COLUMNS, (64, 64), 2, "shared"),
    (ROWS, COLUMNS, (64, 64), 4, "shared"),
    (MMA, ROWS, (128, 128), 2, "shared"),
    (MMA, ROWS, (64, 64), 4, "shared"),
    (ROWS, OPERAND, (64, 64), 2, "shared"),
    (COLUMNS, MMA, (64, 64), 4, "shared"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "shape", "size", "kind"), CASES)
def test_conversion(a: str, b: str, shape: tuple[int, int], size: int, kind: str) -> None:
    source, result = (linear(parse(text), shape) for text in (a, b))
    found = plan(source, result, size)
    assert found.kind == kind
    np.testing.assert_array_equal(simulate(source, result, found), elements(result))
    if found.memory is not None:
        assert found.memory.is_invertible
        for layout, side in ((source, found.write), (result, found.read)):
            assert side is not None and side.conflicts == 0
            where = offsets(layout, found.memory)
            assert conflicts(where, 1 << side.width, size) == 0


def test_between_all_layouts_of_the_table() -> None:
    """Every conversion gives the right elements, whatever its kind."""
    texts = sorted({t for t, shape, _ in EXPECTED if len(shape) == 2 and "dot_op" not in t})
    layouts = [linear(parse(t), (64, 32)) for t in texts]
    by_warps: dict[int, list[LinearLayout]] = {}
    for layout in layouts:
        by_warps.setdefault(layout.in_bits("warp"), []).append(layout)
    kinds: set[str] = set()
    for group in by_warps.values():
        for source in group:
            for result in group:
                found = plan(source, result, 2)
                kinds.add(found.kind)
                np.testing.assert_array_equal(
                    simulate(source, result, found), elements(result), str((source, result))
                )
    assert {"none", "shared"} <= kinds
