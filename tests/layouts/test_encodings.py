"""Encodings mean what the reference's do: `expected_bases.json` has, for encodings and shapes, the
bases that Triton 3.6 gives (`GluonOpBuilder.to_linear_layout`). Where it keeps registers that hold
copies of other registers of the thread, ours drops them. Shared memory is checked by formula."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritium.ir.layouts.encodings import (
    Encoding,
    LinearEncoding,
    NVMMASharedEncoding,
    SwizzledSharedEncoding,
    linear,
)
from tritium.ops.parsing import IRParser

EXPECTED: list[tuple[str, list[int], dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "expected_bases.json").read_text()
)


def parse(text: str) -> Encoding:
    """The encoding that a text describes."""
    found = IRParser(text, "<test>", {}).parse_attribute()
    assert isinstance(found, Encoding)
    return found


def test_the_table_is_there() -> None:
    assert len(EXPECTED) == 238


@pytest.mark.parametrize("text", sorted({text for text, _, _ in EXPECTED}))
def test_bases(text: str) -> None:
    encoding = parse(text)
    for other, shape, bases in EXPECTED:
        if other != text:
            continue
        layout = linear(encoding, tuple(shape))
        expected = {name: [tuple(b) for b in vectors] for name, vectors in bases.items()}
        expected["register"] = [b for b in expected["register"] if any(b)]
        assert {name: layout.bases(name) for name in expected} == expected, (text, shape)
        assert layout.is_surjective
        again = linear(LinearEncoding.from_layout(layout), tuple(shape))
        assert again.transpose_ins(layout.in_names) == layout


#: Rows of memory must be at least as wide as the swizzle.
SWIZZLED = [
    (shape, swizzle, bits, transposed)
    for shape in [(64, 64), (8, 128), (128, 256), (256, 64)]
    for swizzle in (32, 64, 128)
    for bits in (8, 16, 32)
    for transposed in (False, True)
    if shape[not transposed] * bits // 8 >= swizzle and shape[transposed] >= 8
]


@pytest.mark.parametrize(("shape", "swizzle", "bits", "transposed"), SWIZZLED)
def test_nvmma_shared_is_the_hardware_swizzle(
    shape: tuple[int, int], swizzle: int, bits: int, transposed: bool
) -> None:
    """In a row of `swizzle` bytes, 16-byte group g of row r is at g ^ (bits of r); rows follow one
    another, then columns of rows. (The pattern repeats after 128 * swizzle / 16 bytes.)"""
    encoding = NVMMASharedEncoding.make(
        swizzlingByteWidth=swizzle, transposed=transposed, elementBitWidth=bits
    )
    layout = linear(encoding, shape)
    assert layout.is_invertible
    rows, columns = shape[::-1] if transposed else shape
    size = bits // 8
    width = min(swizzle // size, columns)
    inverse = layout.inverse()
    places = [(0, 0), (1, 0), (2, 3), (5, 7), (7, columns - 1), (rows - 1, columns // 2)]
    for row, column in places:
        at = {"dim0": column, "dim1": row} if transposed else {"dim0": row, "dim1": column}
        offset = int(inverse.apply(at)["offset"]) * size
        flat = (column // width) * rows * swizzle + row * swizzle + column % width * size
        # Address bits 4.. are XORed with bits 7.. (Swizzle<1|2|3, 4, 3>).
        mask = swizzle // 16 - 1
        assert offset == flat ^ ((flat >> 7 & mask) << 4), (row, column)


@pytest.mark.parametrize(("vec", "per_phase", "max_phase"), [(8, 1, 8), (4, 2, 4), (1, 1, 1)])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_swizzled_shared_by_formula(
    vec: int, per_phase: int, max_phase: int, order: tuple[int, int]
) -> None:
    encoding = SwizzledSharedEncoding.make(
        vec=vec, perPhase=per_phase, maxPhase=max_phase, order=order
    )
    shape = (64, 64)
    inverse = linear(encoding, shape).inverse()
    for row in range(0, 64, 7):
        for column in range(64):
            at = {f"dim{order[0]}": column, f"dim{order[1]}": row}
            group = (column // vec) ^ (row // per_phase % max_phase)
            assert inverse.apply(at)["offset"] == row * 64 + group * vec + column % vec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#ttg.blocked<{sizePerThread = [1], order = [0]}>", "missing parameter"),
        ("#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], "
         "order = [1]}>", "permutation"),
        ("#ttg.slice<{dim = 0, parents = 1}>", "unknown parameter parents"),
        ("#ttg.swizzled_shared<{vec = 3, perPhase = 1, maxPhase = 1, order = [0]}>",
         "vec is 3; a power of two"),
    ],
)  # fmt: skip
def test_bad_encodings_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        parse(text)


def swizzled_address(address: int, swizzle: int) -> int:
    """Where the bulk copy engine puts the byte that would be at an address of the block, rows of
    `swizzle` bytes one after the other: 16-byte groups are permuted by bits 7 to 9 (PTX ISA,
    swizzling modes)."""
    phase = address >> 7 & (swizzle // 16 - 1)
    return address ^ phase << 4


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("shape", [(2, 64), (1, 256), (4, 128), (2, 2, 32), (4, 1, 64), (8, 64),
                                   (2, 16, 32)])  # fmt: skip
def test_few_rows_are_permuted_as_their_address_says(shape: tuple[int, ...], swizzle: int) -> None:
    """Rows, then columns, then outer axes, without gaps; an address in 1024 bytes decides."""
    layout = linear(parse(
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = false, "
        "elementBitWidth = 32}>"
    ), shape)  # fmt: skip
    assert layout.is_invertible
    width, (rows, columns) = swizzle // 4, shape[-2:]
    inverse = layout.inverse()
    for index in np.ndindex(*shape):
        *outer, row, column = index
        plane = int(np.ravel_multi_index(outer, shape[:-2])) if outer else 0
        line = (plane * (columns // width) + column // width) * rows + row
        want = swizzled_address(line * swizzle + column % width * 4, swizzle)
        found = inverse.apply({f"dim{i}": x for i, x in enumerate(index)})["offset"]
        assert int(found) * 4 == want, index
