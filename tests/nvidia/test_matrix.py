"""Which elements `ldmatrix` brings to which lane (and `stmatrix` from it), simulated, against what
the layouts say; and that changes of layout use them."""

from __future__ import annotations

import pytest

from tests.nvidia.support import kernel_text, to_ptx
from tritium.ir.layouts import fragments
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
from tritium.ir.layouts.swizzle import place_of

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
    how = fragments.find(place, 2)
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


def _row(how: fragments.Matrices, start: int, lane: int) -> int:
    """The address that `lane` gives of its row."""
    for bit, column in enumerate(how.rows):
        if lane >> bit & 1:
            start ^= column
    return start


def test_other_elements_are_loaded_one_by_one():
    tile = linear(DotOperandEncoding.make(opIdx=0, parent=MMA, kWidth=1), (64, 64))
    assert fragments.find(place_of(tile, linear(SWIZZLED, (64, 64))), 4) is None


HEAD = """#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [16, 64, 16]}>
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], \
order = [1, 0]}>
"""


def change(kind: str) -> str:
    """A product's result brought to the layout of a store."""
    body = f"""
    %x = tt.splat %v : {kind} -> tensor<64x64x{kind}, #mma>
    %y = ttg.convert_layout %x : tensor<64x64x{kind}, #mma> -> tensor<64x64x{kind}, #rows>
    %s = tt.splat %p : !tt.ptr<{kind}> -> tensor<64x64x!tt.ptr<{kind}>, #rows>
    tt.store %s, %y : tensor<64x64x!tt.ptr<{kind}>, #rows>"""
    return kernel_text(body, f"%p: !tt.ptr<{kind}>, %v: {kind}", head=HEAD)


@pytest.mark.parametrize("arch", [80, 90])
def test_results_of_products_go_through_shared_memory_as_matrices(arch: int):
    """A thread's 32 elements: 4 accesses of 16 bytes in, 4 out, one of them by matrices, so that
    neither has to take them apart. Before sm_90 only loads can be."""
    text = to_ptx(change("f16"), arch=arch)
    stored, loaded = (
        text.count(f"{name}.sync.aligned.m8n8.x4.shared.b16") for name in ("stmatrix", "ldmatrix")
    )
    assert (stored, text.count("ld.shared.v4.b32")) == (4, 4) or \
        (loaded, text.count("st.shared.v4.b32")) == (4, 4)  # fmt: skip
    assert stored == 0 or arch >= 90
    assert text.count(".shared") == 8 + text.count(".extern .shared")


def test_wide_elements_are_stored_by_two():
    text = to_ptx(change("f32"))
    assert text.count("st.shared.v2.b32") == 16 and text.count("ld.shared.v4.b32") == 8


def test_moves_within_a_warp_are_shuffles():
    """Two elements a thread along rows to two along columns: no shared memory."""
    head = "".join(
        f"#{name} = #ttg.blocked<{{sizePerThread = [{size}], threadsPerWarp = [{threads}], "
        "warpsPerCTA = [4, 1], order = [1, 0]}>\n"
        for name, size, threads in (("a", "1, 2", "2, 16"), ("b", "2, 1", "1, 32"))
    )
    body = """
    %x = tt.splat %v : f32 -> tensor<8x32xf32, #a>
    %y = ttg.convert_layout %x : tensor<8x32xf32, #a> -> tensor<8x32xf32, #b>
    %s = tt.splat %p : !tt.ptr<f32> -> tensor<8x32x!tt.ptr<f32>, #b>
    tt.store %s, %y : tensor<8x32x!tt.ptr<f32>, #b>"""
    text = to_ptx(kernel_text(body, "%p: !tt.ptr<f32>, %v: f32", head=head))
    assert text.count("shfl.sync.idx") in (2, 4) and ".shared" not in text
