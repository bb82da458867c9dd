"""`tile-plan-products`: plans that products get, what emission makes of them, refused ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel
from tests.cpu.test_tile_passes import PASSES, TileKernel
from tools.tile_programs.schedules import RandomSchedules
from tritium._filecheck import run_filecheck
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.dot import Host, View, make_plan
from tritium.backends.cpu.dot.operand import FLOAT16
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.codegen.llvm.writer import Value
from tritium.ir.printing import print_module
from tritium.native.host import host
from tritium.ops.parsing import parse_module
from tritium.passes import PassManager, pipelines

pytestmark = pytest.mark.cpu

TYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "int8": np.int8}


@tritium.jit
def looped(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr
):  # fmt: skip
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), OUT)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + (k + depth)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc, out_dtype=OUT, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@tritium.jit
def masked(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr
):  # fmt: skip
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), OUT)
    used = rows[:, None] < tl.num_programs(0)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + depth)[None, :], mask=used, other=0)
        b = tl.load(b_ptr + (k + depth)[:, None] * N + columns[None, :])
        acc = tl.dot(a, b, acc, out_dtype=OUT, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=used)


@tritium.jit
def once(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr
):  # fmt: skip
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    a = tl.load(a_ptr + rows[:, None] * K + depth[None, :])
    b = tl.load(b_ptr + depth[:, None] * N + columns[None, :])
    acc = tl.dot(a + a, b, out_dtype=OUT, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@tritium.jit
def batched(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr
):  # fmt: skip
    at, rows = tl.arange(0, 2), tl.arange(0, M)
    columns, depth = tl.arange(0, N), tl.arange(0, BK)
    of_a = (at * M * BK)[:, None, None] + rows[None, :, None] * BK + depth[None, None, :]
    of_b = (at * BK * N)[:, None, None] + depth[None, :, None] * N + columns[None, None, :]
    acc = tl.dot(tl.load(a_ptr + of_a), tl.load(b_ptr + of_b), out_dtype=OUT)
    of_c = (at * M * N)[:, None, None] + rows[None, :, None] * N + columns[None, None, :]
    tl.store(c_ptr + of_c, acc)


Shape = tuple[int, int, int]


def kernel_of(source: Any, type: str, shape: Shape, arch: str = "cooperlake") -> Any:
    m, n, k = shape
    a, b = np.ones((2, m, 4 * k), TYPES[type]), np.ones((2, 4 * k, n), TYPES[type])
    out = tl.int32 if type == "int8" else tl.float32
    c = np.zeros((2, m, n), np.int32 if type == "int8" else np.float32)
    return source.warmup(a, b, c, 4 * k, m, n, k, OUT=out, grid=(1,), arch=arch)


def plan_of(text: str) -> str:
    (plan,) = re.findall(r"tile.plan = #tile.plan<(.*?)>", text)
    return plan


FMA = "fma rows 6 vectors 4 lanes 16 unroll 1"


@pytest.mark.parametrize(
    ("source", "type", "shape", "arch", "plan"),
    [
        (looped, "fp32", (64, 64, 32), "cooperlake", f"{FMA} loop 16 keep [b] room 524288"),
        (looped, "fp32", (64, 64, 32), "haswell",
         "fma rows 6 vectors 2 lanes 8 unroll 1 loop 16 keep [b] room 524288"),
        (looped, "fp32", (1, 128, 64), "cooperlake",
         "fma rows 1 vectors 8 lanes 16 unroll 1 loop 4 keep [b] room 524288"),
        (looped, "fp32", (64, 1, 64), "cooperlake",
         "fma rows 1 vectors 4 lanes 16 unroll 2 pack [b] loop 8 keep [b] room 524288 transposed"),
        (looped, "bf16", (64, 64, 32), "cooperlake",
         "bf16 rows 6 vectors 4 lanes 16 unroll 1 pack [b] loop 32 keep [b] room 524288"),
        (looped, "bf16", (64, 64, 32), "haswell",
         "fma rows 6 vectors 2 lanes 8 unroll 1 pack [a, b] loop 16 keep [a, b] room 524288"),
        (looped, "int8", (64, 64, 64), "sapphirerapids",
         "amx_int8 rows 32 vectors 2 lanes 16 unroll 1 pack [a, b] loop 32 keep [a, b] "
         "room 524288"),
        (masked, "fp32", (16, 64, 32), "cooperlake",
         "fma rows 4 vectors 4 lanes 16 unroll 1 loop 16 keep [b] room 524288 used_rows"),
        (once, "fp32", (64, 64, 32), "cooperlake", FMA),
        (once, "fp32", (64, 64, 32), "haswell", "fma rows 6 vectors 2 lanes 8 unroll 2"),
        (once, "fp32", (64, 64, 1), "haswell", "fma rows 6 vectors 2 lanes 8 unroll 1"),
        (batched, "fp32", (16, 16, 16), "cortex-a76", "fma rows 6 vectors 4 lanes 4 unroll 1"),
    ],
)  # fmt: skip
def test_plans_in_text(source: Any, type: str, shape: Shape, arch: str, plan: str) -> None:
    tiles = kernel_of(source, type, shape, arch).asm["tile"]
    run_filecheck("plans", tiles, f"CHECK: tt.dot {{{{.+}}}}tile.plan = #tile.plan<{plan}>")
    assert plan_of(print_module(parse_module(tiles))) == plan


@pytest.mark.parametrize(("element", "small", "large"), [("float", 8, 16), (FLOAT16, 8, 8)])
def test_sweeps_over_operands_in_place_are_longer_in_a_large_second_cache(
    element: str, small: int, large: int
) -> None:
    a, b = (View(element, Value("ptr", f"%{name}"), 4096, 1) for name in "ab")
    host = Host.read("512x32+fma+half+madd")
    for l2, loop in ((512 << 10, small), (1 << 20, large)):
        assert make_plan(host, a, b, "float", (64, 64, 64), l2=l2).together == loop


def data(type: str, shape: Shape) -> tuple[list[Any], np.ndarray]:
    """Arguments of `looped` for four iterations, and what it computes."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, s).astype(TYPES[type]) for s in ((m, 4 * k), (4 * k, n)))
    c = np.zeros((m, n), np.int32 if type == "int8" else np.float32)
    return [a, b, c, 4 * k], a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("type", TYPES)
