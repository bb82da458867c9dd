"""Which elements `ldmatrix` brings to which lane, simulated, against what the layouts say."""

from __future__ import annotations

import pytest

from tritium.backends.nvidia.lower import matrix
from tritium.backends.nvidia.lower.shared import place_of
from tritium.ir.layouts.encodings import (
    LANE,
    REGISTER,
    WARP,
    DotOperandEncoding,
    NvidiaMmaEncoding,
    NVMMASharedEncoding,
    SwizzledSharedEncoding,
    linear,
)

MMA = NvidiaMmaEncoding.make(
    versionMajor=2, versionMinor=0, warpsPerCTA=(2, 2), instrShape=(16, 8)
)
SWIZZLED = SwizzledSharedEncoding.make(vec=8, perPhase=1, maxPhase=8, order=(1, 0))
HOPPER = NVMMASharedEncoding.make(swizzlingByteWidth=128, transposed=False, elementBitWidth=16)
COLUMNS = SwizzledSharedEncoding.make(vec=8, perPhase=1, maxPhase=8, order=(0, 1))


@pytest.mark.parametrize("shared", [SWIZZLED, HOPPER, COLUMNS])
@pytest.mark.parametrize("operand", [0, 1])
def test_every_lane_gets_its_elements(operand: int, shared: SwizzledSharedEncoding):
    tile = linear(DotOperandEncoding.make(opIdx=operand, parent=MMA, kWidth=2), (64, 64))
    place = place_of(tile, linear(shared, (64, 64)))
    how = matrix.find(tile, place, 2)
    assert how is not None
    row_is_k = operand == 1
    assert how.trans == (row_is_k != (shared is COLUMNS))
    inner = 1 << how.pair | sum(1 << b for b in how.which)
    registers = [r for r in range(tile.in_size(REGISTER)) if not r & inner]

    def at(register: int, lane: int, warp: int) -> int:
        return place(**{REGISTER: register, LANE: lane, WARP: warp})[0]

    for warp in range(4):
        for first in registers:
            for number in range(4):
                start = first | sum(1 << b for i, b in enumerate(how.which) if number >> i & 1)
                rows = [_row(how, at(start, 0, warp), lane) for lane in range(8)]
                for lane in range(32):
                    for half in (0, 1):
                        i, j = lane // 4, 2 * (lane % 4) + half
                        got = rows[j] + i if how.trans else rows[i] + j
                        assert got == at(start | half << how.pair, lane, warp)


def _row(how: matrix.Matrices, start: int, lane: int) -> int:
    """The address that `lane` gives of its row."""
    for bit, column in enumerate(how.rows):
        if lane >> bit & 1:
            start ^= column
    return start


def test_other_elements_are_loaded_one_by_one():
    tile = linear(DotOperandEncoding.make(opIdx=0, parent=MMA, kWidth=1), (64, 64))
    assert matrix.find(tile, place_of(tile, linear(SWIZZLED, (64, 64))), 4) is None
