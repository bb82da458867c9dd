"""ttgir that Triton 3.9 writes for AMD GPUs, and its ops by themselves, compiled and executed."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
from tests.amd.execution.run import execute
from tests.amd.kernels import TARGETS
from tritium.backends.compiler import GPUTarget
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import ParseError, parse_module

FILES = Path(__file__).parents[1] / "ir" / "release_3_9"
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([E2M1, -E2M1])


def compiled(path: Path, arch: str) -> Any:
    return tritium.compile(str(path), target=GPUTarget("hip", arch, TARGETS[arch]))


@pytest.mark.every(2)
@pytest.mark.parametrize("last_first", [False, True])
def test_waves_that_take_turns(last_first: bool) -> None:
    """`amdg.cond_barrier`, `rocdl.s.barrier` and copies into memory with gaps."""
    kernel, rng = compiled(FILES / "amd_pingpong.ttgir", "gfx950"), np.random.default_rng(0)
    a, b = ((rng.integers(-4, 5, s) / 2).astype(ml_dtypes.float8_e4m3fn)
            for s in ((256, 144), (144, 256)))  # fmt: skip
    c = np.zeros((256, 256), np.float32)
    execute(kernel, (1,), (a, b, c, 144, 144, 256), last_first=last_first)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_products_of_numbers_times_scales() -> None:
    """Rows of A of e4m3, columns of B of e2m1, with a scale for each 32 elements of K."""
    kernel, rng = compiled(FILES / "amd_scaled.ttgir", "gfx942"), np.random.default_rng(1)
    a = (rng.integers(-4, 5, (64, 128)) / 2).astype(ml_dtypes.float8_e4m3fn)
    b = rng.integers(0, 256, (64, 64), np.uint8)
    scales = [rng.integers(125, 130, (64, 4), np.uint8) for _ in range(2)]
    c = np.zeros((64, 64), np.float32)
    execute(kernel, (1,), (a, b, *scales, c, 128, 128, 64, 4))
    left, right = (np.repeat(2.0 ** (s.astype(float) - 127), 32, 1) for s in scales)
    columns = np.stack([E2M1[b & 15], E2M1[b >> 4]], 2).reshape(64, 128)
    np.testing.assert_array_equal(c, (a.astype(float) * left) @ (columns * right).T)


def repacked(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes with two numbers along the rows, and along the columns."""
    return codes[::2] | codes[1::2] << 4, codes[:, ::2] | codes[:, 1::2] << 4


@pytest.mark.parametrize("evaluated", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_numbers_packed_along_the_other_axis(turned: bool, evaluated: bool, tmp_path: Path) -> None:
    """`amdg.local_load_packed_transposed`, of the left operand, and (edited) of the right one."""
    text = (FILES / "amd_repacked.ttgir").read_text()
    codes = np.random.default_rng(6).integers(0, 16, (64, 64)).astype(np.uint8)
    source, wanted = repacked(codes)
    if turned:
        head, start, body = text.partition("  tt.func")
        body = re.sub(r"(?<![i\d])(32|64)(?!\d)", lambda m: str(96 - int(m[0])), body)
        text = head + start + body.replace("opIdx = 0", "opIdx = 1")
        source, wanted = (np.ascontiguousarray(x.T) for x in (source, wanted))
    out = np.zeros_like(wanted)
    run(text, tmp_path, [np.ascontiguousarray(source), out], evaluated, "gfx950")
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("-> tensor<64x32xi8, #ttg.dot_op", "-> tensor<64x64xi8, #ttg.dot_op",
     "from 32x64 to .*64x64.*; 64x32 or 16x128: twice as many along the axis of the packing"),
    ("-> tensor<64x32xi8, #ttg.dot_op", "-> tensor<64x32xi16, #ttg.dot_op",
     r"bytes \(i8\) are required"),
])  # fmt: skip
def test_numbers_packed_otherwise(old: str, new: str, said: str) -> None:
    text = (FILES / "amd_repacked.ttgir").read_text().replace(old, new, 1)
    with pytest.raises(ParseError, match=said):
        parse_module(text)


def test_copies_of_blocks_of_tensors() -> None:
    assert "llvm.amdgcn.tensor.load.to.lds" in compiled(
        FILES / "amd_tensors.ttgir", "gfx1250"
    ).asm["llir"]


