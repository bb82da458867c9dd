"""The tile stage's passes run as all others do: named, dumped, timed, verified, replayed."""

from __future__ import annotations

import io

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.cpu.support import run_reference
from tests.cpu.tile_semantics import TileEvaluator
from tests.ir.test_reference_runs import CASES, REFERENCE, Kernel
from tritium.backends.cpu.processors import processor
from tritium.backends.cpu.tiles.build import passes
from tritium.backends.cpu.tiles.ir import kernel_of
from tritium.ir import types as ir
from tritium.ir.printing import print_module
from tritium.native.host import host
from tritium.ops.fields import i32_array
from tritium.ops.parsing import parse_module
from tritium.ops.tile import BufferOp, NestOp
from tritium.passes import PassError, PassManager, dump_before, pipelines, run_pipeline
from tritium.passes.base import Pass, pipeline_text

PASSES = passes(host())

KERNEL = """
tt.func public @kernel(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %pi = tt.addptr %ps, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %qi = tt.addptr %qs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %x = tt.load %pi : tensor<64x!tt.ptr<f32>>
  %y = math.exp %x : tensor<64xf32>
  %m = "tt.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tt.reduce.return %s : f32
  }) : (tensor<64xf32>) -> f32
  %ms = tt.splat %m : f32 -> tensor<64xf32>
  %z = arith.divf %y, %ms : tensor<64xf32>
  tt.store %qi, %z : tensor<64x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.parametrize("name", ["native", "x86-64", "haswell", "skylake-avx512", "neoverse-n1"])
def test_each_pass_is_dumped_and_timed(name: str) -> None:
    stream, module, stage = io.StringIO(), parse_module(KERNEL), passes(processor(name))
    manager = PassManager(stage, verify_each=True, before=dump_before(stream, "kernel"))
    manager.run(module)
    names = [item.name for item in stage]
    assert [text.partition("{")[0] for text in pipeline_text(stage).split(",")] == names
    assert [name for name, _ in manager.timings] == names
    first, *others = stream.getvalue().split("// -----// IR Dump Before ")[1:]
    assert [text.split("(")[1].split(")")[0] for text in (first, *others)] == names
    assert "tile.nest" not in first and "tt.reduce" in first
    fused, kept, _, allocated, scheduled, versioned, _ = others
    assert fused.count("tile.nest [64]") == 2 and "y.0" not in fused
    assert "tile.copy %y to @y.0 {keeps}" in kept and "offset" not in kept
    assert "tile.buffer @y.0 {offset = 0 : i32} : tensor<64xf32>" in allocated
    assert " lane 0 width " in scheduled and " lane " not in allocated
    assert "versions [streaming]" in versioned and "versions" not in scheduled


@pytest.mark.parametrize("count", range(len(PASSES) + 1))
def test_each_pass_goes_on_from_text(count: int) -> None:
    """Running some passes, reading what they print, and running the others is the same."""
    whole, part = parse_module(KERNEL), parse_module(KERNEL)
    PassManager(PASSES).run(whole)
    run_pipeline(part, pipeline_text(PASSES[:count]))
    again = parse_module(print_module(part))
    run_pipeline(again, pipeline_text(PASSES[count:]))
    assert print_module(again) == print_module(whole)


class TileKernel(Kernel):
    """A kernel after some passes of the stage."""

    evaluator = TileEvaluator

    def __init__(self, module: ModuleOp):
        self.module, self.printed = module, []


@pytest.mark.covering(1)
@pytest.mark.parametrize("count", range(1, len(PASSES) + 1))
@pytest.mark.parametrize("name", CASES)
def test_each_pass_keeps_the_meaning(name: str, count: int) -> None:
    module = parse_module((REFERENCE / f"{name}.ttir").read_text())
    PassManager([*pipelines.tiles(), *PASSES[:count]], verify_each=True).run(module)
    CASES[name](TileKernel(module))


TURNED = """
tt.func public @turned(%p: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %pi = tt.addptr %ps, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = tt.load %pi : tensor<16x!tt.ptr<f32>>
  %y = arith.addf %x, %x : tensor<16xf32>
  %a, %b = scf.for %k = %c0 to %n step %c1 iter_args(%u = %x, %v = %y)
      -> (tensor<16xf32>, tensor<16xf32>) : i32 {
    %m = tt.reshape %u : tensor<16xf32> -> tensor<4x4xf32>
    %t = tt.trans %m {order = array<i32: 1, 0>} : tensor<4x4xf32> -> tensor<4x4xf32>
    %w = tt.reshape %t : tensor<4x4xf32> -> tensor<16xf32>
    %z = arith.addf %v, %w : tensor<16xf32>
    scf.yield %z, %w : tensor<16xf32>, tensor<16xf32>
  }
  %d = arith.subf %a, %b : tensor<16xf32>
  tt.store %pi, %d : tensor<16x!tt.ptr<f32>>
  tt.return
}
"""

LATE = """
tt.func public @late(%p: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %c15 = arith.constant dense<15> : tensor<16xi32>
  %j = arith.subi %c15, %i : tensor<16xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %pi = tt.addptr %ps, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %pj = tt.addptr %ps, %j : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %x = tt.load %pi : tensor<16x!tt.ptr<f32>>
  %y = tt.load %pj : tensor<16x!tt.ptr<f32>>
  tt.store %pi, %y : tensor<16x!tt.ptr<f32>>
  %z = tt.load %pj : tensor<16x!tt.ptr<f32>>
  %s = arith.addf %x, %z : tensor<16xf32>
  tt.store %pj, %s : tensor<16x!tt.ptr<f32>>
  tt.return
}
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("count", range(1, len(PASSES) + 1))
@pytest.mark.parametrize("text", [TURNED, LATE], ids=["carried", "delayed loads"])
def test_each_pass_keeps_the_order_of_reads_and_writes(text: str, count: int) -> None:
    expected = np.arange(16, dtype=np.float32) ** 2
    run_reference(text, [expected, 3])
    assert len(set(expected)) > 8
    tiles = parse_module(text)
    PassManager(PASSES[:count], verify_each=True).run(tiles)
    found = np.arange(16, dtype=np.float32) ** 2
    # `tile-protect-carried` is what keeps loops from reading the new tiles.
    if (text, count) in ((TURNED, 1), (TURNED, 2)):
        TileKernel(tiles)(found, 3)
        assert not np.array_equal(found, expected)
    elif (text, count) != (LATE, 1):  # as `tile-materialize` keeps stores from coming first
        TileKernel(tiles)(found, 3)
        np.testing.assert_array_equal(found, expected)


