"""Tiles that change their layout in parts, executed on the CPU: every element arrives, and every
barrier between the parts is needed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.nvidia.support import kernel_text
from tests.simt.machine import KernelFailure
from tests.simt.test_warp_specialize import run
from tritium.ops.parsing import parse_module

LAYOUTS = {
    "rows": "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], "
            "warpsPerCTA = [4, 1], order = [1, 0]}>",
    "columns": "#ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [32, 1], "
               "warpsPerCTA = [1, 4], order = [0, 1]}>",
    "mma": "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], "
           "instrShape = [16, 8]}>",
    "wgmma": "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], "
             "instrShape = [16, 128, 16]}>",
}  # fmt: skip
M, N = 128, 128


def moved(source: str, parts: int, dropped: frozenset[int] = frozenset()) -> int:
    """Bring a tile from a layout to rows, in parts, and check it; the number of barriers."""
    head = "".join(f"#{name} = {text}\n" for name, text in LAYOUTS.items())
    kind = f"tensor<{M}x{N}xi32, #{source}>"
    body = f"""
    %r = tt.make_range {{end = {M} : i32, start = 0 : i32}} : tensor<{M}xi32, #ttg.slice<{{dim = 1, parent = #{source}}}>>
    %c = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32, #ttg.slice<{{dim = 0, parent = #{source}}}>>
    %re = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{M}xi32, #ttg.slice<{{dim = 1, parent = #{source}}}>> -> tensor<{M}x1xi32, #{source}>
    %ce = tt.expand_dims %c {{axis = 0 : i32}} : tensor<{N}xi32, #ttg.slice<{{dim = 0, parent = #{source}}}>> -> tensor<1x{N}xi32, #{source}>
    %w = arith.constant dense<{N}> : tensor<{M}x1xi32, #{source}>
    %rw = arith.muli %re, %w : tensor<{M}x1xi32, #{source}>
    %rb = tt.broadcast %rw : tensor<{M}x1xi32, #{source}> -> {kind}
    %cb = tt.broadcast %ce : tensor<1x{N}xi32, #{source}> -> {kind}
    %x = arith.addi %rb, %cb : {kind}
    %y = ttg.convert_layout %x {{ttg.parts = {parts} : i32}} : {kind} -> tensor<{M}x{N}xi32, #rows>
    %n = arith.constant dense<7> : {kind}
    %z = arith.xori %x, %n : {kind}
    %v = ttg.convert_layout %z {{ttg.parts = {parts} : i32}} : {kind} -> tensor<{M}x{N}xi32, #rows>
    %s = arith.muli %y, %v : tensor<{M}x{N}xi32, #rows>
    %i = tt.make_range {{end = {M} : i32, start = 0 : i32}} : tensor<{M}xi32, #ttg.slice<{{dim = 1, parent = #rows}}>>
    %j = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32, #ttg.slice<{{dim = 0, parent = #rows}}>>
    %ie = tt.expand_dims %i {{axis = 1 : i32}} : tensor<{M}xi32, #ttg.slice<{{dim = 1, parent = #rows}}>> -> tensor<{M}x1xi32, #rows>
    %je = tt.expand_dims %j {{axis = 0 : i32}} : tensor<{N}xi32, #ttg.slice<{{dim = 0, parent = #rows}}>> -> tensor<1x{N}xi32, #rows>
    %iw = arith.constant dense<{N}> : tensor<{M}x1xi32, #rows>
    %im = arith.muli %ie, %iw : tensor<{M}x1xi32, #rows>
    %ib = tt.broadcast %im : tensor<{M}x1xi32, #rows> -> tensor<{M}x{N}xi32, #rows>
    %jb = tt.broadcast %je : tensor<1x{N}xi32, #rows> -> tensor<{M}x{N}xi32, #rows>
    %at = arith.addi %ib, %jb : tensor<{M}x{N}xi32, #rows>
    %b = tt.splat %p : !tt.ptr<i32> -> tensor<{M}x{N}x!tt.ptr<i32>, #rows>
    %q = tt.addptr %b, %at : tensor<{M}x{N}x!tt.ptr<i32>, #rows>, tensor<{M}x{N}xi32, #rows>
    tt.store %q, %s : tensor<{M}x{N}x!tt.ptr<i32>, #rows>"""  # noqa: E501
    module = parse_module(kernel_text(body, "%p: !tt.ptr<i32>", head=head))
    found = np.zeros((M, N), np.int32)
    count = run(module, 4, (1,), [], found, dropped=dropped)
    numbers = np.arange(M * N, dtype=np.int32).reshape(M, N)
    np.testing.assert_array_equal(found, numbers * (numbers ^ 7))
    return count


@pytest.mark.every(2)
@pytest.mark.parametrize("source,parts", [*product(("columns", "mma", "wgmma"), (1, 2, 4))])
def test_every_element_arrives(source: str, parts: int) -> None:
    moved(source, parts)


def test_every_barrier_is_needed() -> None:
    count = moved("mma", 2)
    assert count == 7  # within and between the parts of both, and between the two
    for number in range(count):
        with pytest.raises((AssertionError, KernelFailure)):
            moved("mma", 2, frozenset([number]))