def rows(name: str, pointer: str, columns: int, element: str) -> str:
    """Text that loads a tile of 64 rows, one to a thread."""
    tile, axes = f"tensor<64x{columns}xTYPE, #c{columns}>", list[str]()
    for axis, (count, factor) in enumerate(((64, columns), (columns, 1))):
        line = f"tensor<{count}xi32, #ttg.slice<{{dim = {1 - axis}, parent = #c{columns}}}>>"
        wide = f"tensor<{'64x1' if axis == 0 else f'1x{columns}'}xi32, #c{columns}>"
        at = f"%{name}{axis}"
        axes.append(f"""
    {at}r = tt.make_range {{end = {count} : i32, start = 0 : i32}} : {line}
    {at}f = arith.constant dense<{factor}> : {line}
    {at}m = arith.muli {at}r, {at}f : {line}
    {at}e = tt.expand_dims {at}m {{axis = {1 - axis} : i32}} : {line} -> {wide}
    {at} = tt.broadcast {at}e : {wide} -> {tile.replace("TYPE", "i32")}""")
    return "".join(axes) + f"""
    %{name}i = arith.addi %{name}0, %{name}1 : {tile.replace("TYPE", "i32")}
    %{name} = amdg.buffer_load %{pointer}[%{name}i] : {tile.replace("TYPE", element)}"""


def program(name: str, arguments: str, body: str) -> str:
    layouts = "".join(
        f"#c{n} = #ttg.blocked<{{sizePerThread = [1, {n}], threadsPerWarp = [64, 1], "
        "warpsPerCTA = [1, 1], order = [1, 0]}>\n" for n in (2, 16, 32)
    )  # fmt: skip
    return f"""{layouts}#line = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [64],
  warpsPerCTA = [1], order = [0]}}>
module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 64 : i32}} {{
  tt.func public @{name}({arguments}) {{{body}
    tt.return
  }}
}}
"""


def run(
    text: str, folder: Path, arrays: list[np.ndarray], evaluated: bool, arch: str = "gfx942"
) -> None:
    """Evaluate a program, or execute what it is compiled to."""
    if not evaluated:
        path = folder / "program.ttgir"
        path.write_text(text)
        execute(compiled(path, arch), (1,), arrays)
        return
    memory = Memory([(a.ctypes.data, a.nbytes) for a in arrays])
    function: Any = next(op for op in parse_module(text).ops if op.name == "tt.func")
    module = function.parent_op()
    values = [np.uint64(a.ctypes.data) for a in arrays]
    Evaluator(module, memory).launch(function.sym_name, values, (1,))


UPCAST = program("upcast", "%x: !tt.ptr<i8>, %s: !tt.ptr<i8>, %o: !tt.ptr<bf16>", (
    rows("codes", "x", 16, "i8") + rows("scales", "s", 2, "i8") + rows("old", "o", 32, "bf16") + """
    %y = amdg.scaled_upcast_fp4 %codes scale %scales {axis = 1 : i32} : tensor<64x16xi8, #c16>,
      tensor<64x2xi8, #c2> -> tensor<64x32xbf16, #c32>
    amdg.buffer_store %y, %o[%oldi] : tensor<64x32xbf16, #c32>"""
))  # fmt: skip


@pytest.mark.parametrize("evaluated", [True, False])
def test_scales_of_runs(evaluated: bool, tmp_path: Path) -> None:
    """One for 16 numbers; 255 is NaN, and 0 a power of two as others are."""
    rng = np.random.default_rng(2)
    x, s = rng.integers(0, 256, (64, 16), np.uint8), rng.integers(0, 256, (64, 2), np.uint8)
    s[:2] = [[255, 0], [254, 1]]
    out = np.zeros((64, 32), ml_dtypes.bfloat16)
    run(UPCAST, tmp_path, [x, s, out], evaluated)
    numbers = np.stack([E2M1[x & 15], E2M1[x >> 4]], 2).reshape(64, 32)
    factors = np.repeat(np.where(s == 255, np.nan, 2.0 ** (s.astype(float) - 127)), 16, 1)
    with np.errstate(over="ignore"):
        wanted = (numbers * factors).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out.astype(float), wanted.astype(float))


