"""Numbers of 4 bits, two in a byte, executed on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nvidia.support import kernel_text
from tests.simt.test_warp_specialize import run
from tritium.ops.parsing import parse_module

MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES])
HEAD = (
    "#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4],"
    " order = [1, 0]}>\n"
    "#bytes1 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], "
    "warpsPerCTA = [1, 4], order = [1, 0]}>\n"
    "#tall = #ttg.blocked<{sizePerThread = [2, 8], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4],"
    " order = [1, 0]}>\n"
    "#bytes0 = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], "
    "warpsPerCTA = [1, 4], order = [1, 0]}>\n"
)


def places(rows: int, columns: int, layout: str, name: str) -> str:
    """The row-major places of a tile, as `%name`."""
    tile = f"tensor<{rows}x{columns}xi32, #{layout}>"
    row, column = (f"tensor<{n}xi32, #ttg.slice<{{dim = {d}, parent = #{layout}}}>>"
                   for n, d in ((rows, 1), (columns, 0)))  # fmt: skip
    tall, wide = f"tensor<{rows}x1xi32, #{layout}>", f"tensor<1x{columns}xi32, #{layout}>"
    return f"""
    %{name}r = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : {row}
    %{name}c = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : {column}
    %{name}re = tt.expand_dims %{name}r {{axis = 1 : i32}} : {row} -> {tall}
    %{name}ce = tt.expand_dims %{name}c {{axis = 0 : i32}} : {column} -> {wide}
    %{name}w = arith.constant dense<{columns}> : {tall}
    %{name}m = arith.muli %{name}re, %{name}w : {tall}
    %{name}b = tt.broadcast %{name}m : {tall} -> {tile}
    %{name}d = tt.broadcast %{name}ce : {wide} -> {tile}
    %{name} = arith.addi %{name}b, %{name}d : {tile}"""


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_bytes(axis: int, kind: str) -> None:
    rows, columns = (32, 32) if axis == 0 else (32, 16)
    wide = (rows * 2, columns) if axis == 0 else (rows, columns * 2)
    source, target = f"bytes{axis}", ("tall", "rows")[axis]
    given, found = f"{rows}x{columns}x", f"{wide[0]}x{wide[1]}x"
    body = places(rows, columns, source, "i") + places(*wide, target, "o") + f"""
    %p0 = tt.splat %p : !tt.ptr<i8> -> tensor<{given}!tt.ptr<i8>, #{source}>
    %p1 = tt.addptr %p0, %i : tensor<{given}!tt.ptr<i8>, #{source}>, tensor<{given}i32, #{source}>
    %x = tt.load %p1 : tensor<{given}!tt.ptr<i8>, #{source}>
    %y = ttg.fp4_to_fp %x {{axis = {axis} : i32}} : tensor<{given}i8, #{source}> -> tensor<{found}{kind}, #{target}>
    {f"%z = arith.extf %y : tensor<{found}{kind}, #{target}> to tensor<{found}f32, #{target}>" if kind != "f32" else ""}
    %q0 = tt.splat %q : !tt.ptr<f32> -> tensor<{found}!tt.ptr<f32>, #{target}>
    %q1 = tt.addptr %q0, %o : tensor<{found}!tt.ptr<f32>, #{target}>, tensor<{found}i32, #{target}>
    tt.store %q1, {"%y" if kind == "f32" else "%z"} : tensor<{found}!tt.ptr<f32>, #{target}>"""  # noqa: E501
    module = parse_module(kernel_text(body, "%p: !tt.ptr<i8>, %q: !tt.ptr<f32>", head=HEAD))
    module.verify()
    codes = np.random.default_rng(0).permutation(rows * columns).astype(np.uint8)
    codes = codes.reshape(rows, columns)
    want = np.stack([VALUES[codes & 15], VALUES[codes >> 4]], axis + 1).reshape(wide)
    out = np.zeros(wide, np.float32)
    run(module, 4, (1,), [], codes, out)
    np.testing.assert_array_equal(out, want)
    assert np.array_equal(np.signbit(out), np.signbit(want))
