"""Registers and shared memory of kernels that need nearly all that there is of them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.backends.nvidia.processor import processor
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.fixture
def attention(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(TUTORIALS), *sys.path])
    return importlib.import_module("06_fused_attention")


def compiled(
    fn: Any, types: dict[str, str], constants: dict[str, Any], arch: int, **options: Any
) -> Any:
    """A kernel whose pointers and numbers are multiples of 16."""
    kinds = types | dict.fromkeys(constants, "constexpr")
    attrs = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(fn.arg_names)
        if kinds[name][0] == "*" or kinds[name] == "i32"
    }  # fmt: skip
    source = ASTSource(fn, {n: kinds[n] for n in fn.arg_names}, constants, attrs)
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("arch,depth,num_warps,spilled", [
    (90, 64, 4, 0), (90, 128, 8, 0), (80, 64, 4, 128), (80, 128, 8, 32),
])  # fmt: skip
def test_gradients_of_attention_spill_little(
    arch: int, depth: int, num_warps: int, spilled: int, descriptors: bool, attention: Any,
    fresh_cache: Path,
) -> None:  # fmt: skip
    """Steps of 32 queries: K and V, of which each step's products take all, are not held in
    registers. With Triton 3.6, 64 to 804 bytes are spilled."""
    halves = ("q_ptr", "k_ptr", "v_ptr", "do_ptr", "dq_ptr", "dk_ptr", "dv_ptr")
    types = dict.fromkeys(halves, "*fp16")
    types |= {"lse_ptr": "*fp32", "delta_ptr": "*fp32", "scale": "fp32", "length": "i32"}
    constants = {"D": depth, "BLOCK": 128, "STEP": 32, "CAUSAL": True, "EVEN": True}
    kernel = compiled(
        attention.backward_kernel, types, constants | {"DESCRIPTORS": descriptors}, arch,
        num_warps=num_warps, num_stages=2,
    )  # fmt: skip
    assert 4 * kernel.metadata.n_spills <= spilled
    assert ("mma.sync" in kernel.asm["ptx"]) == (arch == 80)


@tritium.jit
def scaled_product(
    a_ptr, a_scales, b_ptr, b_scales, c_ptr, steps,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    half, scales = tl.arange(0, BK // 2), tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(steps):
        a = tl.load(a_ptr + m[:, None] * steps * BK + i * BK + k[None, :])
        b = tl.load(b_ptr + n[:, None] * steps * BK // 2 + i * BK // 2 + half[None, :])
        of_a = tl.load(a_scales + m[:, None] * steps * BK // 32 + i * BK // 32 + scales[None, :])
        of_b = tl.load(b_scales + n[:, None] * steps * BK // 32 + i * BK // 32 + scales[None, :])
        acc = tl.dot_scaled(a, of_a, "e4m3", b.T, of_b, "e2m1", acc)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], acc)


SCALED = {
    "a_ptr": "*fp8e4nv", "a_scales": "*u8", "b_ptr": "*u8", "b_scales": "*u8", "c_ptr": "*fp32",
    "steps": "i32",
}  # fmt: skip


@pytest.mark.ptxas
def test_the_left_operand_stays_in_registers_where_both_do_not_fit(fresh_cache: Path) -> None:
    """128x256x256: 64 KiB of the left operand and 128 KiB of the right one beside the copies of
    both do not fit; Triton 3.6 needs as much as is needed here."""
    shape = {"BM": 128, "BN": 256, "BK": 256}
    kernel = compiled(scaled_product, SCALED, shape, 90, num_warps=8, num_stages=2)
    assert kernel.metadata.shared <= 199680 < processor(90).max_shared
    assert "wgmma" in kernel.asm["ptx"]


@pytest.mark.ptxas
def test_the_left_operand_is_in_shared_memory_where_it_fits(fresh_cache: Path) -> None:
    shape = {"BM": 128, "BN": 128, "BK": 128}
    text = compiled(scaled_product, SCALED, shape, 90, num_warps=8, num_stages=2).asm["ttgir"]
    (product,) = [line for line in text.splitlines() if "ttng.warp_group_dot " in line]
    assert ": !ttg.memdesc<128x128xbf16" in product


@tritium.jit
def byte_product(a_ptr, b_ptr, c_ptr, k, BLOCK: tl.constexpr, BK: tl.constexpr):
    rows, depth = tl.arange(0, BLOCK), tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * k + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] + rows[None, :] * k
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, k, BK):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BK
        b_ptrs += BK
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


def test_a_result_needs_no_more_shared_memory_than_the_loop(fresh_cache: Path) -> None:
    """The 64 KiB of the result change their layout in two parts, where the copies were: three
    blocks fit into the memory of an Ada GPU, as with Triton 3.6."""
    types = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "c_ptr": "*fp32", "k": "i32"}
    kernel = compiled(byte_product, types, {"BLOCK": 128, "BK": 64}, 89, num_warps=8, num_stages=3)
    assert kernel.metadata.shared == 32768