def downcast(element: str, columns: int) -> str:
    kind = {"f8E4M3FN": "fp8", "f8E5M2": "fp8", "i8": "fp4"}[element]
    body = rows("x", "p", 32, "f32") + rows("scales", "s", 2, "i8")
    body += rows("old", "o", columns, element)
    arguments = f"%p: !tt.ptr<f32>, %s: !tt.ptr<i8>, %o: !tt.ptr<{element}>"
    return program("downcast", arguments, body + f"""
    %y = amdg.scaled_downcast_{kind} %x scale %scales {{axis = 1 : i32}} : tensor<64x32xf32, #c32>,
      tensor<64x2xi8, #c2> -> tensor<64x{columns}x{element}, #c{columns}>
    amdg.buffer_store %y, %o[%oldi] : tensor<64x{columns}x{element}, #c{columns}>""")


@pytest.mark.covering(1)
@pytest.mark.parametrize("evaluated", [True, False])
@pytest.mark.parametrize(("element", "kind", "most"), [
    ("f8E4M3FN", ml_dtypes.float8_e4m3fn, 448), ("f8E5M2", ml_dtypes.float8_e5m2, 57344),
    ("i8", ml_dtypes.float4_e2m1fn, 6),
])  # fmt: skip
def test_numbers_divided_by_scales(
    element: str, kind: Any, most: float, evaluated: bool, tmp_path: Path
) -> None:
    """Midpoints between neighbours, numbers beyond the largest, and the largest and the smallest
    scales."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((64, 32)) * 4).astype(np.float32)
    x[:4] = np.arange(-8, 8, 0.125).reshape(4, 32)
    s = rng.integers(120, 134, (64, 2)).astype(np.uint8)
    s[:4], s[4:6] = 127, [[0, 254], [254, 0]]
    x[4], x[5] = np.repeat([[2.0**-126, 2.0**126], [2.0**127, 2.0**-127]], 16, 1)
    factors = np.exp2(127 - np.repeat(s.astype(float), 16, 1))
    wanted = (x * factors).clip(-most, most).astype(np.float32).astype(kind).view(np.uint8)
    if element == "i8":
        wanted = wanted[:, ::2] & 15 | wanted[:, 1::2] << 4
    out = np.zeros(wanted.shape, np.uint8)
    run(downcast(element, wanted.shape[1]), tmp_path, [x, s, out], evaluated)
    np.testing.assert_array_equal(out, wanted)


SWAP = program("swap", "%p: !tt.ptr<i32>, %o: !tt.ptr<i32>", """
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #line>
    %two = arith.constant dense<2> : tensor<64xi32, #line>
    %hundred = arith.constant dense<100> : tensor<64xi32, #line>
    %at = arith.divsi %i, %two : tensor<64xi32, #line>
    %new = arith.addi %i, %hundred : tensor<64xi32, #line>
    %old = amdg.buffer_atomic_cas acq_rel, gpu, %at, %new, %p[%at] : tensor<64xi32, #line>
    amdg.buffer_store %old, %o[%i] : tensor<64xi32, #line>""")


@pytest.mark.parametrize("evaluated", [True, False])
def test_compare_and_swap(evaluated: bool, tmp_path: Path) -> None:
    """The first of two lanes at one place finds the value that it expects."""
    memory, old = np.arange(32, dtype=np.int32), np.zeros(64, np.int32)
    run(SWAP, tmp_path, [memory, old], evaluated)
    new = np.arange(100, 164, 2)
    np.testing.assert_array_equal(memory, new)
    np.testing.assert_array_equal(old, np.stack([np.arange(32), new], 1).reshape(64))


PIECES = program("pieces", "%p: !tt.ptr<i32>, %o: !tt.ptr<i32>", (
    rows("x", "p", 32, "i32").replace("%x =", "%v =") + rows("to", "o", 32, "i32") + """
    %a = amdg.extract_slice %v [0, 16] : tensor<64x32xi32, #c32> to tensor<64x16xi32, #c32>
    %b = amdg.extract_slice %v [0, 0] : tensor<64x32xi32, #c32> to tensor<64x16xi32, #c32>
    %y = amdg.concat %a, %b : tensor<64x16xi32, #c32>, tensor<64x16xi32, #c32>
      -> tensor<64x32xi32, #c32>
    amdg.buffer_store %y, %o[%toi] : tensor<64x32xi32, #c32>""")
)  # fmt: skip