def test_the_pass_keeps_the_meaning(type: str) -> None:
    module = parse_module(kernel_of(looped, type, (8, 16, 16)).asm["ttir"])
    passes = [*pipelines.tiles(), *PASSES]
    for count in (-1, len(passes)):
        tiles = parse_module(print_module(module))
        PassManager(passes[:count], verify_each=True).run(tiles)
        assert ("tile.plan" in print_module(tiles)) == (count > 0)
        arguments, wanted = data(type, (8, 16, 16))
        TileKernel(tiles)(*arguments)
        np.testing.assert_array_equal(arguments[2], wanted)


def replan(text: str, change: Callable[[str], str]) -> str:
    """A text of the tile stage with another plan."""
    old = plan_of(text)
    new = change(old)
    assert new != old
    return text.replace(f"<{old}>", f"<{new}>")


def emitted(file: Path, text: str, arch: str = "cooperlake") -> str:
    file.write_text(text)
    return tritium.compile(str(file), target=GPUTarget("cpu", arch, 1)).asm["llir"]


@pytest.mark.parametrize(("rows", "tests"), [(6, True), (8, False)])
def test_rows_in_few_sets_of_the_cache_are_copied_for_three_blocks_and_more(
    tmp_path: Path, rows: int, tests: bool
) -> None:
    """Two blocks of rows read B where it is; for more of them its step is tested, which may leave
    the second cache so few sets that it is copied."""
    tiles = kernel_of(looped, "fp32", (16, 64, 32)).asm["tile"]
    changed = tiles if rows == 6 else replan(tiles, lambda p: p.replace("rows 6", f"rows {rows}"))
    text = emitted(tmp_path / "k.tile", changed)
    assert ("= sub i64 0, 256\n" in text) is tests  # for the lowest bit of B's step


