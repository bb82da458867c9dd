"""Shared memory and asynchronous work in Gluon: the IR, the PTX, and what is refused: layouts that
do not fit when a kernel is compiled, missing waits when it is interpreted."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.gluon import (
    blackwell_programs,
    cluster_programs,
    hopper_programs,
    memory_programs,
    partition_programs,
)
from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import compiled, launcher
from tests.nvidia.support import in_order
from tritium.codegen.gpu.memory.shared import place_in_blocks
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.ir.layouts.encodings import linear
from tritium.target import GPUTarget

PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
MATRIX = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


def test_a_pipeline_of_copies() -> None:
    kernel = compiled(memory_programs.pipeline_kernel, "*fp32 *fp32 i32",
                      {"STAGES": 3, "BLOCK": 512}, 80)  # fmt: skip
    in_order(
        kernel.asm["ttgir"],
        r"local_alloc : \(\) -> !ttg.memdesc<3x512xf32, #shared, #smem, mutable>",
        r"memdesc_index .*<3x512xf32.* -> !ttg.memdesc<512xf32, #shared, #smem, mutable>",
        r"ttg.async_copy_global_to_local", "ttg.async_commit_group", "scf.for",
        r"ttg.async_wait  ?{num = 2 : i32}", "ttg.local_load",
    )  # fmt: skip
    in_order(kernel.asm["ptx"], r"cp.async.cg.shared.global .*, 0x10|cp.async.cg.*16",
             "cp.async.commit_group", "cp.async.wait_group.? 2")  # fmt: skip
    assert kernel.metadata.shared == 3 * 512 * 4


def test_products_on_tensor_cores() -> None:
    kernel = compiled(memory_programs.mma_kernel, "*fp16 *fp16 *fp32", {"K": 128}, 80)
    in_order(kernel.asm["ttgir"], "#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0",
             r"tt.dot .*#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>")  # fmt: skip
    in_order(kernel.asm["ptx"], "ldmatrix.sync", r"mma.sync.aligned.m16n8k16.*f32.f16.f16.f32")


def test_products_of_warp_groups_and_bulk_copies() -> None:
    a, b, out = (f"tensordesc<fp16[{m},{n}],{block_layout([m, n])!r}>"
                 for m, n in ((128, 64), (64, 64), (128, 64)))  # fmt: skip
    constants = {"STAGES": 3, "instr_shape": [16, 64, 16], "TURNED": False}
    kernel = compiled(hopper_programs.matmul_kernel, f"{a} {b} {out} i32", constants)
    in_order(
        kernel.asm["ttgir"], r"!tt.tensordesc<tensor<128x64xf16, #shared>>",
        "ttng.init_barrier", "ttng.barrier_expect .*, 24576", "async_tma_copy_global_to_local",
        "ttng.wait_barrier", r"ttng.warp_group_dot .*isAsync = true}",
        "ttng.warp_group_dot_wait", "ttng.fence_async_shared", "async_tma_copy_local_to_global",
        "async_tma_store_wait",
    )  # fmt: skip
    in_order(kernel.asm["ptx"], "mbarrier.init", "cp.async.bulk.tensor.2d.shared::cluster",
             "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
             "cp.async.bulk.tensor.2d.global")  # fmt: skip
    assert kernel.asm["ptx"].count("wgmma.mma_async") == 2 * 4  # rows of 64, k of 16


@gluon.jit
def eight_columns_kernel(src, out):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [32, 1], [4, 1], [1, 0])
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 8, 16])
    x = gl.load(src + gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None] * 16
                + gl.arange(0, 16, gl.SliceLayout(0, rows))[None, :])  # fmt: skip
    y = gl.load(src + gl.arange(0, 16, gl.SliceLayout(1, rows))[:, None] * 8
                + gl.arange(0, 8, gl.SliceLayout(0, rows))[None, :])  # fmt: skip
    a = gl.allocate_shared_memory(gl.float16, [64, 16], gl.NVMMASharedLayout(32, 16), x)
    b = gl.allocate_shared_memory(gl.float16, [16, 8], gl.NVMMASharedLayout(0, 16), y)
    fence_async_shared()
    acc = warpgroup_mma(a, b, gl.zeros([64, 8], gl.float32, mma))
    gl.store(out + gl.arange(0, 64, gl.SliceLayout(1, mma))[:, None] * 8
             + gl.arange(0, 8, gl.SliceLayout(0, mma))[None, :], acc)  # fmt: skip


def test_descriptor_of_rows_of_16_bytes() -> None:
    """Without a swizzle the leading step of a descriptor is that from eight k to the next
    eight, also if neighbours in memory are across k (PTX ISA, "Strides")."""
    kernel = compiled(eight_columns_kernel, "*fp16 *fp32")
    leading_step = 8 * 16
    assert re.search(rf"add i64 %\w+, {leading_step >> 4 << 16}\b", kernel.asm["llir"])


def test_waits_that_last_too_long_name_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the code, which passes ptxas; on a GPU the driver reports the failed assertion."""
    monkeypatch.setenv("TRITIUM_MBARRIER_TIMEOUT", "250")
    desc = f"tensordesc<fp32[16,64],{block_layout([16, 64], gl.float32)!r}>"
    kernel = compiled(hopper_programs.ring_kernel, f"{desc} *fp32 i32", {"STAGES": 2})
    ptx, source = kernel.asm["ptx"], inspect.getsourcelines(hopper_programs.ring_kernel.fn)
    (place,) = [n for n, line in enumerate(source[0]) if "mbarrier.wait(" in line]
    in_order(ptx, "globaltimer", "mbarrier.try_wait", "setp.lt.u64 P, now, 250000000;",
             "__assertfail")  # fmt: skip
    assert re.search(rf"__assertfail\(.*, i32 {source[1] + place}, ", kernel.asm["llir"])
    assert "waited for 250 ms" in kernel.asm["llir"]
    monkeypatch.delenv("TRITIUM_MBARRIER_TIMEOUT")
    plain = compiled(hopper_programs.ring_kernel, f"{desc} *fp32 i32", {"STAGES": 2})
    assert "globaltimer" not in plain.asm["ptx"]


