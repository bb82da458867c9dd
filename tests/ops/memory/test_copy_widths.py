"""How wide copies and loads are where a thread has neighbours along several axes."""

from __future__ import annotations

import re

import pytest

from tests.nvidia.support import kernel_text, to_ptx

HEAD = """
#blocked = #ttg.blocked<{{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [1, 2], order = [1, 0]}}>
#shared = #ttg.swizzled_shared<{{vec = 4, perPhase = 1, maxPhase = 8, order = {order}}}>
#smem = #ttg.shared_memory
"""  # noqa: E501
POINTERS = "tensor<16x256x!tt.ptr<f32>, #blocked>"
MEMORY = "!ttg.memdesc<16x256xf32, #shared, #smem, mutable>"
ADDRESSES = f"""
    %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32, #ttg.slice<{{dim = 1, parent = #blocked}}>>
    %s = tt.make_range {{start = 0 : i32, end = 256 : i32}} : tensor<256xi32, #ttg.slice<{{dim = 0, parent = #blocked}}>>
    %t = tt.expand_dims %r {{axis = 1 : i32}} : tensor<16xi32, #ttg.slice<{{dim = 1, parent = #blocked}}>> -> tensor<16x1xi32, #blocked>
    %u = tt.expand_dims %s {{axis = 0 : i32}} : tensor<256xi32, #ttg.slice<{{dim = 0, parent = #blocked}}>> -> tensor<1x256xi32, #blocked>
    %k = arith.constant dense<256> : tensor<16x1xi32, #blocked>
    %v = arith.muli %t, %k : tensor<16x1xi32, #blocked>
    %w = tt.broadcast %v : tensor<16x1xi32, #blocked> -> tensor<16x256xi32, #blocked>
    %x = tt.broadcast %u : tensor<1x256xi32, #blocked> -> tensor<16x256xi32, #blocked>
    %y = arith.addi %w, %x : tensor<16x256xi32, #blocked>
    %b = tt.splat %a : !tt.ptr<f32> -> {POINTERS}
    %p = tt.addptr %b, %y : {POINTERS}, tensor<16x256xi32, #blocked>"""  # noqa: E501
ARGUMENT = "%a: !tt.ptr<f32> {tt.divisibility = 16 : i32}"


@pytest.mark.parametrize(("order", "size"), [("[1, 0]", 16), ("[0, 1]", 4)])
def test_copies_take_what_is_together_in_both_memories(order: str, size: int):
    """A thread has four columns and, below them, four rows: it is the columns that are neighbours
    in global memory, and only they may be copied at once."""
    body = f"""{ADDRESSES}
    %m = ttg.local_alloc : () -> {MEMORY}
    %d = ttg.async_copy_global_to_local %p, %m {{contiguity = 4 : i32}} : {POINTERS} -> <16x256xf32, #shared, #smem, mutable>
    ttg.local_dealloc %m : {MEMORY}"""  # noqa: E501
    text = to_ptx(kernel_text(body, ARGUMENT, warps=2, head=HEAD.format(order=order)))
    to = r"cp\.async\.c[ag]\.shared\.global \[ %r\d+(?: \+ \d+)? \]"
    found = re.findall(to + r", \[ %rd\d+ \], (\d+)", text)
    assert found == [str(size)] * (16 * 256 * 4 // 64 // size)


def test_loads_take_neighbours_along_whichever_axis_has_them():
    body = f"""{ADDRESSES}
    %l = tt.load %p : {POINTERS}
    %m = ttg.local_alloc %l : (tensor<16x256xf32, #blocked>) -> {MEMORY}
    ttg.local_dealloc %m : {MEMORY}"""
    text = to_ptx(kernel_text(body, ARGUMENT, warps=2, head=HEAD.format(order="[1, 0]")))
    assert len(re.findall(r"ld\.global\.v4", text)) == 16
