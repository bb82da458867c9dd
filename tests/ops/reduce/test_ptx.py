"""Reductions and scans on GPUs: shuffles, barriers and shared memory in the PTX."""

from __future__ import annotations

import re

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled, kernel_text, lowered, to_ptx
from tritium.ir.layouts.encodings import LinearEncoding, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import covers
from tritium.passes.ttgir.convert_ttir_to_ttgir import scan_encoding
from tritium.passes.ttgir.layout_propagation import Threads

pytestmark = pytest.mark.usefixtures("no_ptxas")


@tritium.jit
def cumulative(x, o):
    i = tl.arange(0, 1024)
    tl.store(o + i, tl.cumsum(tl.load(x + i)))


def test_scan_goes_over_registers_lanes_and_warps():
    text = compiled(cumulative, "*fp32 *fp32").asm["ptx"]
    assert len(re.findall(r"shfl\.sync\.idx", text)) == 6, "five steps, and the one before"
    assert len(re.findall(r"bar(rier)?(\.cta)?\.sync", text)) >= 1


def registers_lanes_warps(layout: LinearLayout, axis: int) -> list[int]:
    return [b[axis] for n in ("register", "lane", "warp") for b in layout.bases(n) if b[axis]]


@pytest.mark.parametrize("shape", [(8,), (1024,), (4, 64), (64, 4), (2, 2, 16), (1, 1)])
@pytest.mark.parametrize(("warps", "lanes"), [(1, 32), (4, 32), (16, 32), (4, 64), (1, 16)])
@pytest.mark.every(7)
def test_scans_have_neighbours_in_order(shape: tuple[int, ...], warps: int, lanes: int):
    for axis in range(len(shape)):
        layout = linear(scan_encoding(shape, axis, Threads(warps, lanes)), shape)
        assert layout.is_surjective and layout.in_size("warp") == warps
        assert layout.in_size("lane") == lanes
        bits = registers_lanes_warps(layout, axis)
        assert bits == [1 << i for i in range(len(bits))]


def test_an_encoding_by_bases_may_have_gaps():
    """A tile that is larger than the bases reach wraps around; an element that no sum of bases
    gives is nowhere."""
    small = linear(scan_encoding((8,), 0, Threads(1, 32)), (8,))
    encoding = LinearEncoding.from_layout(small)
    assert covers(encoding, (8,)) and covers(encoding, (16,))
    bases = {"register": [], "lane": [(1,), (4,)], "warp": [], "block": []}
    gap = LinearLayout.of(bases, {"dim0": 8})
    assert not covers(LinearEncoding.from_layout(gap), (8,))


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