def nests(module: ModuleOp) -> list[NestOp]:
    return [op for op in module.walk() if isinstance(op, NestOp)]


class Reorder(Pass):
    """Puts a nest before what it uses."""

    name = "reorder"

    def run(self, module: ModuleOp) -> bool:
        first, *_, last = nests(module)
        last.detach()
        kernel_of(module).body.insert_op_before(last, first)
        return True


class Widen(Pass):
    """Changes the domain of a nest without that of its roots."""

    name = "widen"

    def run(self, module: ModuleOp) -> bool:
        nests(module)[0].properties["domain"] = i32_array((128,))
        return True


class Shrink(Pass):
    """Makes a buffer too small."""

    name = "shrink"

    def run(self, module: ModuleOp) -> bool:
        (buffer,) = (op for op in module.walk() if isinstance(op, BufferOp))
        smaller = BufferOp.build(sym_name=buffer.sym_name, tile=ir.tensor_of((32,), ir.f32))
        kernel_of(module).body.insert_op_before(smaller, buffer)
        buffer.detach()
        return True


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Reorder(), "reorder: left invalid IR: tile.nest comes before the arith.divf it uses"),
        (Widen(), r"widen: left invalid IR: .* in a nest over \(128,\) runs over \(64,\)"),
        (Shrink(), r"shrink: left invalid IR: tile.copy of tensor<64xf32> to @y.0 of .*\(32,\)"),
    ],
)
def test_a_program_that_a_pass_breaks_is_found(fault: Pass, message: str) -> None:
    with pytest.raises(PassError, match=message):
        PassManager([*PASSES, fault], verify_each=True).run(parse_module(KERNEL))


def test_a_module_has_one_kernel() -> None:
    module = parse_module(KERNEL + KERNEL.replace("@kernel", "@other"))
    with pytest.raises(ValueError, match="one public function, the kernel; found: kernel, other"):
        kernel_of(module)