def test_partitions() -> None:
    desc = f"tensordesc<fp32[16,64],{block_layout([16, 64], gl.float32)!r}>"
    kernel = compiled(partition_programs.sum_kernel, f"{desc} *fp32 i32", {"STAGES": 2})
    in_order(kernel.asm["ttgir"], r"ttg.warp_specialize.*requestedRegisters = array<i32: 24>",
             "default", r"partition0\(.*\) num_warps\(1\)", "ttg.warp_return")  # fmt: skip
    assert "_barriers" not in kernel.asm["ttgir"], "calls are inlined"


def described(columns: int, dtype: Any) -> TensorDescriptor:
    array = np.zeros((8, columns), dtype)
    return TensorDescriptor.from_tensor(array, [8, columns], gl.NVMMASharedLayout(128, 16))


# What is refused when a kernel is compiled


@gluon.jit
def stored_kernel(layout: gl.constexpr, shape: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.int32, shape, PLAIN)
    memory.store(gl.arange(0, 128, layout))


@gluon.jit
def loaded_kernel(layout: gl.constexpr, shape: gl.constexpr):
    gl.allocate_shared_memory(gl.int32, shape, PLAIN).load(layout)


@gluon.jit
def sliced_kernel(layout: gl.constexpr, shape: gl.constexpr):
    gl.allocate_shared_memory(gl.int32, [128], PLAIN).slice(shape[0], 64)


@gluon.jit
def permuted_kernel(layout: gl.constexpr, shape: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.int32, shape, gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    memory.permute((0, 0))


@gluon.jit
def distributed_kernel(layout: gl.constexpr, shape: gl.constexpr):
    gl.allocate_shared_memory(gl.int32, shape, layout)


@gluon.jit
def short_rows_kernel(layout: gl.constexpr, shape: gl.constexpr):
    gl.allocate_shared_memory(gl.float32, shape, gl.NVMMASharedLayout(64, 32))


def test_rows_of_buffers_in_clusters() -> None:
    layout = gl.NVMMASharedLayout(128, 16, cga_layout=[[0, 1]])
    layout.check_block([3, 64, 128], 16)
    with pytest.raises(ValueError, match="rows of 32 elements"):
        layout.check_block([3, 64, 64], 16)


@pytest.mark.parametrize(("kernel", "shape", "message"), [
    (stored_kernel, [64], r"store of <\[128\], int32, .*> to shared_memory_descriptor<int32, \[64"),
    (loaded_kernel, [64, 2], r"rank mismatch: shape \[64, 2\]"),
    (sliced_kernel, [96], r"at \(96,\) is not within"),
    (permuted_kernel, [8, 8], r"order \(0, 0\) does not permute"),
    (distributed_kernel, [128], r"layout is BlockedLayout.*a SharedLayout is required"),
    (short_rows_kernel, [64, 8], r"rows of 8 elements, .*; 16 or more are .*_width of 32 or less"),
])  # fmt: skip
def test_memory_that_does_not_fit(kernel: Any, shape: list[int], message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, "", {"layout": LINE.value, "shape": shape})


@pytest.mark.parametrize(("make", "message"), [
    (lambda: gl.SwizzledSharedLayout(1, 1, 1, [0, 0]), "order .* must be a permutation"),
    (lambda: gl.BlockedLayout([1], [32], [4], [1]), "order .* must be a permutation"),
    (lambda: gl.BlockedLayout([1, 1], [32], [4], [0]), "different lengths"),
    (lambda: gl.NVMMASharedLayout(48, 16), "swizzle_byte_width is 48; 0, 32, 64 or 128"),
    (lambda: gl.NVMMASharedLayout(64, 4), "element_bitwidth is 4; 8, 16, 32 or 64"),
    (lambda: gl.PaddedSharedLayout([[3, 1]], [[1]], [], [2]), "pairs of powers of two"),
    (lambda: gl.PaddedSharedLayout([[4, 1], [4, 2]], [[1]], [], [2]), "given twice"),
    (lambda: gl.SharedLinearLayout([]), "at least one is required"),
    (lambda: gl.SharedLinearLayout([[1]], alignment=24), "alignment 24; a power of two"),
    (lambda: gl.DistributedLinearLayout([[1, 0]], [], [], [], [2]), "a basis of another rank"),
    (lambda: described(8, np.float16), "rows of 8 elements, .*; 64 or more are required"),
    (lambda: described(64, np.float32), "elements of 32 bits"),
])  # fmt: skip
def test_layouts_that_there_are_not(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_layout_of_a_kernel_is_refused_at_its_line() -> None:
    @gluon.jit
    def kernel():
        gl.allocate_shared_memory(gl.int32, [8, 8], gl.SwizzledSharedLayout(1, 1, 1, [0, 0]))

    with pytest.raises(CompilationError, match=r"at 2:\d+(.|\n)*permutation"):
        compiled(kernel, "")


@gluon.jit
def product_kernel(acc: gl.constexpr, left: gl.constexpr, hopper: gl.constexpr):
    if left is None:
        a = gl.allocate_shared_memory(gl.float16, [64, 64], MATRIX)
    else:
        a = gl.zeros([64, 64], gl.float16, left)
    total = gl.zeros([64, 64], gl.float32, acc)
    if hopper:
        warpgroup_mma(a, a, total)
    else:
        mma_v2(a, a, total)


V2 = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
V3 = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])