@pytest.mark.parametrize("evaluated", [True, False])
def test_tiles_made_of_parts(evaluated: bool, tmp_path: Path) -> None:
    """The right half of a tile, and its left one behind it."""
    x, out = np.arange(2048, dtype=np.int32).reshape(64, 32), np.zeros((64, 32), np.int32)
    run(PIECES, tmp_path, [x, out], evaluated)
    np.testing.assert_array_equal(out, np.roll(x, 16, 1))


COLUMN = program("column", "%p: !tt.ptr<f16>, %o: !tt.ptr<f16>", (
    rows("x", "p", 32, "f16") + rows("to", "o", 32, "f16") + """
    %s = arith.mulf %x, %x : tensor<64x32xf16, #c32>
    %t = arith.addf %s, %x : tensor<64x32xf16, #c32>
    %a = amdg.extract_slice %t [0, 0] : tensor<64x32xf16, #c32> to tensor<64x1xf16, #c32>
    %y = tt.broadcast %a : tensor<64x1xf16, #c32> -> tensor<64x32xf16, #c32>
    amdg.buffer_store %y, %o[%toi] : tensor<64x32xf16, #c32>""")
)  # fmt: skip


@pytest.mark.parametrize("evaluated", [True, False])
def test_halves_of_pairs_that_nothing_uses(evaluated: bool, tmp_path: Path) -> None:
    """Registers are computed in pairs (`v_pk_add_f16`) only where both are used."""
    x = (np.arange(2048) % 37).astype(np.float16).reshape(64, 32)
    out = np.zeros((64, 32), np.float16)
    run(COLUMN, tmp_path, [x, out], evaluated)
    np.testing.assert_array_equal(out, np.repeat(x[:, :1] * x[:, :1] + x[:, :1], 32, 1))


@pytest.mark.parametrize(("before", "after", "message"), [
    ("[0, 16] : tensor<64x32xi32, #c32> to tensor<64x16xi32, #c32>",
     "[0, 24] : tensor<64x32xi32, #c32> to tensor<64x16xi32, #c32>",
     "extract_slice: invalid offset at dimension 1: 16 elements from 24 on, of 32"),
    ("[0, 0] : tensor<64x32xi32, #c32> to tensor<64x16xi32, #c32>",
     "[0, 0] : tensor<64x32xi32, #c32> to tensor<32x16xi32, #c32>",
     "lane and warp dim basis must match between source and destination layout"),
    ("amdg.concat %a, %b : tensor<64x16xi32, #c32>, tensor<64x16xi32, #c32>",
     "amdg.concat %a : tensor<64x16xi32, #c32>", r"source tiles \(1\) .* required count \(2\)"),
])  # fmt: skip
def test_parts_that_do_not_fit(before: str, after: str, message: str) -> None:
    assert before in PIECES
    with pytest.raises(ParseError, match=message):
        parse_module(PIECES.replace(before, after))


BARRIER = program("barrier", "%o: !tt.ptr<i32>", """
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #line>
    %zero = arith.constant 0 : i32
    %m = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #flat, #ttg.shared_memory, mutable>
    amdg.init_barrier %m, 192 : !ttg.memdesc<1xi64, #flat, #ttg.shared_memory, mutable>
    amdg.async_copy_mbarrier_arrive %m : !ttg.memdesc<1xi64, #flat, #ttg.shared_memory, mutable>
    %0 = amdg.arrive_barrier %m, 2 : !ttg.memdesc<1xi64, #flat, #ttg.shared_memory, mutable> -> i32
    amdg.wait_barrier %m, %zero : !ttg.memdesc<1xi64, #flat, #ttg.shared_memory, mutable>
    amdg.buffer_store %i, %o[%i] : tensor<64xi32, #line>""").replace("#line =", (
    "#flat = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>\n#line ="
), 1)  # fmt: skip


@pytest.mark.parametrize(
    ("arrivals", "fault"), [(192, ""), (193, "192 of 193 arrivals"), (191, "more than")]
)
def test_threads_that_arrive(arrivals: int, fault: str) -> None:
    """Each of the 64 arrives for its copies, of which there are none, and twice."""
    out, text = np.zeros(64, np.int32), BARRIER.replace("192", str(arrivals))
    with pytest.raises(EvaluationError, match=fault) if fault else nullcontext():
        run(text, Path(), [out], evaluated=True)
        np.testing.assert_array_equal(out, np.arange(64))
