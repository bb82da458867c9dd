"""Tiles that the blocks of a cluster share: where their parts are, and changes of layout between
blocks, on a model of registers and each block's shared memory."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.layouts.test_encodings import parse
from tritium.ir.layouts.conversion import Conversion, plan
from tritium.ir.layouts.encodings import linear, part_of, split_of
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import run_bits

INPUTS = ("register", "lane", "warp", "block")


def blocked(cluster: str, per_thread: str = "[1, 4]", order: str = "[1, 0]") -> str:
    return (
        f"#ttg.blocked<{{sizePerThread = {per_thread}, threadsPerWarp = [4, 8], "
        f"warpsPerCTA = [2, 2], order = {order}, CGALayout = {cluster}}}>"
    )


def elements(layout: LinearLayout) -> np.ndarray:
    """For each (register, lane, warp, block) the row-major index of the element held there."""
    grids = np.indices([layout.in_size(n) for n in INPUTS])
    where = layout.apply(dict(zip(INPUTS, grids, strict=True)))
    index: np.ndarray = np.zeros(grids[0].shape, np.int64)
    for name, bits in sorted(layout.out_dims):
        index = (index << bits) | where[name]
    return index


def at(layout: LinearLayout, name: str, like: LinearLayout) -> np.ndarray:
    """A layout's output for each position of another layout."""
    grids = np.indices([like.in_size(n) for n in INPUTS])
    found = layout.apply(dict(zip(INPUTS, grids, strict=True)))[name]
    return np.broadcast_to(found, grids[0].shape)


def simulate(source: LinearLayout, result: LinearLayout, found: Conversion) -> np.ndarray:
    """Contents of each position of the result afterwards; -1 where nobody wrote."""
    held = elements(source)
    block = np.indices(elements(result).shape)[3]
    if found.memory is None:  # in the same warp of the same block
        register, lane = (at(found.source_of, n, result) for n in INPUTS[:2])
        return held[register, lane, np.indices(block.shape)[2], block]
    assert found.written is not None and found.found is not None
    size = found.memory.in_size("offset")
    memory = np.full((source.in_size("block"), size), -1)
    memory[np.indices(held.shape)[3], at(found.written, "offset", source)] = held
    if found.kind == "shared":
        return memory[block, at(found.found, "offset", result)]
    place, bits = found.place_in_blocks()
    where, run = np.array(at(place, "offset", result)), run_bits(place, 4)
    mask = sum(1 << b for b in run)
    firsts = [r & ~mask for r in range(len(where))]
    further = [sum((r >> b & 1) << i for i, b in enumerate(run)) for r in range(len(where))]
    offset = (where[firsts] & (1 << bits) - 1) + np.reshape(further, (-1, 1, 1, 1))
    return memory[where[firsts] >> bits, offset]  # neighbours are read with the first


CLUSTERS = {
    2: ("[[1, 0]]", "[[0, 1]]", "[[0, 0]]"),
    4: ("[[1, 0], [2, 0]]", "[[0, 1], [1, 0]]", "[[1, 0], [0, 0]]", "[[0, 0], [0, 1]]",
        "[[0, 0], [0, 0]]"),
}  # fmt: skip
SHAPES = [(2, 2), (1, 4), (32, 64), (64, 32), (1, 64), (2, 128), (4, 1)]


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [2, 4])
def test_every_conversion_brings_every_element(count: int, shape: tuple[int, int]) -> None:
    kinds: set[str] = set()
    for a, b in product(CLUSTERS[count], CLUSTERS[count]):
        for other in (blocked(b), blocked(b, "[2, 1]", "[0, 1]")):
            source, result = linear(parse(blocked(a)), shape), linear(parse(other), shape)
            for size in (1, 2, 4, 8):
                found = plan(source, result, size, store=True, load=True)
                kinds.add(found.kind)
                np.testing.assert_array_equal(
                    simulate(source, result, found), elements(result), f"{a} to {other}"
                )
    if min(shape) > 1:
        assert {"none", "shared", "blocks"} <= kinds


