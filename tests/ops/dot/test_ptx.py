"""Products in the PTX: wgmma, mma and how their operands are brought."""

from __future__ import annotations

import re

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import KERNELS, in_order, to_ptx
from tritium.backends.nvidia.processor import processor
from tritium.compiler import ASTSource
from tritium.errors import UnsupportedOpError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from tritium.ops.parsing import parse_module
from tritium.passes import pipelines
from tritium.target import GPUTarget

pytestmark = pytest.mark.usefixtures("no_ptxas")


@tritium.jit
def fp8_product(a, b, o, n, LIMIT: tl.constexpr):
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for i in range(n):
        x = tl.load(a + m[:, None] * 64 + k[None, :] + i)
        y = tl.load(b + k[:, None] + m[None, :] * 64 + i)
        acc = tl.dot(x, y, acc, max_num_imprecise_acc=LIMIT)
    tl.store(o + m[:, None] * 64 + m[None, :], acc)


@pytest.mark.parametrize(
    ("limit", "wgmma", "adds"), [(None, True, False), (64, True, True), (32, False, False)]
)
def test_how_precisely_fp8_products_are_summed(limit: int | None, wgmma: bool, adds: bool):
    kinds = {"a": "*fp8e4nv", "b": "*fp8e4nv", "o": "*fp32", "n": "i32", "LIMIT": "constexpr"}
    source = ASTSource(fp8_product, kinds, {(4,): limit})
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert ("wgmma.mma_async" in text, "mma.sync" in text) == (wgmma, not wgmma)
    assert bool(re.search(r"add(\.rn)?\.f32", text)) == adds


HALF = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16]))


@gluon.jit
def half_sums_kernel(out, dtype: gl.constexpr):
    a = gl.allocate_shared_memory(
        dtype, [64, 64], gl.NVMMASharedLayout(64, dtype.primitive_bitwidth, 2)
    )
    acc = gl.zeros([64, 64], gl.float16, HALF)
    acc = warpgroup_mma(a, a.permute((1, 0)), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=[acc])
    at = gl.arange(0, 64, gl.SliceLayout(1, HALF))[:, None] * 64
    gl.store(out + at + gl.arange(0, 64, gl.SliceLayout(0, HALF))[None, :], acc)


def test_sums_in_half_precision():
    """A register has two of them."""
    def compiled(dtype):
        kinds = {"out": "*fp16", "dtype": "constexpr"}
        source = gluon.GluonASTSource(half_sums_kernel, kinds, {"dtype": dtype})
        return tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

    for dtype, name in ((gl.float16, "k16.f16.f16.f16"), (gl.float8e5, "k32.f16.e5m2.e5m2")):
        found = re.findall(rf"wgmma.mma_async.sync.aligned.m64n32{name} {{(.*?)}}", compiled(dtype))
        assert len(found) == (8 if dtype == gl.float16 else 4)
        assert all(len(set(registers.split(", "))) == 8 for registers in found)
    with pytest.raises(UnsupportedOpError, match="sums in f16 of products of bf16"):
        compiled(gl.bfloat16)


@tritium.jit
def product_of_bytes(a, b, out, k):
    rows = tl.arange(0, 64)
    depth = tl.arange(0, 32)
    sums = tl.zeros((64, 64), tl.int32)
    for i in range(0, k, 32):
        x = tl.load(a + rows[:, None] * 1024 + (i + depth)[None, :])
        y = tl.load(b + (i + depth)[:, None] * 1024 + rows[None, :])
        sums = tl.dot(x, y, sums)
    tl.store(out + rows[:, None] * 64 + rows[None, :], sums)


def test_bytes_that_change_places_are_not_copied_ahead():
    """A wgmma of bytes reads the right operand by columns; it is stored by rows here, and a copy
    that the program does not wait for moves four bytes at least."""
    source = ASTSource(
        product_of_bytes, {"a": "*i8", "b": "*i8", "out": "*i32", "k": "i32"}, {},
        {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )  # fmt: skip
    text = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8" in text
    copies = re.findall(r"cp\.async\.c[ag]\.shared.*", text)
    assert copies and all(", 16" in line for line in copies)


def test_wgmma_loop():
    """Copies, a barrier and the tensor cores in the loop; one fence before eight products."""
    text = to_ptx((KERNELS / "matmul_wgmma.ttgir").read_text())
    in_order(text, r"cp\.async\.wait_group", r"bar", r"wgmma\.fence",
             r"wgmma\.mma_async\.sync\.aligned\.m64n256k16\.f32\.f16\.f16", r"wgmma\.commit_group",
             r"wgmma\.wait_group\.sync\.aligned 1", r"cp\.async\.cg",
             r"wgmma\.wait_group\.sync\.aligned 0")  # fmt: skip
    assert len(re.findall(r"wgmma\.mma_async", text)) == 4
    assert "wgmma" not in to_ptx((KERNELS / "matmul_mma.ttgir").read_text(), 80)


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


@tritium.jit
def product(a, b, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x, y = tl.load(a + m * K + k[None, :]), tl.load(b + k[:, None] * N + n)
    tl.store(o + m * N + n, tl.dot(x, y))


def lowered(dtype: str, result: str, m: int, n: int, k: int):
    constants = {"M": m, "N": n, "K": k}
    signature = {**dict.fromkeys("ab", f"*{dtype}"), "o": f"*{result}"}
    source = ASTSource(product, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32))


@pytest.mark.covering(1)
@pytest.mark.parametrize("rows_and_columns", [(1, 16), (8, 8), (16, 4), (1, 1), (2, 64)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "result", "depth", "instruction"),
    [("fp16", "fp32", 16, "m16n8k16.row.col.f32.f16.f16.f32"),
     ("i8", "i32", 32, "m16n8k32.row.col.s32.s8.s8.s32"),
     ("fp32", "fp32", 8, "m16n8k8.row.col.f32.tf32.tf32.f32")],
)  # fmt: skip
def test_tiles_smaller_than_an_instruction(
    dtype: str, result: str, depth: int, instruction: str, rows_and_columns: tuple[int, int]
):
    """A warp has every fourth part of the columns, if there are so many."""
    rows, columns = rows_and_columns
    text = lowered(dtype, result, rows, columns, 2 * depth).asm["ptx"]
    assert text.count(f"mma.sync.aligned.{instruction}") == 2 * max(columns // 32, 1)
    assert "fma.rn" not in text


def test_operands_with_wide_parts_along_k():
    """Of four neighbours along K in a thread, both halves go to the same instruction."""
    text = lowered("fp16", "fp32", 16, 8, 32).asm["ttgir"]
    assert "kWidth = 2" in text
    texts = [to_ptx(text.replace("kWidth = 2", f"kWidth = {width}")) for width in (2, 4)]
    assert [t.count("mma.sync.aligned.m16n8k16") for t in texts] == [2, 2]
    with pytest.raises(NotImplementedError, match="kWidth"):
        left = "opIdx = 0, parent = #mma, kWidth = "
        to_ptx(text.replace(f"{left}2", f"{left}4"))
