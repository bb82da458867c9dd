"""The ops of nested regions, and what classes of ops say of all of theirs."""

from __future__ import annotations

from tritium.analysis.regions import functions, is_removable, only_computes, ops_around, ops_in
from tritium.ops.base import REGISTRY
from tritium.ops.parsing import parse_module
from tritium.ops.scf import ForOp
from tritium.ops.terminators import RegionEnd
from tritium.ops.ttir.memory import LoadOp

NESTED = """
module {
  tt.func public @k(%n: i32, %c: i1) {
    %z = arith.constant 0 : i32
    scf.for %i = %z to %n step %n : i32 {
      %x = arith.addi %i, %n : i32
      scf.for %j = %z to %x step %n : i32 {
        %y = arith.addi %j, %n : i32
      }
      scf.if %c {
        %y = arith.addi %i, %n : i32
      }
    }
    scf.for %i = %z to %n step %n : i32 {
      %x = arith.addi %i, %n : i32
    }
    tt.return
  }
}
"""


def test_ops_of_nested_regions() -> None:
    module = parse_module(NESTED)
    (function,) = functions(module)
    inner_first = [op for op in module.walk(region_first=True) if op.regions]
    assert [id(op) for op in ops_around(module)] == [id(op) for op in inner_first]
    everything = [op for op in function.walk() if op is not function]
    assert [id(op) for op in ops_in(function.regions[0].blocks)] == [id(op) for op in everything]
    assert sum(isinstance(op, ForOp) for op in ops_around(function)) == 3


def test_classes_of_ops_without_effects() -> None:
    assert only_computes(REGISTRY["arith.addi"])
    assert not only_computes(LoadOp) and not only_computes(RegionEnd)
    assert not only_computes(REGISTRY["gpu.barrier"]) and not only_computes(REGISTRY["tt.func"])
    (function,) = functions(parse_module(NESTED))
    found = [op for op in function.walk() if not op.regions and only_computes(op.__class__)]
    assert len(found) == 5 and all(map(is_removable, found))