def test_blocks_that_keep_their_part_use_memory_for_it_alone() -> None:
    rows, across = "[[1, 0], [2, 0]]", "[[0, 1], [0, 2]]"
    source = linear(parse(blocked(rows)), (64, 128))
    same = plan(source, linear(parse(blocked(rows, "[4, 1]", "[0, 1]")), (64, 128)), 4)
    other = plan(source, linear(parse(blocked(across)), (64, 128)), 4)
    assert (same.kind, other.kind) == ("shared", "blocks")
    for found in (same, other):
        assert found.memory is not None and found.memory.in_size("offset") == 64 * 128 // 4


def test_a_block_reads_copies_that_it_has_itself() -> None:
    """From a tile that every block has all of nothing is taken from another block."""
    source = linear(parse(blocked("[[0, 0]]")), (64, 64))
    result = linear(parse(blocked("[[1, 0]]", "[4, 1]", "[0, 1]")), (64, 64))
    assert plan(source, result, 4).kind == "shared"


def test_a_reshaped_split_lies_between_other_bits() -> None:
    """The blocks' bit is in the middle of a row; nothing about it is regular."""
    bases = {
        "register": [(0, 1), (0, 2)], "lane": [(0, 4), (0, 16), (0, 32), (1, 0), (2, 0)],
        "warp": [(4, 0), (8, 0)], "block": [(0, 8)],
    }  # fmt: skip
    source = LinearLayout.of(bases, {"dim0": 16, "dim1": 64})
    skewed = LinearLayout.of({**bases, "block": [(0, 8 + 1)]}, {"dim0": 16, "dim1": 64})
    for a, cluster in product((source, skewed), ("[[1, 0]]", "[[0, 1]]", "[[0, 0]]")):
        result = linear(parse(blocked(cluster)), (16, 64))
        for x, y in ((a, result), (result, a)):
            np.testing.assert_array_equal(simulate(x, y, plan(x, y, 4)), elements(y))


def test_bases_are_the_references() -> None:
    """`cluster_bases.json`: as `expected_bases.json` (see `test_encodings`), with `CGALayout`."""
    table = json.loads((Path(__file__).parent / "cluster_bases.json").read_text())
    assert len(table) == 195
    for text, shape, bases in table:
        layout = linear(parse(text), tuple(shape))
        expected = {name: [tuple(b) for b in vectors] for name, vectors in bases.items()}
        expected["register"] = [b for b in expected["register"] if any(b)]
        assert {name: layout.bases(name) for name in expected} == expected, (text, shape)


def test_where_the_parts_begin() -> None:
    encoding = parse(blocked("[[0, 1], [1, 0], [2, 0]]"))
    assert split_of(encoding.get("CGALayout"), 2) == (4, 2)
    assert part_of(encoding.get("CGALayout"), (64, 128)) == (16, 64)
    assert linear(encoding, (64, 128)).bases("block") == [(0, 64), (16, 0), (32, 0)]
    assert linear(encoding, (2, 128)).bases("block") == [(0, 64), (1, 0), (0, 0)], "copies"


@pytest.mark.parametrize("text", [
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], "
    "CGALayout = [[1, 0]]}>",
    "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16, "
    "CGALayout = [[0, 1]]}>",
])  # fmt: skip
def test_each_block_has_its_part_in_shared_memory(text: str) -> None:
    layout = linear(parse(text), (64, 128))
    assert layout.in_size("offset") == 64 * 128 // 2 and layout.is_invertible
    whole = linear(parse(text.replace("[1, 0]]", "[0, 0]]").replace("[0, 1]]", "[0, 0]]")),
                   (64, 128))  # fmt: skip
    assert whole.in_size("offset") == 64 * 128 and not whole.is_invertible