@pytest.mark.parametrize(("acc", "left", "hopper", "message"), [
    (V3, gl.DotOperandLayout(0, V3, 2), False, r"acc has .*\[3, 0\].*version \[2, 0\] is"),
    (V2, gl.DotOperandLayout(1, V2, 2), False, r"operand 0 has .*operand_index=1.*required"),
    (V2, gl.DotOperandLayout(0, V2, 2), True, r"acc has .*\[2, 0\].*version \[3, 0\] is"),
    (V3, V3, True, r"operand 0 has NVMMADistributedLayout.*a DotOperandLayout\(0"),
    (V3, gl.DotOperandLayout(0, V3, 2), True, r"b is .*; shared memory is required"),
    (V3, None, True, r"f16, #ttg.swizzled_shared<.*; #ttg.nvmma_shared is required"),
])  # fmt: skip
def test_products_of_other_layouts(acc: Any, left: Any, hopper: bool, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(product_kernel, "", {"acc": acc, "left": left, "hopper": hopper})


# What the interpreter finds


@gluon.jit
def unawaited_kernel(src, out, WAITS: gl.constexpr):
    i = gl.arange(0, 128, LINE)
    memory = gl.allocate_shared_memory(gl.float32, [128], PLAIN)
    async_copy.async_load(memory, src + i)
    if WAITS:
        async_copy.commit_group()
        async_copy.wait_group(WAITS - 1)
    gl.store(out + i, memory.load(LINE))


@gluon.jit
def released_kernel(src, out, WAITS: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float32, [128], PLAIN)
    memory._keep_alive()
    gl.store(out + gl.arange(0, 128, LINE), memory.load(LINE))


@pytest.mark.parametrize(("kernel", "waits", "message"), [
    (unawaited_kernel, 0, "read while a copy into it is in flight"),
    (unawaited_kernel, 2, "read while a copy into it is in flight"),
    (released_kernel, 0, "used after its deallocation"),
])  # fmt: skip
def test_missing_waits_for_copies(kernel: Any, waits: int, message: str) -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    launch = launcher("interpreted")
    with pytest.raises(InterpreterError, match=message):
        launch(kernel, (1,), x, out, WAITS=waits)
    if kernel is unawaited_kernel:
        launch(kernel, (1,), x, out, WAITS=1)
        np.testing.assert_array_equal(out, x)


PADDED_BOXES = gl.constexpr(gl.PaddedSharedLayout.with_identity_for(
    [[4, 1], [16, 4]], [4, 4, 32], [2, 0, 1]
))  # fmt: skip
BOXES = gl.constexpr(gl.BlockedLayout([1, 1, 4], [2, 2, 8], [2, 2, 1], [2, 1, 0]))


@gluon.jit
def boxes_kernel(x, out):
    """Memory of three axes seen as numbers of another type."""
    i = gl.arange(0, 4, gl.SliceLayout(1, gl.SliceLayout(2, BOXES)))[:, None, None]
    j = gl.arange(0, 4, gl.SliceLayout(0, gl.SliceLayout(2, BOXES)))[None, :, None]
    k = gl.arange(0, 32, gl.SliceLayout(0, gl.SliceLayout(1, BOXES)))[None, None, :]
    places = i * 128 + j * 32 + k
    memory = gl.allocate_shared_memory(gl.int32, [4, 4, 32], PADDED_BOXES, gl.load(x + places))
    gl.store(out + places, memory._reinterpret(gl.uint32, [4, 4, 32], PADDED_BOXES).load(BOXES))


@pytest.mark.parametrize("way", ["interpreted", "engine"])
def test_views_of_boxes_with_gaps(way: str) -> None:
    x, out = np.arange(-256, 256, dtype=np.int32), np.zeros(512, np.uint32)
    launcher(way)(boxes_kernel, (1,), x, out)
    np.testing.assert_array_equal(out, x.view(np.uint32))


@gluon.jit
def stored_block_kernel(desc, ROW: gl.constexpr, ADDS: gl.constexpr):
    registers: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    ones = gl.full(desc.block_shape, 1, desc.dtype, registers)
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout, ones)
    fence_async_shared()
    if ADDS:
        tma.async_atomic_add(desc, [ROW, 0], memory)
    else:
        tma.async_store(desc, [ROW, 0], memory)
    tma.store_wait(0)