@pytest.mark.parametrize(
    ("type", "old", "new", "mark"),
    [
        ("fp32", "rows 6", "rows 3", "@llvm.fma.v64f32("),
        ("fp32", "vectors 4", "vectors 2", "@llvm.fma.v32f32("),
        ("fp32", "unroll 1", "unroll 4", "@llvm.fma.v64f32("),
        ("fp32", "unroll 1", "unroll 1 prefetch 16", "call void @llvm.prefetch"),
        ("fp32", "loop 16", "loop 2", "i64 2)"),
        ("fp32", " loop 16 keep [b] room 524288", "", "at.once"),
        ("fp32", "keep [b] room 524288", "", "%kept"),
        ("fp32", "unroll 1 loop", "unroll 1 pack [a, b] loop", "select i1"),
        ("bf16", "bf16 ", "fma ", "@llvm.x86.avx512bf16.dpbf16ps.512("),
    ],
)  # fmt: skip
def test_an_edited_plan_is_what_is_emitted(
    tmp_path: Path, type: str, old: str, new: str, mark: str
) -> None:
    """Emission writes `mark` as often as the plan says, which is not as often as before."""
    tiles = kernel_of(looped, type, (64, 64, 32)).asm["tile"]
    changed = replan(tiles, lambda plan: plan.replace(old, new))
    before, after = (emitted(tmp_path / "k.tile", text) for text in (tiles, changed))
    assert before.count(mark) != after.count(mark)


@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", [(64, 64, 32), (16, 128, 64), (64, 1, 16), (1, 64, 32)])
@pytest.mark.parametrize("type", TYPES)
def test_kernels_run_by_any_plan(type: str, shape: Shape) -> None:
    ttir = kernel_of(looped, type, shape, arch="native").asm["ttir"]
    plans = set[str]()
    for seed in range(6):
        tiles = lower_to_tiles(parse_module(ttir), host())
        RandomSchedules(seed).run(tiles)
        text = print_module(tiles)
        plans.add(plan_of(text))
        module = parse_module(text)
        arguments, wanted = data(type, shape)
        Kernel(module, tiles=lambda *_, module=module: module).run(arguments)
        np.testing.assert_array_equal(arguments[2], wanted, plan_of(text))
    assert len(plans) > 1


@pytest.mark.parametrize(
    ("type", "old", "new", "message"),
    [
        ("fp32", "fma", "mma", "method mma; one of fma, bf16, madd, vnni"),
        ("fp32", "fma", "bf16", "a is not in pack, and bf16 cannot read it where it is"),
        ("fp32", "rows 6", "rows 65", "rows 65; 1 to 64 are allowed"),
        ("fp32", "rows 6", "rows 0", "rows 0; 1 to 64 are allowed"),
        ("fp32", "vectors 4", "vectors 3", "vectors 3 of 16 lanes do not divide 64 columns"),
        ("fp32", "lanes 16", "lanes 0", "vectors 4 of 0 lanes do not divide 64 columns"),
        ("fp32", "unroll 1", "unroll 3", "unroll 3 steps of 1 along K do not divide 32"),
        ("fp32", "keep [b]", "keep [a]", "keep a, which is not packed"),
        ("fp32", "keep [b]", "keep [b, b]", r"operands \[b, b\]; some of a, b are allowed"),
        ("fp32", "keep [b]", "keep [c]", r"operands \[c\]; some of a, b are allowed"),
        ("fp32", "loop 16 ", "", r"keep b, .* cannot use; some of \[\] are allowed"),
        ("fp32", "room 524288", "room 8", "room 8; 262144 bytes or more are needed to keep b"),
        ("fp32", "room 524288", "room 524288 used_rows", "used_rows, though all rows are used"),
        ("fp32", "room 524288", "room 524288 transposed", "transposed, with 64 columns; 1 is"),
        ("bf16", "lanes 16", "lanes 2", "lanes 2; bf16 has 4, 8 or 16"),
        ("bf16", "unroll 1", "unroll 1 prefetch 8", "prefetch, though B is packed"),
        ("bf16", "pack [b] ", "", "b is not in pack, and bf16 cannot read it where it is"),
        ("bf16", "bf16", "amx_bf16", "rows 6; AMX takes multiples of 16 that divide 64"),
        ("bf16", "bf16 rows 6", "amx_bf16 rows 32", "8 accumulators; AMX has 4"),
    ],
)
def test_plans_that_are_refused(
    tmp_path: Path, type: str, old: str, new: str, message: str
) -> None:
    tiles = kernel_of(looped, type, (64, 64, 32)).asm["tile"]
    with pytest.raises((ValueError, tritium.TritonError), match=message):
        emitted(tmp_path / "k.tile", replan(tiles, lambda plan: plan.replace(old, new)))


