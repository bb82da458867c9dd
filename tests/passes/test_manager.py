"""The pass manager, pipelines as text, dumps, timings, and the errors of passes."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest
from xdsl.dialects.builtin import ModuleOp

from tritium.errors import TritonError
from tritium.ir.printing import print_module
from tritium.ops.parsing import parse_module
from tritium.passes import (
    Pass,
    PassError,
    PassManager,
    dump_before,
    parse_pipeline,
    pipelines,
    registry,
    run_pipeline,
    timing_report,
)
from tritium.passes.base import pipeline_text
from tritium.passes.registry import PipelineError
from tritium.passes.ttir import CSE, Unroll

KERNEL = """
tt.func public @kernel(%x: i32, %p: !tt.ptr<i32>) {
  %a = arith.addi %x, %x : i32
  tt.store %p, %a : !tt.ptr<i32>
  tt.return
}
"""


@dataclass(frozen=True)
class Break(Pass):
    """Leaves a function without its terminator."""

    name: ClassVar[str] = "break"

    def run(self, module: ModuleOp) -> bool:
        (function,) = module.body.block.ops
        block = function.regions[0].block
        assert block.last_op is not None
        block.erase_op(block.last_op)
        return True


@dataclass(frozen=True)
class Crash(Pass):
    """Raises."""

    name: ClassVar[str] = "crash"

    def run(self, module: ModuleOp) -> bool:
        raise IndexError("tuple index out of range")


@dataclass(frozen=True)
class Counts(Pass):
    """Notes that it ran; changes the module where `times` says so."""

    times: int = 0
    name: ClassVar[str] = "counts"
    runs: ClassVar[list[int]] = []

    def run(self, module: ModuleOp) -> bool:
        self.runs.append(self.times)
        return self.runs.count(self.times) <= self.times


@dataclass(frozen=True)
class Schedules(Counts):
    """Changes nothing that analyses are about."""

    keeps_analyses: ClassVar[bool] = True


def test_a_pass_that_changed_nothing_runs_again_only_after_a_change() -> None:
    module, ran = parse_module(KERNEL), Counts.runs
    ran.clear()
    PassManager([Counts(0), Counts(0)]).run(module)
    PassManager([Counts(0)], continues=True).run(module)
    assert ran == [0]
    PassManager([Counts(0)]).run(module)  # the caller may have changed it
    assert ran == [0, 0]
    ran.clear()
    PassManager([Counts(0)]).run(module)
    copy = cast(Any, module).clone()
    assert not PassManager([Counts(0)]).run(copy) and ran == [0, 0]
    ran.clear()
    # Options make another pass, which changes the module once.
    assert PassManager([Counts(1), Counts(0), Counts(1), Counts(0)]).run(module)
    assert ran == [1, 0, 1]
    ran.clear()
    assert PassManager([Counts(0), Schedules(1), Counts(0)]).run(module) and ran == [0, 1, 0]


def test_pipeline_text_round_trips() -> None:
    passes = parse_pipeline(" canonicalize, unroll{factor=4} ,cse")
    assert passes[1:] == [Unroll(factor=4), CSE()]
    assert pipeline_text(passes) == "canonicalize,unroll{factor=4},cse"
    assert parse_pipeline("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse,nonsense", "no pass is called 'nonsense'; there are .*canonicalize.*, cse"),
        ("cse{x=1}", "pass cse has no option 'x'; it has: none"),
        ("unroll{factor=two}", "option factor is 'two'; it must be an integer"),
        ("unroll{factor=2", "cannot read the pipeline"),
    ],
)
def test_bad_pipelines(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        parse_pipeline(text)


def test_registry_describes_every_pass() -> None:
    for name, cls in registry.available().items():
        assert registry.get(name) is cls
        assert cls.__doc__ and cls.title, name
        assert not cls.__doc__.startswith(f"{cls.__name__}("), f"{name} has no docstring"
    titles = {name: registry.get(name).title for name in ("narrow-reductions", "licm")}
    assert titles == {"narrow-reductions": "NarrowReductions", "licm": "LoopInvariantCodeMotion"}


def test_a_failing_pass_is_named() -> None:
    module = parse_module(KERNEL)
    with pytest.raises(PassError, match="crash: tuple index out of range") as caught:
        PassManager([CSE(), Crash(), Unroll()]).run(module)
    assert isinstance(caught.value.__cause__, IndexError)
    assert caught.value.pipeline == "crash,unroll"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and copy.pass_name == "crash"


def test_invalid_ir_is_found_after_the_pass_that_left_it() -> None:
    with pytest.raises(PassError, match="break: left invalid IR"):
        PassManager([CSE(), Break()], verify_each=True).run(parse_module(KERNEL))


def test_dump_has_the_reference_header() -> None:
    stream = io.StringIO()
    PassManager([CSE()], before=dump_before(stream, "kernel")).run(parse_module(KERNEL))
    first, rest = stream.getvalue().split("\n", 1)
    assert first == (
        "// -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //"
    )
    assert "arith.addi" in rest
    other = io.StringIO()
    PassManager([CSE()], before=dump_before(other, "other")).run(parse_module(KERNEL))
    assert other.getvalue() == ""


def test_timings_and_hooks() -> None:
    seen: list[str] = []
    times = run_pipeline(
        parse_module(KERNEL), "canonicalize,cse", print_after=lambda p, m: seen.append(p.name)
    )
    assert [name for name, _ in times] == seen == ["canonicalize", "cse"]
    report = timing_report(times)
    assert "Execution time report" in report and "canonicalize" in report


def test_run_says_whether_anything_changed() -> None:
    module = parse_module(KERNEL)
    manager = PassManager(pipelines.ttir())
    manager.run(module)
    text = print_module(module)
    assert not manager.run(module)
    assert print_module(module) == text


def test_recursion_is_an_error_that_names_the_chain() -> None:
    text = """
    tt.func public @k() { tt.call @f() : () -> () tt.return }
    tt.func private @f() { tt.call @g() : () -> () tt.return }
    tt.func private @g() { tt.call @f() : () -> () tt.return }
    """
    with pytest.raises(TritonError, match="a kernel cannot call itself: f -> g -> f"):
        run_pipeline(parse_module(text), "inline")


def test_recursion_in_a_partition_is_an_error_too() -> None:
    """Functions that stay functions elsewhere are inlined in partitions."""
    text = """
    module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32} {
      tt.func public @k() {
        ttg.warp_specialize()
        default { ttg.warp_yield }
        partition0() num_warps(4) { tt.call @f() : () -> () ttg.warp_return } : () -> ()
        tt.return
      }
      tt.func private @f() attributes {noinline = true} { tt.call @g() : () -> () tt.return }
      tt.func private @g() attributes {noinline = true} { tt.call @f() : () -> () tt.return }
    }
    """
    with pytest.raises(TritonError, match="a kernel cannot call itself: f -> g -> f"):
        run_pipeline(parse_module(text), "inline")