@pytest.mark.parametrize("adds", [False, True])
def test_blocks_are_not_stored_before_an_array(adds: bool) -> None:
    out = np.zeros((16, 32), np.int32)
    desc = TensorDescriptor.from_tensor(out, [8, 32], block_layout([8, 32], gl.int32))
    launch = launcher("interpreted")
    with pytest.raises(InterpreterError, match=r"block at \(-3, 0\) begins before its array"):
        launch(stored_block_kernel, (1,), desc, ROW=-3, ADDS=adds)
    launch(stored_block_kernel, (1,), desc, ROW=12, ADDS=adds)
    np.testing.assert_array_equal(out.sum(1), [0] * 12 + [32] * 4)


@gluon.jit
def barrier_kernel(desc, BYTES: gl.constexpr, PHASE: gl.constexpr, ARRIVALS: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, BYTES)
    for _ in gl.static_range(ARRIVALS):
        mbarrier.arrive(bar)
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    tma.async_load(desc, [0, 0], bar, memory)
    mbarrier.wait(bar, PHASE)
    tma.async_store(desc, [0, 0], memory)
    memory.store(memory.load(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])))


@pytest.mark.parametrize(("size", "phase", "arrivals", "message"), [
    (1024 - 16, 0, 0, "phase 0 that nothing ends: 1 of 1 arrivals, 1024 of 1008 bytes"),
    (1024, 0, 1, "more than 1 arrivals in one phase"),
    (1024, 1, 0, "read while a copy into it is in flight"),
    (1024, 0, 0, "written while a dot or a store reads it"),
])  # fmt: skip
def test_barriers_and_bulk_copies(size: int, phase: int, arrivals: int, message: str) -> None:
    desc = TensorDescriptor.from_tensor(
        np.zeros((16, 16), np.float32), [16, 16], block_layout([16, 16], gl.float32)
    )
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(barrier_kernel, (1,), desc, BYTES=size, PHASE=phase,
                                ARRIVALS=arrivals)  # fmt: skip


