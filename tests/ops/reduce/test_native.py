"""Reductions and scans natively: axes, several operands, order, sizes beyond a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel, compare
from tritium.ir.printing import print_module

COMBINE = {
    "sum": "%r = arith.addf %a, %b : f32", "product": "%r = arith.mulf %a, %b : f32",
    "max": "%r = arith.maxnumf %a, %b : f32", "maximum": "%r = arith.maximumf %a, %b : f32",
    "min": "%r = arith.minnumf %a, %b : f32",
    # Not known to have an identity.
    "longest": "%m = arith.maxnumf %a, %b : f32\n %n = arith.minnumf %a, %b : f32\n"
               "%r = arith.maxnumf %m, %n : f32",
    # Associative, not commutative.
    "last": "%z = arith.constant 0.0 : f32\n%y = arith.mulf %a, %z : f32\n"
            "%r = arith.addf %b, %y : f32",
}  # fmt: skip


def program(op: str, shape: tuple[int, ...], axis: int, combine: str, extra: str = "") -> str:
    """Load a tile of `shape` (dense), reduce or scan it along `axis`, store the result (dense)."""
    result = shape if op == "scan" else tuple(s for d, s in enumerate(shape) if d != axis)
    dims = "x".join(map(str, shape))
    size = int(np.prod(shape))
    out_size = int(np.prod(result)) if result else 1
    attrs = f"axis = {axis} : i32{extra}"
    out_type = f"tensor<{'x'.join(map(str, result))}xf32>" if result else "f32"
    if result:
        flat = f"tensor<{out_size}x"
        write = f"""
      %f = tt.reshape %s : {out_type} -> {flat}f32>
      %or = tt.make_range {{end = {out_size} : i32, start = 0 : i32}} : {flat}i32>
      %os = tt.splat %out : !tt.ptr<f32> -> {flat}!tt.ptr<f32>>
      %oa = tt.addptr %os, %or : {flat}!tt.ptr<f32>>, {flat}i32>
      tt.store %oa, %f : {flat}!tt.ptr<f32>>"""
    else:
        write = "tt.store %out, %s : !tt.ptr<f32>"
    return f"""
    tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {{
      %range = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<{size}x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %range : tensor<{size}x!tt.ptr<f32>>, tensor<{size}xi32>
      %flat = tt.load %xa : tensor<{size}x!tt.ptr<f32>>
      %v = tt.reshape %flat : tensor<{size}xf32> -> tensor<{dims}xf32>
      %s = "tt.{op}"(%v) <{{{attrs}}}> ({{
      ^bb0(%a: f32, %b: f32):
        {combine}
        tt.{op}.return %r : f32
      }}) : (tensor<{dims}xf32>) -> {out_type}
      {write}
      tt.return
    }}
    """


def data(shape: tuple[int, ...], nan: bool = False) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(int(np.prod(shape))).astype(np.float32)
    if nan:
        x[::5] = np.nan
        x[1::7] = -np.inf
    return x


SHAPES = [(64,), (1,), (4,), (512,), (4, 32), (32, 4), (2, 128), (64, 2), (2, 4, 16), (4, 1, 8)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["sum", "max", "longest"])
@pytest.mark.parametrize(
    ("shape", "axis"), [(s, a) for s in SHAPES for a in range(len(s))]
)
def test_reduce(shape: tuple[int, ...], axis: int, name: str) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if name == "sum" else {}
    out = np.zeros(max(1, int(np.prod(shape))), np.float32)
    compare(program("reduce", shape, axis, COMBINE[name]), [data(shape), out], **tolerance)


def test_columns_of_pairs() -> None:
    """Addresses whose offsets LLVM knows to be small: it took two of them for one."""
    values = [data((64, 2)), np.zeros(2, np.float32)]
    compare(program("reduce", (64, 2), 0, COMBINE["longest"]), values)


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["max", "min", "maximum"])
@pytest.mark.parametrize("shape", [(64,), (2, 32), (512,)])
def test_reduce_with_nan(shape: tuple[int, ...], name: str) -> None:
    axis = len(shape) - 1
    for x in (data(shape, True), np.full(int(np.prod(shape)), np.nan, np.float32)):
        compare(program("reduce", shape, axis, COMBINE[name]), [x, np.zeros(x.size, np.float32)])


@pytest.mark.covering(1)
@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("name", ["sum", "max", "last"])
@pytest.mark.parametrize(
    ("shape", "axis"), [(s, a) for s in SHAPES for a in range(len(s))]
)
def test_scan(shape: tuple[int, ...], axis: int, name: str, reverse: str) -> None:
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if name == "sum" else {}
    out = np.zeros(int(np.prod(shape)), np.float32)
    text = program("scan", shape, axis, COMBINE[name], f", reverse = {reverse}")
    compare(text, [data(shape), out], **tolerance)


# As functions with early returns are printed; both paths give the larger.
BRANCHES = {
    "meeting": """%m = arith.cmpf ogt, %a, %b : f32
        cf.cond_br %m, ^bb1, ^bb2(%b : f32)
      ^bb1:
        %n = arith.addf %a, %b : f32
        %o = arith.subf %n, %b : f32
        cf.br ^bb2(%a : f32)
      ^bb2(%r: f32):""",
    "one target": """%m = arith.cmpf ogt, %a, %b : f32
        cf.cond_br %m, ^bb2(%a : f32), ^bb2(%b : f32)
      ^bb2(%r: f32):""",
    "leaving": """%m = arith.cmpf ogt, %a, %b : f32
        cf.cond_br %m, ^bb1, ^bb2
      ^bb1:
        tt.OP.return %a : f32
      ^bb2:
        %z = arith.constant 0.0 : f32
        %n = arith.cmpf olt, %b, %z : f32
        cf.cond_br %n, ^bb3, ^bb4
      ^bb3:
        tt.OP.return %b : f32
      ^bb4:
        %r = arith.maximumf %a, %b : f32""",
}  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("op", ["reduce", "scan"])
@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize(("shape", "axis"), [((64,), 0), ((4, 32), 0), ((4, 32), 1), ((1,), 0)])
def test_branches_in_the_combine_function(
    shape: tuple[int, ...], axis: int, name: str, op: str
) -> None:
    out = np.zeros(int(np.prod(shape)), np.float32)
    extra = ", reverse = false" if op == "scan" else ""
    text = program(op, shape, axis, BRANCHES[name].replace("OP", op), extra)
    compare(text, [data(shape), out])


def test_loops_of_branches_in_the_combine_function() -> None:
    body = """%t = arith.constant true
        cf.br ^bb1(%a : f32)
      ^bb1(%r: f32):
        %m = arith.cmpf olt, %r, %b : f32
        %n = arith.maximumf %r, %b : f32
        cf.cond_br %m, ^bb1(%n : f32), ^bb2
      ^bb2:"""
    with pytest.raises(NotImplementedError, match=r"tt.reduce .branches in the combine function"):
        Kernel(program("reduce", (64,), 0, body))


MAP = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
      %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %v = tt.load %xa : tensor<64x!tt.ptr<f32>>
      %s = "tt.map_elementwise"(%v) <{pack = 1 : i32}> ({
      ^bb0(%a: f32):
        %z = arith.constant 0.0 : f32
        %m = arith.cmpf ogt, %a, %z : f32
        cf.cond_br %m, ^bb1, ^bb2
      ^bb1:
        tt.map_elementwise.return %a : f32
      ^bb2:
        %r = arith.mulf %a, %a : f32
        tt.map_elementwise.return %r : f32
      }) : (tensor<64xf32>) -> tensor<64xf32>
      %os = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %oa = tt.addptr %os, %range : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      tt.store %oa, %s : tensor<64x!tt.ptr<f32>>
      tt.return
    }
"""


