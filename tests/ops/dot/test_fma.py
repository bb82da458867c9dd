"""Products without tensor cores, without a GPU: loops over the depth instead of all products one
after the other, and what they read."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import in_order, kernel_text, lowered
from tritium import knobs
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [4, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
"""  # noqa: E501
A, B = "128x64xf32", "64x128xf32"


def product(between: str = "") -> str:
    """A kernel that fills two pieces of shared memory, loads and multiplies them."""
    body = f"""
    %c = arith.constant dense<1.0> : tensor<128x128xf32, #blocked>
    %x = arith.constant dense<2.0> : tensor<{A}, #blocked>
    %y = arith.constant dense<3.0> : tensor<{B}, #blocked>
    %m = ttg.local_alloc %x : (tensor<{A}, #blocked>) -> !ttg.memdesc<{A}, #shared, #smem, mutable>
    %n = ttg.local_alloc %y : (tensor<{B}, #blocked>) -> !ttg.memdesc<{B}, #shared, #smem, mutable>
    %a = ttg.local_load %m : !ttg.memdesc<{A}, #shared, #smem, mutable> -> tensor<{A}, #a>
    {between}
    %b = ttg.local_load %n : !ttg.memdesc<{B}, #shared, #smem, mutable> -> tensor<{B}, #b>
    %d = tt.dot %a, %b, %c : tensor<{A}, #a> * tensor<{B}, #b> -> tensor<128x128xf32, #blocked>
    %q = tt.splat %p : !tt.ptr<f32> -> tensor<128x128x!tt.ptr<f32>, #blocked>
    tt.store %q, %d : tensor<128x128x!tt.ptr<f32>, #blocked>"""
    return kernel_text(body, "%p: !tt.ptr<f32>", head=HEAD)


def test_a_loop_reads_blocks_of_k():
    text, _ = lowered(product())
    assert len(re.findall(r"@llvm\.fma\.f32\(", text)) - 1 == 2048  # and the declaration
    in_order(text, r"barrier\.cta", r"loop\d*:", r"phi float", r"load <4 x (i32|float)>, ptr",
             r"@llvm\.fma", r"!llvm\.loop", r'distinct !\{!\d+, !\d+\}')  # fmt: skip
    assert '!{!"llvm.loop.unroll.disable"}' in text


@pytest.mark.parametrize("between", [
    f"ttg.local_store %x, %m : tensor<{A}, #blocked> -> !ttg.memdesc<{A}, #shared, #smem, mutable>",
    "gpu.barrier",
])  # fmt: skip
def test_no_loop_where_the_operands_may_change_before_the_product(between: str):
    text, _ = lowered(product(between))
    assert "llvm.loop" not in text
    assert len(re.findall(r"@llvm\.fma\.f32\(", text)) - 1 == 64 * 128


@tritium.jit
def multiply(
    a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, COMPUTED: tl.constexpr
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), c.dtype.element_ty)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        if COMPUTED:
            x *= 2
        total = tl.dot(x, y, total, input_precision="ieee", out_dtype=c.dtype.element_ty)
    tl.store(c + m[:, None] * N + n[None, :], total)


def compiled(
    dtype: str, m: int, n: int, k: int, computed: bool, result: str = "fp32", **options: Any
) -> Any:
    constants = {"M": m, "N": n, "BK": k, "COMPUTED": computed}
    signature = {**dict.fromkeys("ab", f"*{dtype}"), "c": f"*{result}", "K": "i32"}
    source = ASTSource(
        fn=multiply, signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants, attrs={(i,): [["tt.divisibility", 16]] for i in range(4)},
    )  # fmt: skip
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("stages", [1, 3])
def test_large_tiles_spill_nothing(computed: bool, stages: int):
    """Whether the pipeline brings the operands to shared memory or the kernel computes them."""
    found = compiled("fp32", 128, 128, 32, computed, num_stages=stages)
    assert "nounroll" in found.asm["ptx"] and found.metadata.n_spills == 0


@pytest.mark.ptxas
def test_the_largest_tiles_are_loops_over_the_depth():
    """Written out, they took eleven seconds to compile."""
    found = compiled("fp32", 128, 128, 64, False)
    assert found.metadata.n_spills == 0 and found.asm["ptx"].count("fma.rn.f32") == 2048


@tritium.jit
def multiply_batch(a, b, c):
    i, j, k = tl.arange(0, 8)[:, None], tl.arange(0, 256), tl.arange(0, 256)
    t = tl.arange(0, 2)[:, None, None]
    x = tl.load(a + t * 2048 + (i * 256 + k)[None, :, :])
    y = tl.load(b + t * 65536 + (k[:, None] * 256 + j)[None, :, :])
    total = tl.dot(x * 2, y, out_dtype=c.dtype.element_ty)
    tl.store(c + t * 2048 + (i * 256 + j)[None, :, :], total)


@pytest.mark.parametrize(
    ("dtype", "result", "instruction"),
    [("fp64", "fp64", "fma.rn.f64"),
     pytest.param("fp16", "fp32", "fma.rn.f32", marks=pytest.mark.slow),
     pytest.param("i8", "i32", "mul.wide.s16", marks=pytest.mark.slow)],
)  # fmt: skip
def test_batches_of_other_types(dtype: str, result: str, instruction: str, no_ptxas: None):
    signature = {**dict.fromkeys("ab", f"*{dtype}"), "c": f"*{result}"}
    source = ASTSource(multiply_batch, signature)
    ptx = tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "nounroll" in ptx and instruction in ptx
