"""Copies of tensors' blocks by gfx1250's tensor data mover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gluon.amd.tensor_mover import run
from tests.gluon.amd.test_programs import compiled
from tests.gluon.support import launcher
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.amd.cdna5 import TensorDescriptor
from tritium.experimental.gluon.language.amd import cdna5, gfx1250

PADDED = gl.PaddedSharedLayout.with_identity_for([[64, 8]], [64, 64], [1, 0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


@gluon.jit
def move_kernel(src, out, M, N, row, column, shared: gl.constexpr):
    """A block from one tensor to another of the same shape."""
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [M, N], [N, 1], [64, 64], shared)
    b = tdm.make_tensor_descriptor(out, [M, N], [N, 1], [64, 64], shared)
    memory = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    tdm.async_load(a, [row, column], memory)
    tdm.async_wait(0)
    tdm.async_store(b, [row, column], memory)
    tdm.async_wait(0)


@pytest.mark.parametrize("shared", [PLAIN, PADDED])
@pytest.mark.parametrize("at", [(0, 0), (70, 56)])
def test_moves(shared: Any, at: tuple[int, int]) -> None:
    src = np.arange(100 * 80, dtype=np.float16).reshape(100, 80)
    out = np.zeros_like(src)
    launcher("interpreted")(move_kernel, (1,), src, out, 100, 80, *at, shared=shared)
    wanted = np.zeros_like(src)
    part = slice(at[0], at[0] + 64), slice(at[1], at[1] + 64)
    wanted[part] = src[part]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("shared", [PLAIN, PADDED])
def test_moves_compiled(shared: Any) -> None:
    kernel = compiled(move_kernel, "*fp16 *fp16 i32 i32 i32 i32", {"shared": shared}, "gfx1250")
    text = kernel.asm["amdgcn"]
    for name in ("tensor_load_to_lds", "tensor_store_from_lds", "s_wait_tensorcnt 0x0"):
        assert name in text, name
    assert kernel.asm["hsaco"].startswith(b"\x7fELF")


@pytest.mark.covering(1)
@pytest.mark.parametrize("shared", [PLAIN, PADDED])
@pytest.mark.parametrize("at", [(0, 0), (70, 56), (-3, 0)])
def test_words_of_moves(shared: Any, at: tuple[int, int]) -> None:
    kernel = compiled(move_kernel, "*fp16 *fp16 i32 i32 i32 i32", {"shared": shared}, "gfx1250")
    src = np.arange(100 * 80, dtype=np.float16).reshape(100, 80)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    run(kernel, [src, out, 100, 80, *at])
    launcher("interpreted")(move_kernel, (1,), src, wanted, 100, 80, *at, shared=shared)
    np.testing.assert_array_equal(out, wanted)
    assert at[0] < 0 or wanted.any()


@gluon.jit
def barrier_kernel(src, out, K, N, BLOCK: gl.constexpr, shared: gl.constexpr, hint: gl.constexpr,
                   arrivals: gl.constexpr):
    """Blocks of three axes; the warps of the hint arrive at a barrier."""
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [8, K, N], [K * N, N, 1], BLOCK, shared)
    b = tdm.make_tensor_descriptor(out, [8, K, N], [K * N, N, 1], BLOCK, shared)
    memory = gl.allocate_shared_memory(gl.float32, BLOCK, shared)
    bar = gl.allocate_shared_memory(gl.int64, [1], cdna5.mbarrier.MBarrierLayout())
    cdna5.mbarrier.init(bar, arrivals)
    tdm.async_load(a, [1, 2, 4], memory, mbarrier=bar, warp_used_hint=hint)
    cdna5.mbarrier.wait(bar, 0)
    moved = tdm.update_tensor_descriptor(b, add_offsets=[0, 1, 0], set_bounds=[3, 5, 7])
    tdm.async_store(moved, src=memory)
    tdm.async_store(tdm.update_tensor_descriptor(b, pred=K > 100), src=memory)
    tdm.async_wait(0)


CUBE = gl.SwizzledSharedLayout(1, 1, 1, [2, 1, 0])
BARRIERS: dict[str, dict[str, Any]] = {
    "all": {"BLOCK": [4, 8, 16], "hint": None, "arrivals": 4},
    "even": {"BLOCK": [4, 8, 16], "hint": 0b101, "arrivals": 2},
    "one": {"BLOCK": [4, 8, 16], "hint": 0b1000, "arrivals": 1},
    "few": {"BLOCK": [1, 1, 2], "hint": None, "arrivals": 4},
}


@pytest.mark.parametrize("case", BARRIERS)
def test_blocks_of_three_axes_and_barriers(case: str) -> None:
    constants = {**BARRIERS[case], "shared": CUBE}
    src = np.arange(8 * 10 * 12, dtype=np.float32).reshape(8, 10, 12)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    launcher("interpreted")(barrier_kernel, (1,), src, wanted, 10, 12, **constants)
    n, k, m = (min(a, b) for a, b in zip(constants["BLOCK"], (3, 5, 7), strict=True))
    read = np.zeros(constants["BLOCK"], np.float32)
    part = src[1:, 2:, 4:][tuple(map(slice, constants["BLOCK"]))]
    read[tuple(map(slice, part.shape))] = part
    by_hand = np.zeros_like(src)
    by_hand[:n, 1 : 1 + k, :m] = read[:n, :k, :m]
    np.testing.assert_array_equal(wanted, by_hand)
    kernel = compiled(barrier_kernel, "*fp32 *fp32 i32 i32", constants, "gfx1250")
    mover = run(kernel, [src, out, 10, 12])
    np.testing.assert_array_equal(out, wanted)
    assert [*mover.arrivals.values()] == [constants["arrivals"]]


@gluon.jit
def axes_kernel(src, out, SHAPE: gl.constexpr, STRIDES: gl.constexpr, BLOCK: gl.constexpr,
                shared: gl.constexpr, AT: gl.constexpr):
    a = cdna5.tdm.make_tensor_descriptor(src, SHAPE, STRIDES, BLOCK, shared)
    b = cdna5.tdm.make_tensor_descriptor(out, SHAPE, STRIDES, BLOCK, shared)
    memory = gl.allocate_shared_memory(gl.int8, BLOCK, shared)
    cdna5.tdm.async_load(a, AT, memory)
    cdna5.tdm.async_wait(0)
    cdna5.tdm.async_store(b, AT, memory)
    cdna5.tdm.async_wait(0)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks(rank: int) -> None:
    shape, block = [3, 5, 7, 6, 12][-rank:], [2, 4, 2, 4, 8][-rank:]
    src = np.random.default_rng(rank).integers(-99, 99, shape).astype(np.int8)
    constants: dict[str, Any] = {
        "SHAPE": shape, "STRIDES": list(src.strides), "BLOCK": block, "AT": [2, 1, 5, 3, 6][-rank:],
        "shared": gl.SwizzledSharedLayout(1, 1, 1, list(reversed(range(rank)))),
    }  # fmt: skip
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    launcher("interpreted")(axes_kernel, (1,), src, wanted, **constants)
    run(compiled(axes_kernel, "*i8 *i8", constants, "gfx1250"), [src, out])
    np.testing.assert_array_equal(out, wanted)
    part = tuple(slice(a, a + n) for a, n in zip(constants["AT"], block, strict=True))
    np.testing.assert_array_equal(wanted[part], src[part])
    assert (wanted != 0).sum() == (src[part] != 0).sum()


@gluon.jit
def rows_kernel(src, out, M, N, bits: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr,
                ROWS: gl.constexpr, arrivals: gl.constexpr):
    """Every third row, from the end, written to rows in order."""
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [M, N], [N, 1], [ROWS, 32], shared)
    b = tdm.make_tensor_descriptor(out, [M, N], [N, 1], [ROWS, 32], shared)
    memory = gl.allocate_shared_memory(gl.float16, [ROWS, 32], shared)
    bar = gl.allocate_shared_memory(gl.int64, [1], cdna5.mbarrier.MBarrierLayout())
    cdna5.mbarrier.init(bar, arrivals)
    i = gl.arange(0, ROWS, layout)
    a = tdm.update_tensor_descriptor(a, add_offsets=[0, 16], clamp_bounds=True)
    tdm.async_gather(a, (M + 1 - 3 * i).to(bits), memory, mbarrier=bar)
    cdna5.mbarrier.wait(bar, 0)
    tdm.async_scatter(b, (i + 2).to(bits), memory)
    tdm.async_wait(0)


NUMBERS = {
    "same": (gl.SliceLayout(1, gl.BlockedLayout([32, 1], [1, 32], [1, 4], [1, 0])), 16),
    "shared out": (gl.SliceLayout(1, gl.BlockedLayout([8, 1], [1, 32], [4, 1], [1, 0])), 4),
}


@pytest.mark.parametrize("case", NUMBERS)
@pytest.mark.parametrize("bits", [gl.int32, gl.int16])
def test_rows_by_number(case: str, bits: Any) -> None:
    layout, arrivals = NUMBERS[case]
    arrivals = arrivals // 2 if bits is gl.int16 and case == "same" else arrivals
    constants = {"bits": bits, "layout": layout, "shared": PLAIN, "ROWS": 32, "arrivals": arrivals}
    src = np.arange(90 * 40, dtype=np.float16).reshape(90, 40)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    launcher("interpreted")(rows_kernel, (1,), src, wanted, 90, 40, **constants)
    by_hand = np.zeros_like(src)
    for i in range(1, 31):
        by_hand[i + 2, :24] = src[91 - 3 * i, 16:]
    np.testing.assert_array_equal(wanted, by_hand)
    kernel = compiled(rows_kernel, "*fp16 *fp16 i32 i32", constants, "gfx1250")
    mover = run(kernel, [src, out, 90, 40])
    np.testing.assert_array_equal(out, wanted)
    assert [*mover.arrivals.values()] == [arrivals]


@gluon.jit
def fused_kernel(src, out, M, N, shared: gl.constexpr, hints: gl.constexpr):
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [M, N], [N, 1], [32, 32], shared)
    b = tdm.make_tensor_descriptor(out, [M, N], [N, 1], [32, 32], shared)
    memory = gl.allocate_shared_memory(gl.float16, [2, 32, 32], shared)
    right = tdm.update_tensor_descriptor(a, add_offsets=[0, 32], clamp_bounds=True)
    first, second = memory.index(0), memory.index(1)
    tdm.async_load_fused([(a, first, hints[0]), (right, second, hints[1])])
    tdm.async_wait(0)
    tdm.async_store(b, [0, 32], first)
    tdm.async_store(b, [0, 0], second)
    tdm.async_wait(0)


@pytest.mark.parametrize("hints", [(0b0011, 0b1100), (0b1010, 0b0001)])
def test_fused_copies(hints: tuple[int, int]) -> None:
    src = np.arange(40 * 60, dtype=np.float16).reshape(40, 60)
    out, wanted = np.zeros_like(src), np.zeros_like(src)
    constants = {"shared": PLAIN, "hints": hints}
    launcher("interpreted")(fused_kernel, (1,), src, wanted, 40, 60, **constants)
    np.testing.assert_array_equal(wanted[:32], np.c_[src[:32, 32:], np.zeros((32, 4)),
                                                     src[:32, :28]].astype(np.float16))  # fmt: skip
    kernel = compiled(fused_kernel, "*fp16 *fp16 i32 i32", constants, "gfx1250")
    run(kernel, [src, out, 40, 60])
    np.testing.assert_array_equal(out, wanted)
    assert kernel.asm["amdgcn"].count("tensor_load_to_lds") == 1


@gluon.jit
def loop_kernel(src, out, M, N, count, shared: gl.constexpr, rows: gl.constexpr):
    """Two buffers: descriptors go around the loop, and the copy after the next is under way."""
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [M, N], [N, 1], [32, 32], shared)
    memory = gl.allocate_shared_memory(gl.float32, [2, 32, 32], shared)
    total = gl.zeros([32, 32], gl.float32, rows)
    tdm.async_load(a, dest=memory.index(0))
    for k in range(count):
        a = tdm.update_tensor_descriptor(a, add_offsets=[32, 0], pred=k + 1 < count,
                                         clamp_bounds=True)  # fmt: skip
        tdm.async_load(a, dest=memory.index((k + 1) % 2))
        tdm.async_wait(1)
        total += memory.index(k % 2).load(rows)
    i = gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 32, gl.SliceLayout(0, rows))[None, :]
    gl.store(out + i * 32 + j, total)


def test_loops() -> None:
    src = np.arange(100 * 32, dtype=np.float32).reshape(100, 32)
    out = np.zeros((32, 32), np.float32)
    rows = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    constants = {"shared": PLAIN, "rows": rows}
    launcher("interpreted")(loop_kernel, (1,), src, out, 100, 32, 4, **constants)
    padded = np.zeros((128, 32), np.float32)
    padded[:100] = src
    np.testing.assert_array_equal(out, padded.reshape(4, 32, 32).sum(0))
    text = compiled(loop_kernel, "*fp32 *fp32 i32 i32 i32", constants, "gfx1250").asm["amdgcn"]
    assert "s_wait_tensorcnt 0x1" in text


@gluon.jit
def given_kernel(a, b, row):
    memory = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    gl.static_assert(a.layout == b.layout)
    cdna5.tdm.prefetch(a, [row, 0])
    cdna5.tdm.async_load(a, [row, 0], memory)
    cdna5.tdm.async_wait(0)
    cdna5.tdm.async_store(b, [0, 0], memory)
    cdna5.tdm.async_wait(0)


@pytest.mark.parametrize("shared", [PLAIN, PADDED])
def test_descriptors_from_the_host(shared: Any) -> None:
    src = np.arange(100 * 80, dtype=np.float16).reshape(100, 80)
    out, wanted = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16)
    a, b = (TensorDescriptor.from_tensor(x, [64, 64], shared) for x in (src, wanted))
    launcher("interpreted")(given_kernel, (1,), a, b, 50)
    np.testing.assert_array_equal(wanted[:50], src[50:, :64])
    types = " ".join(f"tensordesc<fp16[64,64],{shared!r}>".replace(" ", "") for _ in range(2))
    kernel = compiled(given_kernel, f"{types} i32", {}, "gfx1250")
    run(kernel, [src, 100, 80, 80, 1, out, 64, 64, 64, 1, 50])
    np.testing.assert_array_equal(out, wanted)
    assert "global_prefetch_b8" in kernel.asm["amdgcn"]
    assert gfx1250.tdm is cdna5.tdm


@gluon.jit
def early_kernel(src, out, M, N, shared: gl.constexpr, rows: gl.constexpr, wrong: gl.constexpr):
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [M, N], [N, 1], [32, 32], shared)
    memory = gl.allocate_shared_memory(gl.float32, [2, 32, 32], shared)
    first, second = memory.index(0), memory.index(1)
    tdm.async_load(a, dest=first)
    tdm.async_load(a, dest=second)
    tdm.async_wait(1)
    first.load(rows)
    if wrong == "read":
        second.load(rows)
    if wrong == "write":
        tdm.async_store(a, src=first)
        first.store(gl.zeros([32, 32], gl.float32, rows))
    if wrong == "index":
        tdm.async_gather(a, gl.arange(0, 32, gl.SliceLayout(1, rows)), first)


@pytest.mark.parametrize(("wrong", "message"), [
    ("read", "shared memory is read while a copy into it is in flight"),
    ("write", "shared memory is written while a dot or a store reads it"),
    ("index", "a layout in which all lanes of a warp have the same numbers is required"),
])  # fmt: skip
def test_faults_are_found_by_the_interpreter(wrong: str, message: str) -> None:
    src = np.zeros((64, 64), np.float32)
    rows = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(early_kernel, (1,), src, src, 64, 64, shared=PLAIN, rows=rows,
                                wrong=wrong)  # fmt: skip


@gluon.jit
def wrong_kernel(src, wrong: gl.constexpr, shared: gl.constexpr):
    tdm: gl.constexpr = cdna5.tdm
    a = tdm.make_tensor_descriptor(src, [64, 64], [64, 1], [32, 32], shared)
    memory = gl.allocate_shared_memory(gl.float16, [32, 32], shared)
    if wrong == "shape":
        other = gl.allocate_shared_memory(gl.float16, [32, 64], shared)
        tdm.async_load(a, dest=other)
    if wrong == "hint":
        tdm.async_load(a, dest=memory, warp_used_hint=0b0111)
    if wrong == "fused":
        tdm.async_load_fused([(a, memory, 0b0011), (a, memory, 0b1010)])
    if wrong == "clamp":
        tdm.update_tensor_descriptor(a, set_bounds=[1, 1], clamp_bounds=True)
    if wrong == "nothing":
        tdm.update_tensor_descriptor(a)
    if wrong == "rank":
        tdm.async_load(a, [1], memory)
    if wrong == "stored":
        tdm.async_store(a, src=memory)
    if wrong == "memory":
        tdm.async_load(a)
    if wrong == "descriptor":
        tdm.async_load(memory, dest=memory)


HALF_ROWS = gl.PaddedSharedLayout.with_identity_for([[16, 8]], [32, 32], [1, 0])
ODD_GAPS = gl.PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])
COLUMNS = gl.SwizzledSharedLayout(1, 1, 1, [0, 1])


@pytest.mark.parametrize(("wrong", "shared", "message"), [
    ("shape", PLAIN, r"async_tdm_copy_global_to_local: blocks .* and memory .* differ"),
    ("hint", PLAIN, r"warp_used_hint is 0b111, of 4 warps; a bit mask of one of them"),
    ("fused", PLAIN, r"warp_used_hints \['0b11', '0b1010'\]; masks of different warps"),
    ("clamp", PLAIN, r"clamp_bounds goes with add_offsets, and without set_bounds"),
    ("nothing", PLAIN, r"nothing to change; one of add_offsets, set_bounds, pred is required"),
    ("rank", PLAIN, r"add_offsets \(i32\); 2 of i32 are required"),
    ("stored", HALF_ROWS, r"a gap every 16 elements; stores are of memory with one after each row"),
    ("memory", PLAIN, r"async_load: dest is None; shared memory is required"),
    ("descriptor", PLAIN, r"is no descriptor of `tdm.make_tensor_descriptor`"),
    ("", ODD_GAPS, r"gaps of 2 bytes every 64; multiples of 4 up to 512, every 8 to 1024"),
    ("", COLUMNS, r"rows in order are required: #ttg.swizzled_shared with maxPhase 1 and order"),
    ("", gl.NVMMASharedLayout(0, 16), r"or PartitionedSharedLayout is required"),
])  # fmt: skip
def test_errors(wrong: str, shared: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(wrong_kernel, "*fp16", {"wrong": wrong, "shared": shared}, "gfx1250")


def test_processors_without_such_copies() -> None:
    with pytest.raises(CompilationError, match=r"backend does not support tt.make_tensor_desc"):
        compiled(wrong_kernel, "*fp16", {"wrong": "stored", "shared": PLAIN}, "gfx950")


@pytest.mark.parametrize(("changed", "message"), [
    ({"strides": [1, 64]}, "the last stride is 64; 1 is required"),
    ({"shape": [64]}, "1 to 5 numbers, as many of each, are required"),
    ({"padding": "nan"}, "padding is 'nan'; 'zero' is required"),
    ({"layout": COLUMNS}, "rows in order are required"),
])  # fmt: skip
def test_errors_of_descriptors_from_the_host(changed: dict[str, Any], message: str) -> None:
    given = {"shape": [64, 64], "strides": [64, 1], "block_shape": [32, 32], "layout": PLAIN}
    with pytest.raises(ValueError, match=message):
        TensorDescriptor(np.zeros((64, 64), np.float16), **{**given, **changed})
