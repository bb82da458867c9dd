"""`tile-schedule`: what it writes, what emission makes of it, and which schedules are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel
from tests.cpu.test_reference_native import NOT_NATIVE
from tests.ir.test_reference_runs import CASES, REFERENCE
from tools.tile_programs.schedules import RandomSchedules
from tritium._filecheck import run_filecheck
from tritium.analysis.axis_info import AxisAnalysis
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.lower.module import lower_to_llvm
from tritium.backends.cpu.lower.nests import loops
from tritium.backends.cpu.processors import processor
from tritium.backends.cpu.tiles import schedule
from tritium.backends.cpu.tiles.build import lower_to_tiles
from tritium.ir.printing import print_module
from tritium.native.host import host
from tritium.ops.parsing import parse_module
from tritium.ops.tile import NestOp

ROWS = """
tt.func public @rows(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32>) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %r = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
  %c = tt.expand_dims %i {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %n = arith.constant dense<64> : tensor<64x1xi32>
  %m = arith.constant dense<64> : tensor<1x64xi32>
  %rn = arith.muli %r, %n : tensor<64x1xi32>
  %cn = arith.muli %c, %m : tensor<1x64xi32>
  %rb = tt.broadcast %rn : tensor<64x1xi32> -> tensor<64x64xi32>
  %cb = tt.broadcast %c : tensor<1x64xi32> -> tensor<64x64xi32>
  %rt = tt.broadcast %r : tensor<64x1xi32> -> tensor<64x64xi32>
  %ct = tt.broadcast %cn : tensor<1x64xi32> -> tensor<64x64xi32>
  %a = arith.addi %rb, %cb : tensor<64x64xi32>
  %t = arith.addi %rt, %ct : tensor<64x64xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %a : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
  %pt = tt.addptr %ps, %t : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
  %x = tt.load LOADED : tensor<64x64x!tt.ptr<f32>>
  %s = "tt.reduce"(%x) <{axis = AXIS : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<64x64xf32>) -> tensor<64xf32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %qi = tt.addptr %qs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %qi, %s : tensor<64x!tt.ptr<f32>>
  %qt = tt.splat %q : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
  %qa = tt.addptr %qt, STORED : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
  tt.store %qa, %x : tensor<64x64x!tt.ptr<f32>>
  tt.return
}
"""


def rows(loaded: str, axis: int, stored: str) -> ModuleOp:
    text = ROWS.replace("LOADED", loaded).replace("AXIS", str(axis)).replace("STORED", stored)
    return parse_module(text)


@pytest.mark.parametrize(
    ("loaded", "axis", "stored", "arch", "checks"),
    [
        (
            "%pa", 1, "%a", "skylake-avx512",
            """
            CHECK: tile.nest [64, 64] along 1 lane 1 width 16 unroll 4
            CHECK-NEXT: "tt.reduce"
            CHECK: tile.nest [64] lane 0 width 16 unroll 4
            CHECK-NEXT: tt.store
            CHECK: tile.nest [64, 64] lane 1 width 16 unroll 4
            """,
        ),
        (
            "%pa", 0, "%a", "haswell",
            """
            CHECK: tile.nest [64, 64] along 0 lane 1 width 8 unroll 4
            CHECK: tile.nest [64] lane 0 width 8 unroll 4
            """,
        ),
        (  # stores are consecutive along the first dimension, reads of the buffer along the last
            "%pt", 0, "%t", "haswell",
            """
            CHECK: tile.nest [64, 64] along 0
            CHECK: tile.nest [64, 64] lane 0 width 8 unroll 1 block 1
            """,
        ),
    ],
)  # fmt: skip
def test_schedules_in_text(loaded: str, axis: int, stored: str, arch: str, checks: str) -> None:
    module = lower_to_tiles(rows(loaded, axis, stored), processor(arch))
    run_filecheck("rows", print_module(module), checks)


DEEP = """
tt.func public @deep(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
  %n = arith.constant dense<STRIDE> : tensor<256xi32>
  %a = arith.muli %i, %n : tensor<256xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %a : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %x = tt.load %pa : tensor<256x!tt.ptr<f32>>
  %y = math.exp %x : tensor<256xf32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %qa = tt.addptr %qs, %i : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  tt.store %qa, %y : tensor<256x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.parametrize(
    ("stride", "arch", "shape"),
    [
        (1, "haswell", "width 32 unroll 1"), (1, "skylake-avx512", "width 32 unroll 2"),
        (3, "haswell", "width 8 unroll 4"),
    ],
)  # fmt: skip
def test_long_functions_are_computed_of_several_registers(
    stride: int, arch: str, shape: str
) -> None:
    module = parse_module(DEEP.replace("STRIDE", str(stride)))
    text = print_module(lower_to_tiles(module, processor(arch)))
    run_filecheck("deep", text, f"CHECK: tile.nest [256] lane 0 {shape}")
    x = np.linspace(-20, 5, 256 * stride).astype(np.float32)
    out = np.empty(256, np.float32)
    Kernel(module).run((x, out))
    np.testing.assert_allclose(out, np.exp(x[::stride]), rtol=4e-7)


@pytest.mark.parametrize(
    ("type", "arch", "shape"),
    [("i8", "haswell", "width 32 unroll 1"), ("i16", "haswell", "width 16 unroll 2"),
     ("i8", "cortex-a76", "width 16 unroll 1"), ("i8", "skylake-avx512", "width 16 unroll 4"),
     ("i32", "haswell", "width 8 unroll 4")],
)  # fmt: skip
def test_short_elements_are_stored_by_registers(type: str, arch: str, shape: str) -> None:
    """Not in parts of a register, each of which takes a store."""
    head, tail = DEEP.replace("STRIDE", "1").split("  %y = math.exp %x : tensor<256xf32>\n")
    head = head.replace("%q: !tt.ptr<f32>", f"%q: !tt.ptr<{type}>")
    cast = f"  %y = arith.fptosi %x : tensor<256xf32> to tensor<256x{type}>\n"
    module = parse_module(head + cast + tail.replace("f32", type))
    text = print_module(lower_to_tiles(module, processor(arch)))
    run_filecheck("short", text, f"CHECK: tile.nest [256] lane 0 {shape}")


TURNED = """
tt.func public @turned(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %r = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
  %c = tt.expand_dims %i {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %n = arith.constant dense<32> : tensor<32x1xi32>
  %rn = arith.muli %r, %n : tensor<32x1xi32>
  %rb = tt.broadcast %rn : tensor<32x1xi32> -> tensor<32x32xi32>
  %cb = tt.broadcast %c : tensor<1x32xi32> -> tensor<32x32xi32>
  %a = arith.addi %rb, %cb : tensor<32x32xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %a : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  %x = tt.load %pa : tensor<32x32x!tt.ptr<f32>>
  %y = tt.trans %x {order = array<i32: 1, 0>} : tensor<32x32xf32> -> tensor<32x32xf32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %qa = tt.addptr %qs, %a : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  tt.store %qa, %y : tensor<32x32x!tt.ptr<f32>>
  tt.return
}
"""


def test_blocks_in_text() -> None:
    module = lower_to_tiles(parse_module(TURNED), processor("skylake-avx512"))
    check = "CHECK: tile.nest [32, 32] lane 1 width 16 unroll 1 block 0"
    run_filecheck("turned", print_module(module), check)


class Rescheduled:
    """A kernel of the corpus with other schedules and fewer versions, compiled; called like the
    evaluated one."""

    def __init__(self, name: str, seed: int):
        module = parse_module((REFERENCE / f"{name}.ttir").read_text())
        for op in module.body.block.ops:
            op.properties.pop("arg_attrs", None)  # as in `test_reference_native`
        tiles = lower_to_tiles(module, host())
        before = lower_to_llvm(tiles, host())[0]
        RandomSchedules(seed).run(tiles)
        again = parse_module(print_module(tiles))
        self.kernel = Kernel(again, tiles=lambda *_: again)
        self.differs = self.kernel.llir != before

    def __call__(self, *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
        fault = self.kernel.run(arguments, grid)
        assert not fault.raised


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_kernels_run_by_other_schedules(half: int) -> None:
    differ = 0
    for number, name in enumerate(sorted(set(CASES) - set(NOT_NATIVE))[half::2]):
        kernel = Rescheduled(name, number)
        differ += kernel.differs
        CASES[name](kernel)
    assert differ > 7


def test_facts_about_addresses_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[AxisAnalysis, Any]] = []
    find = AxisAnalysis._op
    monkeypatch.setattr(AxisAnalysis, "_op", lambda *a: (found.append(a), find(*a))[1])
    chosen: list[Any] = []
    choose = schedule.choose
    for module in (schedule, loops):
        monkeypatch.setattr(module, "choose", lambda *a: (chosen.append(a), choose(*a))[1])
    text = print_module(rows("%pa", 1, "%a"))
    last = next(line for line in text.splitlines() if "tt.store" in line and "64x64" in line)
    tiles = lower_to_tiles(parse_module(text.replace(last, "")), host())
    lower_to_llvm(tiles, host())
    assert len(chosen) == sum(isinstance(op, NestOp) for op in tiles.walk()) == 2
    assert found and len(found) == len(set(found))
    # of addresses, for the schedules, and of numbers that may wrap around
    assert len({analysis for analysis, _ in found}) == 2


@tritium.jit
def softmax(p, o, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(p + i)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o + i, e / tl.sum(e, 0))


def edited(tmp_path: Path, change: Callable[[str], str]) -> Any:
    x = np.ones(256, np.float32)
    kernel = softmax.warmup(x, x.copy(), N=256, grid=(1,), arch="skylake-avx512")
    file = tmp_path / "softmax.tile"
    file.write_text(change(kernel.asm["tile"]))
    return tritium.compile(str(file), target=GPUTarget("cpu", "skylake-avx512", 1)).asm["llir"]


def test_an_edited_schedule_is_what_is_emitted(tmp_path: Path) -> None:
    as_chosen = edited(tmp_path, lambda text: text)
    narrow = edited(tmp_path, lambda text: text.replace("width 16 unroll 4", "width 4 unroll 2"))
    assert "= load <16 x float>" in as_chosen and "= load <4 x float>" not in as_chosen
    assert "= load <4 x float>" in narrow and "= load <16 x float>" not in narrow


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("lane 0 width 16 unroll 0", "0 chunks of 16 lanes do not divide 256"),
        ("lane 0 width 0 unroll 1", "1 chunks of 0 lanes do not divide 256"),
        ("lane 0 width 16 unroll 32", "32 chunks of 16 lanes do not divide 256"),
        ("lane 0 width 3 unroll 1", "1 chunks of 3 lanes do not divide 256"),
        ("lane 1 width 16 unroll 4", "no dimension 1 for the lanes"),
        ("lane 0 width 16", "not all"),
        ("lane 0 width 16 unroll 1 block 0", "cannot transpose blocks along 0"),
        ("lane 0 width 16 unroll 1 block 1", "cannot transpose blocks along 1"),
        ("", r"\[256\] has no lane"),
    ],
)
def test_schedules_that_are_refused(tmp_path: Path, schedule: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edited(tmp_path, lambda text: text.replace("lane 0 width 16 unroll 4", schedule))


def test_two_buffers_of_one_name_are_refused(tmp_path: Path) -> None:
    def twice(text: str) -> str:
        lines = text.splitlines()
        number = next(n for n, line in enumerate(lines) if "tile.buffer @" in line)
        return "\n".join([*lines[:number], lines[number], *lines[number:]])

    with pytest.raises(ValueError, match=r"two of tile\.buffer @"):
        edited(tmp_path, twice)
