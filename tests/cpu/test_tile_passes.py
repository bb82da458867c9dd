"""The tile stage's passes run as all others do: named, dumped, timed, verified."""

from __future__ import annotations

import io

import pytest
from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.tiles.build import PASSES
from tritium.backends.cpu.tiles.ir import Nest
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.ops.parsing import parse_module
from tritium.passes import PassError, PassManager, dump_before
from tritium.passes.base import Pass, pipeline_text

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


def test_each_pass_is_dumped_and_timed() -> None:
    stream, program = io.StringIO(), TileProgram.of(parse_module(KERNEL))
    manager = PassManager(PASSES, verify_each=True, before=dump_before(stream, "kernel"))
    manager.run(program)
    names = [item.name for item in PASSES]
    assert pipeline_text(PASSES) == ",".join(names)
    assert [name for name, _ in manager.timings] == names
    first, *others = stream.getvalue().split("// -----// IR Dump Before ")[1:]
    assert [text.split("(")[1].split(")")[0] for text in (first, *others)] == names
    assert "loops [64]" not in first.split("// ops")[0] and "tt.reduce" in first
    fused, kept, protected = (text.split("// ops")[0] for text in others)
    assert fused.count("loops [64]") == 2 and "y.0" not in fused
    assert "y.0 <- %y" in kept and "buffer" not in protected
    assert "buffer y.0: 64xf32 at 0" in str(program)


class Reorder(Pass[TileProgram]):
    """Swaps two steps."""

    name = "reorder"

    def run(self, module: TileProgram) -> bool:
        module.kernel.blocks[0].steps.reverse()
        return True


class Widen(Pass[TileProgram]):
    """Changes the domain of a nest without that of its roots."""

    name = "widen"

    def run(self, module: TileProgram) -> bool:
        nests = [step for step in module.kernel.blocks[0].steps if isinstance(step, Nest)]
        nests[0].domain = (128,)
        return True


class Shrink(Pass[TileProgram]):
    """Makes a buffer too small."""

    name = "shrink"

    def run(self, module: TileProgram) -> bool:
        module.kernel.all_buffers[0].shape = (32,)
        return True


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Reorder(), "reorder: left invalid IR: steps are not in order"),
        (Widen(), r"widen: left invalid IR: .* in loops over \(128,\) runs over \(64,\)"),
        (Shrink(), r"shrink: left invalid IR: copy in loops over \(64,\) fills buffers of .*32"),
    ],
)
def test_a_program_that_a_pass_breaks_is_found(fault: Pass[TileProgram], message: str) -> None:
    program = TileProgram.of(parse_module(KERNEL))
    with pytest.raises(PassError, match=message):
        PassManager([*PASSES, fault], verify_each=True).run(program)


def test_a_module_has_one_kernel() -> None:
    module: ModuleOp = parse_module(KERNEL + KERNEL.replace("@kernel", "@other"))
    with pytest.raises(ValueError, match="one public function, the kernel; found: kernel, other"):
        TileProgram.of(module)