def test_a_loop_that_does_more_cannot_be_planned(tmp_path: Path) -> None:
    tiles = kernel_of(once, "fp32", (64, 64, 32)).asm["tile"]
    with pytest.raises(ValueError, match="loop, though no loop only adds up this product"):
        emitted(tmp_path / "k.tile", replan(tiles, lambda plan: f"{plan} loop 4"))


def test_a_product_has_a_plan(tmp_path: Path) -> None:
    tiles = kernel_of(once, "fp32", (64, 64, 32)).asm["tile"]
    without = re.sub(r"tile.plan = #tile.plan<.*?>(, )?", "", tiles)
    with pytest.raises(ValueError, match=r"tt\.dot has no tile\.plan"):
        emitted(tmp_path / "k.tile", without)


@pytest.mark.parametrize(
    ("type", "arch", "message"),
    [("bf16", "haswell", "bf16; this processor and these types allow fma"),
     ("fp32", "haswell", "16 lanes; a vector of this processor has 8"),
     ("int8", "sapphirerapids", None)],
)  # fmt: skip
def test_a_plan_for_another_processor(
    tmp_path: Path, type: str, arch: str, message: str | None
) -> None:
    tiles = kernel_of(looped, type, (64, 64, 32)).asm["tile"]
    if message is None:  # it has all instructions of the other one
        assert "vpdpbusd" in emitted(tmp_path / "k.tile", tiles, arch)
        return
    with pytest.raises(ValueError, match=message):
        emitted(tmp_path / "k.tile", tiles, arch)


@tritium.jit
def masked_near(a_ptr, b_ptr, c_ptr, n, K: tl.constexpr, OUT: tl.constexpr):
    rows, columns, depth = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, 64)
    used = rows[:, None] < n
    acc = tl.zeros((16, 32), OUT)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + rows[:, None] * K + (k + depth)[None, :], mask=used, other=0)
        b = tl.load(b_ptr + (k + depth)[:, None] * 32 + columns[None, :])
        acc = tl.dot(a, b, acc, out_dtype=OUT)
    tl.store(c_ptr + rows[:, None] * 32 + columns[None, :], acc, mask=used)


@pytest.mark.parametrize(("type", "out", "wanted"), [
    ("bf16", tl.float32, "tdpbf16ps"), ("int8", tl.int32, "tdpbssd"),
])  # fmt: skip
def test_masked_rows_for_registers_of_rows(type: str, out: tl.dtype, wanted: str) -> None:
    """AMX reads rows that are a fixed number of bytes apart: masked ones, of which all behind the
    last are read as that one, are copied."""
    x = np.zeros(32 * 256, TYPES[type])
    kernel = masked_near.warmup(
        x, x, np.zeros(512, np.float32 if type == "bf16" else np.int32), 9, K=256, OUT=out,
        grid=(1,), arch="sapphirerapids",
    )  # fmt: skip
    assert "used_rows" in kernel.asm["tile"] and wanted in kernel.asm["llir"]