@gluon.jit
def arrivals_kernel(COUNT: gl.constexpr, PHASE: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for _ in gl.static_range(COUNT):
        mbarrier.arrive(bar)
    mbarrier.wait(bar, PHASE)


def test_arrivals_too_many() -> None:
    """A phase that ends before the wait for the last one is missed: a GPU waits for ever."""
    launch = launcher("interpreted")
    launch(arrivals_kernel, (1,), COUNT=1, PHASE=0)
    launch(arrivals_kernel, (1,), COUNT=3, PHASE=0)
    message = "phase 0 that nothing ends: 0 of 1 arrivals; 2 phases have ended since the last wait"
    with pytest.raises(InterpreterError, match=f"mbarrier.wait(?s:.*){message}"):
        launch(arrivals_kernel, (1,), COUNT=2, PHASE=0)


def test_bulk_copies_begin_at_multiples_of_128_bytes() -> None:
    array = np.zeros((2, 8), np.float16)
    layout = gl.NVMMASharedLayout.get_default_for([1, 8], gl.float16)
    desc = TensorDescriptor.from_tensor(array, [1, 8], layout)
    with pytest.raises(InterpreterError, match="from byte 16 of an allocation on; multiples of"):
        launcher("interpreted")(narrow_kernel, (1,), desc)


@gluon.jit
def narrow_kernel(desc):
    ring = gl.allocate_shared_memory(desc.dtype, [2, *desc.block_shape], desc.layout)
    tma.async_store(desc, [1, 0], ring.index(1))


@pytest.mark.parametrize(("swizzle", "shape", "message"), [
    (128, [4, 64], "4 rows, of memory of .* 8 or more are required, or a swizzle_byte_width of 0"),
    (64, [256], "1 rows, of memory of"),
    (0, [64, 64], r"rows of 128 bytes that are not swizzled; tensor cores read rows of 16"),
])  # fmt: skip
def test_memory_that_no_engine_reads_is_refused(
    swizzle: int, shape: list[int], message: str
) -> None:
    layout = gl.NVMMASharedLayout(swizzle, 16, len(shape))
    with pytest.raises(CompilationError, match=message):
        compiled(operand_kernel, "", {"layout": layout, "shape": shape})


@gluon.jit
def operand_kernel(layout: gl.constexpr, shape: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float16, shape, layout)
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    warpgroup_mma(memory, memory, gl.zeros([64, 64], gl.float32, mma))


@gluon.jit
def larger_kernel(layout: gl.constexpr, shape: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.int32, [128], layout)
    memory.reinterpret(gl.int16, [256], layout)
    memory.reinterpret(gl.int32, shape, layout)


@gluon.jit
def indexed_kernel(layout: gl.constexpr, shape: gl.constexpr):
    gl.allocate_shared_memory(gl.int32, shape, layout).index(0)


@pytest.mark.parametrize(("kernel", "layout", "shape", "message"), [
    (larger_kernel, PLAIN, [256], "takes 1024 bytes, .* has 512 bytes; 512 or fewer"),
    (indexed_kernel, MATRIX, [2, 64], "no axis in front of the 2 of its layout; buffers have one"),
])  # fmt: skip
def test_views_beyond_the_memory_are_refused(
    kernel: Any, layout: Any, shape: list[int], message: str
) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, "", {"layout": layout, "shape": shape})


@gluon.jit
def held_kernel(source, out, count, OUTSIDE: gl.constexpr):
    """The left operand is in registers, read before the loop or in it."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    i = gl.arange(0, 64, gl.SliceLayout(1, mma))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, mma))[None, :]
    memory = gl.allocate_shared_memory(
        gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, 2), gl.load(source + i * 64 + j)
    )
    fence_async_shared()
    left = memory.load(operand)
    acc = gl.zeros([64, 64], gl.float32, mma)
    for _ in range(count):
        if not OUTSIDE:
            left = memory.load(operand)
        acc = warpgroup_mma(left, memory, acc)
    gl.store(out + i * 64 + j, acc)


@pytest.mark.parametrize("outside", [True, False])
def test_registers_that_a_loop_does_not_change_are_renewed(outside: bool) -> None:
    """ptxas 12.8 and 12.9 would give them to another product's operand."""
    kernel = compiled(held_kernel, "*fp16 *fp32 i32", {"OUTSIDE": outside})
    renewed = re.findall(r"or\.b32 copy\d+, %r\d+, zero;", kernel.asm["ptx"])
    assert len(renewed) == 16 * outside
    in_order(kernel.asm["ptx"], *["or.b32 copy"] * outside, "wgmma.fence", "mma_async")


@gluon.jit
def in_flight_kernel(out, HOW: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    memory = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, 2))
    product = warpgroup_mma(memory, memory, gl.zeros([64, 64], gl.float32, mma), is_async=True)
    if HOW == "attribute":
        product.to(gl.float16)
    elif HOW == "sum":
        product + product
    elif HOW == "layout":
        gl.convert_layout(product, mma)
    else:
        gl.store(out, product)


@pytest.mark.parametrize("how", ["attribute", "sum", "layout", "store"])
def test_products_in_flight_name_the_wait(how: str) -> None:
    with pytest.raises(CompilationError, match=r"warpgroup_mma_wait\(0, deps=\[...\]\) makes"):
        compiled(in_flight_kernel, "*fp32", {"HOW": how})