def test_branches_in_what_is_done_for_each_element() -> None:
    x = data((64,))
    compare(MAP, [x, np.zeros(64, np.float32)])


ARGMAX = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %value: !tt.ptr<f32>, %index: !tt.ptr<i32>) {
      %range = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %range : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
      %v = tt.load %xa : tensor<256x!tt.ptr<f32>>
      %r:2 = "tt.reduce"(%v, %range) <{axis = 0 : i32}> ({
      ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
        %equal = arith.cmpf oeq, %a, %b : f32
        %first = arith.cmpi slt, %i, %j : i32
        %tie = arith.andi %equal, %first : i1
        %more = arith.cmpf ogt, %a, %b : f32
        %left = arith.ori %more, %tie : i1
        %av = arith.select %left, %a, %b : f32
        %iv = arith.select %left, %i, %j : i32
        tt.reduce.return %av, %iv : f32, i32
      }) : (tensor<256xf32>, tensor<256xi32>) -> (f32, i32)
      tt.store %value, %r#0 : !tt.ptr<f32>
      tt.store %index, %r#1 : !tt.ptr<i32>
      tt.return
    }
"""


@pytest.mark.parametrize("at", [0, 3, 100, 255])
def test_argmax_finds_the_first(at: int) -> None:
    x = np.zeros(256, np.float32)
    x[at] = x[-1] = 5
    index: Any = np.zeros(1, np.int32)
    kernel = compare(ARGMAX, [x, np.zeros(1, np.float32), index])
    kernel.run([x, np.zeros(1, np.float32), index])
    assert index[0] == at


def test_sums_of_one_tile_share_a_loop() -> None:
    text = """
    tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
      %range = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
      %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
      %xa = tt.addptr %xs, %range : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
      %v = tt.load %xa : tensor<256x!tt.ptr<f32>>
      %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %r = arith.addf %a, %b : f32
        tt.reduce.return %r : f32
      }) : (tensor<256xf32>) -> f32
      %w = arith.mulf %v, %v : tensor<256xf32>
      %t = "tt.reduce"(%w) <{axis = 0 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %r = arith.addf %a, %b : f32
        tt.reduce.return %r : f32
      }) : (tensor<256xf32>) -> f32
      %u = arith.subf %t, %s : f32
      tt.store %out, %u : !tt.ptr<f32>
      tt.return
    }
    """
    kernel = compare(text, [data((256,)), np.zeros(1, np.float32)], rtol=1e-4, atol=1e-4)
    assert print_module(kernel.tiles).count("tile.nest [256]") == 1
    assert kernel.facts["scratch_bytes"] == 0


CONTROL = {
    "branch": "%c = arith.cmpf ogt, %a, %b : f32\n"
              "%r = scf.if %c -> (f32) { scf.yield %a : f32 } else { scf.yield %b : f32 }",
    "assert": "%r = arith.addf %a, %b : f32\n%t = arith.cmpf olt, %r, %limit : f32\n"
              'tt.assert %t, "too large" : i1',
}  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("op", ["reduce", "scan"])
@pytest.mark.parametrize("shape, axis", [((64,), 0), ((4, 32), 1), ((8, 16), 0), ((1,), 0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_control_flow_in_combine_functions(
    op: str, shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    extra = ", reverse = true" if reverse else ", reverse = false"
    text = program(op, shape, axis, CONTROL["branch"], extra if op == "scan" else "")
    size = int(np.prod(shape))
    x = np.random.default_rng(3).standard_normal(size).astype(np.float32)
    compare(text, [x, np.zeros(size, np.float32)])


@pytest.mark.parametrize("op", ["reduce", "scan"])
@pytest.mark.parametrize("limit", [1e6, 100.0])
def test_assertions_in_combine_functions(op: str, limit: float) -> None:
    extra = ", reverse = false" if op == "scan" else ""
    text = program(op, (64,), 0, CONTROL["assert"], extra)
    text = text.replace("%range =", f"%limit = arith.constant {limit:.1f} : f32\n%range =", 1)
    x = np.arange(64, dtype=np.float32)
    fault = Kernel(text).run([x, np.zeros(64, np.float32)])
    assert fault.raised == (limit < x.sum())


@tritium.jit
def extremes_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out_ptr, tl.max(tl.load(x_ptr + at, mask=inside, other=-float("inf")), 0))
    tl.store(out_ptr + 1, tl.min(tl.load(x_ptr + at, mask=inside, other=float("inf")), 0))


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("count", [1, 200, 256])
@pytest.mark.parametrize("kind", ["numbers", "some nan", "all nan", "-inf", "inf", "nan or -inf"])
def test_extremes(dtype: type, count: int, kind: str) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(dtype)
    fill = {"some nan": np.nan, "all nan": np.nan, "-inf": -np.inf, "inf": np.inf}
    if kind == "nan or -inf":
        x[:], x[::2] = np.nan, -np.inf
    elif kind != "numbers":
        x[slice(None, None, 3) if kind == "some nan" else slice(None)] = fill[kind]
    out = np.zeros(2, dtype)
    extremes_kernel[(1,)](x, out, count, BLOCK=256)
    padded = np.concatenate([x, np.full(256 - count, -np.inf, dtype)])
    other = np.concatenate([x, np.full(256 - count, np.inf, dtype)])
    np.testing.assert_array_equal(out, [np.fmax.reduce(padded), np.fmin.reduce(other)])
