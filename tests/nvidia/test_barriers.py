"""Where threads meet, and where things are in shared memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.nvidia.support import KERNELS
from tritium.analysis.barriers import Barriers
from tritium.analysis.shared_memory import allocate
from tritium.codegen.registry import scratch_bytes
from tritium.ops.parsing import parse_module

HEAD = """
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
  tt.func public @k(%v: tensor<512xf32, #b>, %n: i32) {
"""
M = "!ttg.memdesc<512xf32, #s, #smem, mutable>"
T = "tensor<512xf32, #b>"


def analyse(body: str) -> tuple[list[str], Any]:
    """(ops with a barrier before them, the allocation)."""
    module = parse_module(f"{HEAD}{body}\n    tt.return\n  }}\n}}\n")
    return analyse_module(module)


def analyse_module(module: Any) -> tuple[list[str], Any]:
    function = module.body.block.first_op
    blocks = list(function.regions[0].blocks)
    allocation = allocate(blocks, partial(scratch_bytes, "nvidia"))
    return [op.name for op in Barriers(allocation).find(blocks)], allocation


def test_a_read_after_a_write():
    barriers, _ = analyse(f"""
    %m = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %m : {T} -> {M}
    %a = ttg.local_load %m : {M} -> {T}
    %b = ttg.local_load %m : {M} -> {T}""")
    assert barriers == ["ttg.local_load"]


def test_a_write_after_a_read_around_a_loop():
    barriers, _ = analyse(f"""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m = ttg.local_alloc : () -> {M}
    scf.for %i = %c0 to %n step %c1 : i32 {{
      ttg.local_store %v, %m : {T} -> {M}
      %a = ttg.local_load %m : {M} -> {T}
    }}""")
    assert sorted(barriers) == ["ttg.local_load", "ttg.local_store"]


@pytest.mark.parametrize("both", [True, False])
def test_branches_are_joined(both: bool):
    other = "} else {\n      %x = arith.addi %n, %n : i32\n    }" if both else "}"
    barriers, _ = analyse(f"""
    %c = arith.constant true
    %m = ttg.local_alloc : () -> {M}
    scf.if %c {{
      ttg.local_store %v, %m : {T} -> {M}
    {other}
    %a = ttg.local_load %m : {M} -> {T}""")
    assert barriers == ["ttg.local_load"]


def test_memory_is_used_again_and_then_threads_meet():
    barriers, allocation = analyse(f"""
    %m = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %m : {T} -> {M}
    %a = ttg.local_load %m : {M} -> {T}
    ttg.local_dealloc %m : {M}
    %o = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %o : {T} -> {M}""")
    assert allocation.size == 2048
    assert barriers == ["ttg.local_load", "ttg.local_store"]


def test_what_lives_at_the_same_time_is_apart():
    _, allocation = analyse(f"""
    %m = ttg.local_alloc : () -> {M}
    %o = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %m : {T} -> {M}
    ttg.local_store %v, %o : {T} -> {M}
    %a = ttg.local_load %m : {M} -> {T}""")
    places = sorted((p.start, p.end) for p in allocation.places.values())
    assert places == [(0, 2048), (2048, 4096)]


def test_pipelined_loop_meets_twice_in_each_turn():
    """After the wait for the copies, and before the next copy overwrites what dots read."""
    module = parse_module((KERNELS / "matmul_wgmma.ttgir").read_text())
    function: Any = module.body.block.first_op
    blocks = list(function.regions[0].blocks)
    found = Barriers(allocate(blocks, partial(scratch_bytes, "nvidia"))).find(blocks)
    loop = next(op for op in blocks[0].ops if op.name == "scf.for")
    inside = [op for op in found if op.parent_op() is loop]
    assert [op.name for op in inside] == [
        "ttng.warp_group_dot", "ttg.async_copy_global_to_local"
    ]  # fmt: skip
    assert not any(found[op] for op in inside), "copies need no fence"


def test_a_barrier_in_one_branch_of_a_graph_of_blocks_does_not_count_for_the_other():
    barriers, _ = analyse(f"""
    %c = arith.constant true
    %m = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %m : {T} -> {M}
    cf.cond_br %c, ^one, ^two
  ^one:
    gpu.barrier
    cf.br ^two
  ^two:
    %a = ttg.local_load %m : {M} -> {T}""")
    assert barriers == ["ttg.local_load"]


def test_two_buffers_that_a_loop_swaps_are_both_read():
    """The loop's argument stands for either buffer, in each iteration."""
    barriers, allocation = analyse(f"""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m = ttg.local_alloc : () -> {M}
    %o = ttg.local_alloc : () -> {M}
    ttg.local_store %v, %o : {T} -> {M}
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %m, %q = %o) -> ({M}, {M}) : i32 {{
      %a = ttg.local_load %p : {M} -> {T}
      scf.yield %q, %p : {M}, {M}
    }}""")
    assert allocation.size == 4096
    assert barriers == ["ttg.local_load"]


PRODUCT = """
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1],
                        instrShape = [16, 16, 16]}>
#h = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
"""
H = "!ttg.memdesc<64x16xf16, #h, #smem, mutable>"
K = "!ttg.memdesc<16x16xf16, #h, #smem, mutable>"
C = "tensor<64x16xf32, #mma>"


@pytest.mark.parametrize(("left", "expected"), [(0, 1), (1, 2)])
def test_a_product_that_has_ended_is_no_reader_in_the_next_iteration(left: int, expected: int):
    """Threads meet after the wait for the product that reads %m. If that wait leaves a product in
    flight, the one that reads %m has not ended, and they meet before %m is written again."""
    module = parse_module(f"""{HEAD.replace("module", PRODUCT + "module", 1)}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %z = arith.constant dense<0.0> : {C}
    %x = arith.constant dense<1.0> : tensor<64x16xf16, #mma>
    %m = ttg.local_alloc : () -> {H}
    %k = ttg.local_alloc : () -> {K}
    %o = ttg.local_alloc : () -> {M}
    scf.for %i = %c0 to %n step %c1 : i32 {{
      ttg.local_store %x, %m : tensor<64x16xf16, #mma> -> {H}
      ttg.local_store %v, %o : {T} -> {M}
      %d = ttng.warp_group_dot %m, %k, %z {{isAsync = true}} : {H} * {K} -> {C}
      %w = ttng.warp_group_dot_wait %d {{pendings = {left} : i32}} : {C}
      gpu.barrier
      %e = ttng.warp_group_dot_wait %w {{pendings = 0 : i32}} : {C}
    }}
    tt.return
  }}
}}
""")
    barriers, _ = analyse_module(module)
    assert barriers.count("ttg.local_store") == expected - 1


def test_a_fence_of_the_program_is_not_repeated():
    """The barrier before a bulk copy of what threads stored needs no second fence."""
    module = parse_module((KERNELS / "matmul_tma.ttgir").read_text())
    function: Any = module.body.block.first_op
    blocks = list(function.regions[0].blocks)
    found = Barriers(allocate(blocks, partial(scratch_bytes, "nvidia"))).find(blocks)
    assert [fence for op, fence in found.items() if "local_to_global" in op.name] == [False]


def test_buffers_with_known_numbers_are_apart():
    """One thread initializes mbarriers one after the other; what a loop chooses may be either."""
    ring = "!ttg.memdesc<2x1xi64, #s, #smem, mutable>"
    one = "!ttg.memdesc<1xi64, #s, #smem, mutable>"
    barriers, _ = analyse(f"""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %m = ttg.local_alloc : () -> {ring}
    %x = ttg.memdesc_index %m[%c0] : {ring} -> {one}
    ttng.init_barrier %x, 1 : {one}
    %y = ttg.memdesc_index %m[%c1] : {ring} -> {one}
    ttng.init_barrier %y, 1 : {one}
    %z = ttg.memdesc_index %m[%n] : {ring} -> {one}
    ttng.wait_barrier %z, %c0 : {one}
    ttng.inval_barrier %x : {one}
    ttng.inval_barrier %y : {one}""")
    assert barriers == ["ttng.wait_barrier", "ttng.inval_barrier"]