@gluon.jit
def borrowed_kernel(source, out, layout: gl.constexpr):
    """Half of the columns of fp32 have as many fp16 as there were fp32; a column more has sums."""
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
    i = gl.arange(0, 128, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    plain: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    memory = allocate_tensor_memory(gl.float32, [128, 64], plain)
    memory.store(gl.load(source + i * 64 + j))
    x = memory.load(layout)
    half = memory.slice(0, 32).reinterpret(gl.float16, [128, 64], plain)
    one: gl.constexpr = TensorMemoryLayout([128, 1], col_stride=1)
    total = memory.slice(32, 1).reinterpret(gl.float32, [128, 1], one)
    total.store(gl.convert_layout(gl.sum(x, 1).expand_dims(1), rows))
    half.store(x.to(gl.float16))
    found = half.load(layout).to(gl.float32)
    found += gl.convert_layout(gl.reshape(total.load(rows), [128]), gl.SliceLayout(1, layout))[
        :, None
    ]
    gl.store(out + i * 64 + j, found)


def test_tensor_memory_that_is_borrowed() -> None:
    source = np.random.default_rng(0).integers(-9, 9, (128, 64)).astype(np.float32)
    out, layout = np.zeros_like(source), gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    launcher("sm_100")(borrowed_kernel, (1,), source, out, layout=layout)
    np.testing.assert_array_equal(out, source + source.sum(1)[:, None])


def test_clusters_share_copies_and_barriers() -> None:
    cga, one = [[1, 0]], [[0, 0]]
    a, b = (f"tensordesc<fp16[{m},{n}],{gl.NVMMASharedLayout(64, 16, 2, cga_layout=x)!r}>"
            for m, n, x in ((128, 32, cga), (32, 64, one)))  # fmt: skip
    kernel = compiled(cluster_programs.matmul_kernel, f"{a} {b} *fp32 i32", {"cga": cga},
                      num_ctas=2)  # fmt: skip
    in_order(kernel.asm["ttgir"], "init_barrier .*2xi64", "cluster_barrier {relaxed = true}",
             "async_tma_copy_global_to_local .*true : ",
             "async_tma_copy_global_to_local .*multicast", "cluster_barrier")  # fmt: skip
    ptx = kernel.asm["ptx"]
    in_order(ptx, "barrier.cluster.arrive.relaxed", r"complete_tx::bytes \[",
             r"complete_tx::bytes.multicast::cluster \[.*\], %rs\d+;", "try_wait.parity.shared",
             *["barrier.cluster.arrive.release"] * 2, "ret;")  # fmt: skip
    constants = {"cga": [[1]], "shared": gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])}
    ptx = compiled(cluster_programs.start_kernel, "*i32", constants, num_ctas=2).asm["ptx"]
    in_order(ptx, "mapa.shared::cluster.u32", "mbarrier.arrive.shared::cluster.b64 _.*, 2;",
             "mbarrier.arrive.shared::cta.b64 _, ", "bar.sync|barrier.sync")  # fmt: skip


@pytest.mark.parametrize("multiply_first", [False, True])
def test_warps_of_a_region_meet_those_of_other_blocks(multiply_first: bool) -> None:
    """The barrier of the cluster waits for all warps: those of the kernel's own code are, to which
    all come; a region has an mbarrier."""
    a, b = (f"tensordesc<fp16[{m},{n}],{gl.NVMMASharedLayout(64, 16, 2, cga_layout=x)!r}>"
            for m, n, x in ((128, 32, [[1, 0]]), (32, 64, [[0, 0]])))  # fmt: skip
    constants = {"cga": [[1, 0]], "MULTIPLY_FIRST": multiply_first}
    kernel = compiled(cluster_programs.specialized_kernel, f"{a} {b} *fp32 i32", constants,
                      num_ctas=2)  # fmt: skip
    ptx = kernel.asm["ptx"]
    assert ptx.count("barrier.cluster.arrive") == 2 * 3  # the program's two, and at the end
    places = set(re.findall(r"mbarrier.init.shared::cta.b64 \[(.*?)\], 2;", ptx))
    in_order(ptx, *["mbarrier.init.*, 2;"] * 2, "barrier.cluster", "setmaxnreg|bar.sync")
    met = set(re.findall(r"arrive.release.cluster.shared::cta.b64 state, \[(.*?)\]", ptx))
    assert len(places) >= 2 and len(met) == 1


def test_layouts_of_other_clusters_are_refused() -> None:
    constants = {"cga": [], "shared": gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])}
    with pytest.raises(CompilationError, match=r"of 1 thread blocks; .* num_ctas=2"):
        compiled(cluster_programs.start_kernel, "*i32", constants, num_ctas=2)


def test_products_in_tensor_memory() -> None:
    """The descriptors of the instruction and of operands: PTX ISA, tcgen05."""
    a, b = (f"tensordesc<fp16[{m},{n}],{block_layout([m, n])!r}>" for m, n in ((128, 32), (32, 64)))
    kernel = compiled(blackwell_programs.matmul_kernel, f"{a} {b} *fp32 i32",
                      {"STAGES": 2, "TURNED": False}, 100)  # fmt: skip
    in_order(kernel.asm["ttgir"], "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, "
             "colStride = 1>, #ttng.tensor_memory, mutable", r"ttng.tc_gen5_mma .*, %\w+\[%",
             "ttng.tc_gen5_commit", "ttng.tmem_load")  # fmt: skip
    ptx = kernel.asm["ptx"]
    in_order(ptx, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 .*, 64;",
             f"mov.b32 how, {8 << 24 | 8 << 17 | 1 << 16 | 1 << 4};",
             r"tcgen05.mma.cta_group::1.kind::f16 \[to\], da, db, how, use;",
             r"tcgen05.mma.cta_group::1.kind::f16 \[to\], da, db, how, always;",
             "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
             "tcgen05.ld.sync.aligned.32x32b.x32.b32", "tcgen05.wait::ld",
             "tcgen05.dealloc")  # fmt: skip
    assert re.search(rf"or.b64 .*, {2 << 61 | 1 << 46 | 64 << 32};", ptx) is not None


