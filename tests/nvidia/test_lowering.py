"""What ttgir becomes: instructions that must (not) be in the PTX. No GPU and no ptxas needed."""

from __future__ import annotations

import re

import pytest

from tests.nvidia.support import KERNELS, in_order, kernel_text, lowered, to_ptx
from tritium.backends.nvidia.processor import processor
from tritium.ops.parsing import parse_module
from tritium.passes import pipelines

T = "tensor<1024xi32, #blocked>"
P = "tensor<1024x!tt.ptr<f32>, #blocked>"
F = "tensor<1024xf32, #blocked>"


def copy_kernel(divisible: bool, attributes: str = "") -> str:
    """Copy 1024 floats, with pointers that are or are not aligned to 16 bytes."""
    hint = " {tt.divisibility = 16 : i32}" if divisible else ""
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %v = tt.load %p{attributes} : {P}
    %d = tt.splat %o : !tt.ptr<f32> -> {P}
    %q = tt.addptr %d, %r : {P}, {T}
    tt.store %q, %v : {P}"""
    return kernel_text(body, f"%x: !tt.ptr<f32>{hint}, %o: !tt.ptr<f32>{hint}")


def test_aligned_neighbours_are_accessed_together():
    text = to_ptx(copy_kernel(divisible=True))
    assert len(re.findall(r"ld\.global\.v4\.b32", text)) == 2
    assert len(re.findall(r"st\.global\.v4\.b32", text)) == 2


def test_unaligned_elements_are_accessed_one_by_one():
    text = to_ptx(copy_kernel(divisible=False))
    assert ".v4" not in text and ".v2" not in text
    assert len(re.findall(r"ld\.global\.b32", text)) == 8


@pytest.mark.parametrize(
    ("attributes", "instruction"),
    [
        (" cacheModifier = cg", "ld.global.cg.v4.b32"),
        (" evictionPolicy = evict_first", "ld.global.L1::evict_first.v4.b32"),
        (" {isVolatile = true}", "ld.volatile.global.v4.b32"),
    ],
)
def test_cache_operators(attributes: str, instruction: str):
    assert instruction in to_ptx(copy_kernel(True, attributes))


def test_kernel_header():
    text = to_ptx(copy_kernel(True), maxnreg=42)
    in_order(text, r"\.version 8\.7", r"\.target sm_90a", r"\.address_size 64",
             r"\.entry k\(", r"\.reqntid 128", r"\.maxnreg 42")  # fmt: skip


def test_masked_store_is_predicated():
    in_order(to_ptx((KERNELS / "add.ttgir").read_text()), r"setp\.lt", r"@%p\d+ ld\.global\.v4",
             r"add\.f32", r"@%p\d+ st\.global\.v4")  # fmt: skip


@pytest.mark.parametrize(("fusion", "expected"), [(True, True), (False, False)])
def test_contraction_is_an_option(fusion: bool, expected: bool):
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %v = tt.load %p : {P}
    %m = arith.mulf %v, %v : {F}
    %a = arith.addf %m, %v : {F}
    tt.store %p, %a : {P}"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<f32>"), enable_fp_fusion=fusion)
    assert bool(re.search(r"fma\.r[nzmp]", text)) == expected


def reduce_kernel(axis: int, shape: str, head: str, parent: str, result: str, warps: int) -> str:
    """Sum a tile along an axis and store the result."""
    row, column = shape.split("x")
    kept = column if axis == 0 else row
    body = f"""
    %z = arith.constant dense<1.000000e+00> : tensor<{shape}xf32, {parent}>
    %s = "tt.reduce"(%z) <{{axis = {axis} : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }}) : (tensor<{shape}xf32, {parent}>) -> tensor<{kept}xf32, {result}>
    %r = tt.make_range {{end = {kept} : i32, start = 0 : i32}} : tensor<{kept}xi32, {result}>
    %o = tt.splat %x : !tt.ptr<f32> -> tensor<{kept}x!tt.ptr<f32>, {result}>
    %p = tt.addptr %o, %r : tensor<{kept}x!tt.ptr<f32>, {result}>, tensor<{kept}xi32, {result}>
    tt.store %p, %s : tensor<{kept}x!tt.ptr<f32>, {result}>"""
    return kernel_text(body, "%x: !tt.ptr<f32>", warps=warps, head=head)


ROWS = (
    "#b = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], "
    "warpsPerCTA = [4, 1], order = [1, 0]}>\n"
)


def test_reduction_within_a_warp_needs_no_shared_memory():
    text = reduce_kernel(1, "8x128", ROWS, "#b", "#ttg.slice<{dim = 1, parent = #b}>", 4)
    assert lowered(text)[1]["shared"] == 0
    ptx = to_ptx(text)
    assert "bar.sync" not in ptx and len(re.findall("shfl.sync.bfly", ptx)) == 5 * 2


def test_reduction_across_warps_meets_once():
    text = reduce_kernel(0, "8x128", ROWS, "#b", "#ttg.slice<{dim = 0, parent = #b}>", 4)
    assert lowered(text)[1]["shared"] == 128 * 4 * 4
    ptx = to_ptx(text)
    assert "shfl.sync.bfly" not in ptx
    assert len(re.findall(r"bar(rier)?(\.cta)?\.sync", ptx)) == 1


def test_softmax_copies_ahead_and_exponentiates_in_hardware():
    text = to_ptx((KERNELS / "softmax.ttgir").read_text())
    in_order(text, r"cp\.async\.cg\.shared\.global", r"cp\.async\.commit_group",
             r"cp\.async\.wait_group", r"max\.f32", r"ex2\.approx\.f32",
             r"div\.full\.f32")  # fmt: skip


def test_wgmma_loop():
    """Copies, a barrier and the tensor cores in the loop; one fence before eight products."""
    text = to_ptx((KERNELS / "matmul_wgmma.ttgir").read_text())
    in_order(text, r"cp\.async\.wait_group", r"bar", r"wgmma\.fence",
             r"wgmma\.mma_async\.sync\.aligned\.m64n256k16\.f32\.f16\.f16", r"wgmma\.commit_group",
             r"wgmma\.wait_group\.sync\.aligned 1", r"cp\.async\.cg",
             r"wgmma\.wait_group\.sync\.aligned 0")  # fmt: skip
    assert len(re.findall(r"wgmma\.mma_async", text)) == 4
    assert "wgmma" not in to_ptx((KERNELS / "matmul_mma.ttgir").read_text(), 80)


def test_bulk_copies():
    text = to_ptx((KERNELS / "matmul_tma.ttgir").read_text())
    in_order(text, r"mbarrier\.init", r"mbarrier\.arrive\.expect_tx",
             r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global", r"mbarrier\.try_wait\.parity",
             r"wgmma\.mma_async", r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta")  # fmt: skip


def test_mma_sync():
    text = to_ptx((KERNELS / "matmul_mma.ttgir").read_text(), 80)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in text


@pytest.mark.parametrize(
    ("arch", "depth", "shape", "count"),
    [(80, 16, "m8n8k4", 64), (90, 16, "m16n8k16", 8), (90, 8, "m16n8k8", 8), (90, 4, "", 0)],
)
def test_products_of_doubles(arch: int, depth: int, shape: str, count: int):
    """64x64 on four warps: 32x32 a warp."""
    pointers, index = "tensor<4096x!tt.ptr<f64>>", "tensor<4096xi32>"
    a, b, c = f"tensor<64x{depth}xf64>", f"tensor<{depth}x64xf64>", "tensor<64x64xf64>"
    text = f"""tt.func public @k(%x: !tt.ptr<f64>, %v: f64) {{
      %a = tt.splat %v : f64 -> {a}
      %b = tt.splat %v : f64 -> {b}
      %z = arith.constant dense<0.0> : {c}
      %d = tt.dot %a, %b, %z : {a} * {b} -> {c}
      %r = tt.reshape %d : {c} -> tensor<4096xf64>
      %i = tt.make_range {{start = 0 : i32, end = 4096 : i32}} : {index}
      %xs = tt.splat %x : !tt.ptr<f64> -> {pointers}
      %p = tt.addptr %xs, %i : {pointers}, {index}
      tt.store %p, %r : {pointers}
      tt.return
    }}"""
    module = parse_module(text)
    for item in pipelines.ttgir(processor(arch), 4, 1):
        item.run(module)
    found = to_ptx(str(module), arch)
    assert found.count("mma.sync") == count
    assert found.count(f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64") == count
    assert ("fma.rn.f64" in found) == (count == 0)


@pytest.mark.parametrize(
    ("kind", "element", "instruction"),
    [
        ("fadd", "f32", "atom.relaxed.gpu.global.add.f32"),
        ("max", "i32", "atom.relaxed.gpu.global.max.s32"),
        ("exch", "i32", "atom.relaxed.gpu.global.exch.b32"),
        ("umin", "i16", "atom.relaxed.gpu.global.cas.b32"),
        ("max", "i16", "atom.relaxed.gpu.global.cas.b32"),
    ],
)
def test_atomic_of_a_tile(kind: str, element: str, instruction: str):
    pointers = f"tensor<128x!tt.ptr<{element}>, #blocked>"
    tile, mask = f"tensor<128x{element}, #blocked>", "tensor<128xi1, #blocked>"
    one = "1.000000e+00" if element == "f32" else "1"
    types = f"({pointers}, {tile}, {mask}) -> {tile}"
    body = f"""
    %v = arith.constant dense<{one}> : {tile}
    %m = arith.constant dense<true> : {mask}
    %p = tt.splat %x : !tt.ptr<{element}> -> {pointers}
    %r = tt.atomic_rmw {kind}, relaxed, gpu, %p, %v, %m : {types}"""
    text = to_ptx(kernel_text(body, f"%x: !tt.ptr<{element}>"))
    assert len(re.findall(instruction, text)) == 4


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("arch", "element", "size", "instruction", "count"),
    [
        (90, "f32", 1024, "add.v4.f32", 2),
        (90, "f16", 1024, "add.noftz.v4.f16x2", 1),
        (90, "bf16", 512, "add.noftz.v2.bf16x2", 1),
        (90, "f16", 64, "add.noftz.f16x2", 1),
        (90, "f64", 256, "add.f64", 2),
        (80, "f16", 1024, "add.noftz.f16x2", 4),
        (80, "f32", 512, "add.f32", 4),
    ],
)
def test_sums_of_neighbours_are_one_instruction(
    arch: int, element: str, size: int, instruction: str, count: int, masked: bool
):
    """Through the passes, which give neighbours to one thread where the hardware adds them at once;
    `n` is a multiple of 16, and so is the mask of 16 elements the same."""
    pointers = f"tensor<{size}x!tt.ptr<{element}>>"
    tile, mask, index = f"tensor<{size}x{element}>", f"tensor<{size}xi1>", f"tensor<{size}xi32>"
    test = f"arith.constant dense<true> : {mask}"
    if masked:
        test = f"arith.cmpi slt, %i, %ns : {index}"
    text = f"""tt.func public @k(%x: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}},
        %n: i32 {{tt.divisibility = 16 : i32}}) {{
      %i = tt.make_range {{start = 0 : i32, end = {size} : i32}} : {index}
      %ns = tt.splat %n : i32 -> {index}
      %m = {test}
      %xs = tt.splat %x : !tt.ptr<{element}> -> {pointers}
      %p = tt.addptr %xs, %i : {pointers}, {index}
      %v = arith.constant dense<1.0> : {tile}
      %r = tt.atomic_rmw fadd, relaxed, gpu, %p, %v, %m : ({pointers}, {tile}, {mask}) -> {tile}
      tt.return
    }}"""
    module = parse_module(text)
    for item in pipelines.ttgir(processor(arch), 4, 1):
        item.run(module)
    found = to_ptx(str(module), arch)
    assert found.count(f"atom.relaxed.gpu.global.{instruction} ") == count
    assert found.count("atom.") == count


def test_scalar_atomic_is_done_once_and_shared():
    body = """
    %one = arith.constant 1 : i32
    %t = arith.constant true
    %r = tt.atomic_rmw add, acq_rel, gpu, %x, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32
    tt.store %y, %r : !tt.ptr<i32>"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>"))
    in_order(text, r"bar", r"atom\.acq_rel\.gpu\.global\.add\.u32", r"st\.shared",
             r"bar", r"ld\.shared", r"st\.global")  # fmt: skip


def test_compare_and_swap():
    body = """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r = tt.atomic_cas acq_rel, gpu, %x, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32
    tt.store %y, %r : !tt.ptr<i32>"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>"))
    assert re.search(r"atom\S*\.global\.cas\.b32", text)
