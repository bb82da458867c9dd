"""Which elements `ldmatrix` brings to which lane (and `stmatrix` from it), simulated, against what
the layouts say; and that changes of layout use them."""

from __future__ import annotations

import re

import pytest

from tests.nvidia.support import kernel_text, to_ptx
from tritium.ir.layouts import fragments
from tritium.ir.layouts.encodings import (
    BLOCK,
    LANE,
    REGISTER,
    WARP,
    DotOperandEncoding,
    NvidiaMmaEncoding,
    NVMMASharedEncoding,
    SwizzledSharedEncoding,
    linear,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import place_of

MMA = NvidiaMmaEncoding.make(
    versionMajor=2, versionMinor=0, warpsPerCTA=(2, 2), instrShape=(16, 8)
)
SWIZZLED = SwizzledSharedEncoding.make(vec=8, perPhase=1, maxPhase=8, order=(1, 0))
HOPPER = NVMMASharedEncoding.make(swizzlingByteWidth=128, transposed=False, elementBitWidth=16)
COLUMNS = SwizzledSharedEncoding.make(vec=8, perPhase=1, maxPhase=8, order=(0, 1))


@pytest.mark.covering(1)
@pytest.mark.parametrize("shared", [SWIZZLED, HOPPER, COLUMNS])
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_lane_gets_its_elements(size: int, operand: int, shared: SwizzledSharedEncoding):
    many = 4 // size
    along = (shared is COLUMNS) == (operand == 1)  # neighbours in memory are so along the depth
    if shared is HOPPER:
        shared = NVMMASharedEncoding.make(
            swizzlingByteWidth=128, transposed=False, elementBitWidth=8 * size
        )
    elif size == 1:
        shared = SwizzledSharedEncoding.make(
            vec=16, perPhase=1, maxPhase=4, order=shared.get("order")
        )
    shape = (64, 128) if operand == 0 else (128, 64)
    tile = linear(DotOperandEncoding.make(opIdx=operand, parent=MMA, kWidth=many), shape)
    place = place_of(tile, linear(shared, shape))
    how = fragments.find(place, size)
    if size != 2 and not along:
        assert how is None, "only matrices of 16 bits are transposed"
        return
    assert how is not None
    assert how.trans == (not along)
    inner = sum(1 << b for b in (*how.word, *how.which))
    registers = [r for r in range(tile.in_size(REGISTER)) if not r & inner]

    def at(register: int, lane: int, warp: int) -> int:
        return place(**{REGISTER: register, LANE: lane, WARP: warp})[0]

    def chosen(bits: tuple[int, ...], number: int) -> int:
        return sum(1 << b for i, b in enumerate(bits) if number >> i & 1)

    for warp in range(4):
        for first in registers:
            for number in range(4):
                start = first | chosen(how.which, number)
                rows = [_row(how, at(start, 0, warp), lane) for lane in range(8)]
                for lane in range(32):
                    for part in range(many):
                        i, j = lane // 4, many * (lane % 4) + part
                        got = rows[j] + i if how.trans else rows[i] + j
                        assert got == at(start | chosen(how.word, part), lane, warp)


def _row(how: fragments.Matrices, start: int, lane: int) -> int:
    """The address that `lane` gives of its row."""
    for bit, column in enumerate(how.rows):
        if lane >> bit & 1:
            start ^= column
    return start


def test_wider_elements_are_loaded_one_by_one():
    tile = linear(DotOperandEncoding.make(opIdx=0, parent=MMA, kWidth=1), (64, 64))
    assert fragments.find(place_of(tile, linear(SWIZZLED, (64, 64))), 8) is None


def test_rows_begin_where_16_bytes_do_in_each_block():
    bases = {REGISTER: [], LANE: [[1], [2], [4], [8], [16]], WARP: [[32]], BLOCK: [[64]]}
    for begins, fits in (([64], True), ([66], False)):
        place = LinearLayout.of(bases | {BLOCK: [begins]}, {"offset": 128})
        assert (fragments.find(place, 4) is not None) == fits


HEAD = """#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], \
instrShape = [16, 64, 16]}>
#rows = #ttg.blocked<{sizePerThread = ROW, \
warpsPerCTA = [4, 1], order = [1, 0]}>
"""


def change(kind: str) -> str:
    """A product's result brought to the layout of a store."""
    body = f"""
    %x = tt.splat %v : {kind} -> tensor<64x64x{kind}, #mma>
    %y = ttg.convert_layout %x : tensor<64x64x{kind}, #mma> -> tensor<64x64x{kind}, #rows>
    %s = tt.splat %p : !tt.ptr<{kind}> -> tensor<64x64x!tt.ptr<{kind}>, #rows>
    tt.store %s, %y : tensor<64x64x!tt.ptr<{kind}>, #rows>"""
    row = "[1, 16], threadsPerWarp = [8, 4]" if kind == "i8" else "[1, 8], threadsPerWarp = [4, 8]"
    head = HEAD.replace("ROW", row)
    return kernel_text(body, f"%p: !tt.ptr<{kind}>, %v: {kind}", head=head)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(("kind", "count"), [("i8", 2), ("f16", 4), ("f32", 8)])
def test_results_of_products_go_through_shared_memory_as_matrices(
    arch: int, kind: str, count: int
):
    """A thread's 32 elements of 16 bits: 4 accesses of 16 bytes in, 4 out, one of them by matrices,
    so that neither has to take them apart. Before sm_90 only loads can be."""
    text = to_ptx(change(kind), arch=arch)
    stored, loaded = (
        text.count(f"{name}.sync.aligned.m8n8.x4.shared.b16") for name in ("stmatrix", "ldmatrix")
    )
    assert (stored, text.count("ld.shared.v4.b32")) == (count, count) or \
        (loaded, text.count("st.shared.v4.b32")) == (count, count)  # fmt: skip
    assert stored == 0 or arch >= 90
    assert text.count(".shared") == 2 * count + text.count(".extern .shared")


def test_wide_elements_are_stored_by_two():
    text = to_ptx(change("f64"))
    assert text.count("st.shared.v2.b64") == text.count("ld.shared.v2.b64") == 16


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


def test_addresses_that_differ_by_constants_share_a_register():
    """A warp's 64 bytes of each of 64 rows: lanes give rows whose swizzle is the same for every
    eighth, so that the instructions' immediate offsets tell those apart."""
    body = """
    %x = tt.splat %v : f16 -> tensor<64x32xf16, #tile>
    %m = ttg.local_alloc %x : (tensor<64x32xf16, #tile>) -> !ttg.memdesc<64x32xf16, #s, #smem>
    %y = ttg.local_load %m : !ttg.memdesc<64x32xf16, #s, #smem> -> tensor<64x32xf16, #a>
    %s = tt.splat %p : !tt.ptr<f16> -> tensor<64x32x!tt.ptr<f16>, #a>
    tt.store %s, %y : tensor<64x32x!tt.ptr<f16>, #a>"""
    head = """#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], \
instrShape = [16, 8]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#tile = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], \
order = [1, 0]}>
#s = #ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}>
#smem = #ttg.shared_memory
"""
    text = to_ptx(kernel_text(body, "%p: !tt.ptr<f16>, %v: f16", head=head), arch=80)
    loads = re.findall(r"ldmatrix\S+ \{[^}]*\}, \[(%r\d+)( \+ \d+)?\]", text)
    assert len(loads) == 8 and len({register for register, _ in loads}) == 2
    assert sorted(offset for register, offset in loads if register == loads[0][0]) == \
        ["", " + 1024", " + 2048", " + 3072"]  # fmt: skip