@gluon.jit
def instruction_kernel(which: gl.constexpr):
    if which == "tensor memory":
        allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], 1))
    elif which == "warp groups":
        memory = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16))
        layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
        warpgroup_mma(memory, memory, gl.zeros([64, 64], gl.float32, layout))
    else:
        mbarrier.expect(mbarrier.allocate_mbarrier(), 16)


@pytest.mark.parametrize(("which", "arch", "line", "message"), [
    ("tensor memory", 90, 3, "tmem_alloc: an instruction of sm_100 to sm_119"),
    ("tensor memory", 120, 3, "tmem_alloc: an instruction of sm_100 to sm_119"),
    ("warp groups", 80, 7, "warp_group_dot: an instruction of sm_90"),
    ("warp groups", 100, 7, "warp_group_dot: an instruction of sm_90"),
    ("bytes", 80, 9, "barrier_expect: an instruction of sm_90 and later"),
])  # fmt: skip
def test_instructions_that_processors_lack(
    which: str, arch: int, line: int, message: str
) -> None:
    with pytest.raises(CompilationError, match=rf"at {line}:(.|\n)*{message}; .* is sm_{arch}"):
        compiled(instruction_kernel, "", {"which": which}, arch)


def test_instructions_that_processors_lack_in_text(tmp_path: Path) -> None:
    file = tmp_path / "kernel.ttgir"
    file.write_text(compiled(instruction_kernel, "", {"which": "bytes"}).asm["ttgir"])
    with pytest.raises(NotImplementedError, match=r"expect \(an instruction of sm_90 and "):
        tritium.compile(str(file), target=GPUTarget("cuda", 80, 32))


@gluon.jit
def uncommitted_kernel(COMMITS: gl.constexpr, WAITS: gl.constexpr, REUSES: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    left = gl.allocate_shared_memory(gl.float16, [128, 64], gl.NVMMASharedLayout(128, 16),
                                     gl.zeros([128, 64], gl.float16, rows))
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], 1))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    tcgen05_mma(left, left.permute((1, 0)), acc, use_acc=False)
    if REUSES:
        left.store(gl.zeros([128, 64], gl.float16, rows))
    if COMMITS:
        tcgen05_commit(bar)
    if WAITS:
        mbarrier.wait(bar, 0)
    acc.load()


@pytest.mark.parametrize(("commits", "waits", "reuses", "message"), [
    (True, False, False, "tensor memory is read while a product or a copy into it is in flight"),
    (False, True, False, "phase 0 that nothing ends: 0 of 1"),
    (True, True, True, "written while a dot or a store reads it"),
    (True, True, False, None),
])  # fmt: skip
def test_missing_commits_and_waits(
    commits: bool, waits: bool, reuses: bool, message: str | None
) -> None:
    constants = {"COMMITS": commits, "WAITS": waits, "REUSES": reuses}
    if message is None:
        launcher("interpreted")(uncommitted_kernel, (1,), **constants)
        return
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(uncommitted_kernel, (1,), **constants)


def test_stores_to_other_blocks() -> None:
    constants = {
        "rows": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]),
        "columns": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]]),
        "shared": gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 1]]),
    }
    kernel = compiled(cluster_programs.exchange_kernel, "*fp32 *fp32", constants, num_ctas=2)
    ptx = kernel.asm["ptx"]
    found = re.findall(r"st.async.weak.shared::cluster.*complete_tx::bytes.v4.b32", ptx)
    assert len(found) == 32 * 64 // (2 * 128 * 4)
    in_order(ptx, r"expect_tx.*, 4096;", "st.async", "barrier.cluster.arrive.release", "ret;")
    with pytest.raises(CompilationError, match="a cluster of two or more is required"):
        compiled(cluster_programs.exchange_kernel, "*fp32 *fp32", constants)


def test_accesses_of_other_blocks_memory() -> None:
    """Each element's place and block are those of the memory's layout; see `cluster_programs` for
    what is computed."""
    rows, columns = (gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga).to_encoding()
                     for cga in ([[1, 0], [2, 0]], [[0, 1], [0, 2]]))  # fmt: skip
    kept = gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 0], [0, 1]]).to_encoding()
    memory, tiles = linear(kept, (32, 64)), [linear(e, (32, 64)) for e in (rows, columns)]
    for tile in tiles:
        place, above = place_in_blocks(tile, memory)
        for index in range(0, 1 << sum(map(tile.in_bits, tile.in_names)), 37):
            at, rest = dict[str, int](), index
            for name in tile.in_names:
                at[name] = rest & (1 << tile.in_bits(name)) - 1
                rest >>= tile.in_bits(name)
            found = int(place.apply(at)["offset"])
            block = found >> above
            there = {"offset": found & (1 << above) - 1, "block": block}
            assert memory.apply(there) == tile.apply(at)
            assert block & 1 == at["block"] & 1, "a block reads its own copy"
    constants = {"rows": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]),
                 "columns": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]]),
                 "shared": gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[1, 0]]),
                 "MEET": True}  # fmt: skip
    ptx = compiled(cluster_programs.reach_kernel, "*fp32 *fp32", constants, num_ctas=2).asm["ptx"]
    assert "st.shared::cluster" not in ptx  # what is written stays in the block
    in_order(ptx, "barrier.cluster", "st.shared", "barrier.cluster",
             *[r"ld.shared::cluster.v4.b32"] * 2, "barrier.cluster", "ret;")  # fmt: skip
    constants["shared"] = gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 1]])
    ptx = compiled(cluster_programs.reach_kernel, "*fp32 *fp32", constants, num_ctas=2).asm["ptx"]
    in_order(ptx, "barrier.cluster", *["st.shared::cluster.v4.b32"] * 2, "barrier.cluster")
    assert "ld.shared::cluster" not in ptx


@gluon.jit
def beside_kernel(source, PRED: gl.constexpr, USE: gl.constexpr):
    """The first step of a loop names the buffer before its own."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    memory = gl.allocate_shared_memory(source.dtype, [2, *source.block_shape], source.layout)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], 1))
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    step = gl.program_id(0)
    bar, block = bars.index((step - 1) % 2), memory.index((step - 1) % 2)
    pred = step >= PRED
    if USE == "expect" or USE == "none":
        mbarrier.expect(bar, source.nbytes_per_cta, pred=pred)
    if USE == "load" or USE == "none":
        tma.async_load(source, [0, 0], bar, block, pred=pred)
    if USE == "wait" or USE == "none":
        mbarrier.wait(bar, 0, pred=pred)
    if USE == "product" or USE == "none":
        tcgen05_mma(block, memory.index(1).permute((1, 0)), acc, use_acc=False, pred=pred)
    if USE == "arrive" or USE == "none":
        mbarrier.arrive(bar, count=1, pred=pred)
    if USE == "read":
        block.load(rows)


@pytest.mark.parametrize("use", ["expect", "load", "wait", "product", "arrive", "read"])
def test_buffers_beside_an_allocation_may_be_named_and_not_used(use: str) -> None:
    layout = gl.NVMMASharedLayout(128, 16)
    desc = TensorDescriptor.from_tensor(np.zeros((128, 64), np.float16), [128, 64], layout)
    launch = launcher("interpreted")
    launch(beside_kernel, (1,), desc, PRED=1, USE="none")
    with pytest.raises(InterpreterError, match="memdesc_index: index -1 of 2 buffers"):
        launch(beside_kernel, (1,), desc, PRED=0, USE=use)


ROWS = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
PLAIN_ROWS = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


@gluon.jit
def carried_kernel(out, layout: gl.constexpr, memory: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    at = i * 32 + gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    first = gl.full([16, 32], 0, gl.int32, layout)
    before = gl.allocate_shared_memory(gl.int32, [16, 32], memory, first)
    for k in range(4):
        own = gl.allocate_shared_memory(gl.int32, [16, 32], memory, first + 10 * k)
        x = own.load(layout)
        gl.store(out + k * 512 + at, x + before.load(layout))
        before = gl.allocate_shared_memory(gl.int32, [16, 32], memory, first + k + 1)


@pytest.mark.parametrize("way", ["interpreted", "simt", "engine"])
def test_memory_that_an_iteration_hands_to_the_next(way: str) -> None:
    out = np.zeros((4, 16, 32), np.int32)
    launcher(way)(carried_kernel, (1,), out, layout=ROWS, memory=PLAIN_ROWS)
    wanted = np.array([0, 11, 22, 33])[:, None, None]
    np.testing.assert_array_equal(out, np.broadcast_to(wanted, out.shape))


@gluon.jit
def replaced_kernel(out, layout: gl.constexpr, memory: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    at = i * 32 + gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    x = gl.full([16, 32], 0, gl.int32, layout)
    before = gl.allocate_shared_memory(gl.int32, [16, 32], memory, x)
    for k in range(4):
        own = gl.allocate_shared_memory(gl.int32, [16, 32], memory, x + k)
        gl.store(out + at, before.load(layout))
        before = own


def test_memory_that_the_iteration_has_replaced() -> None:
    message = r"before.load\(layout\)\)\n.*\^\n.*behind the allocation at line \d+ .* the loop"
    with pytest.raises(CompilationError, match=message):
        compiled(replaced_kernel, "*i32", {"layout": ROWS, "memory": PLAIN_ROWS})
