"""Memory for which values stand: roots of pointers, arguments that are written."""

from __future__ import annotations

from typing import Any

from tritium.analysis.pointer_roots import PointerRoots
from tritium.analysis.writes import written_arguments
from tritium.ops.parsing import parse_module

WHILE = """tt.func public @k(%p: !tt.ptr<f32>, %s: !tt.ptr<f32>, %c: i1) {
  %r = scf.while (%q = %p) : (!tt.ptr<f32>) -> !tt.ptr<f32> {
    scf.condition(%c) %q : !tt.ptr<f32>
  } do {
  ^bb0(%a: !tt.ptr<f32>):
    scf.yield %s : !tt.ptr<f32>
  }
  %v = tt.load %r : !tt.ptr<f32>
  tt.store %s, %v : !tt.ptr<f32>
  tt.return
}"""

BLOCKS = """tt.func public @k(%p: !tt.ptr<f32>, %s: !tt.ptr<f32>, %c: i1) {
  cf.cond_br %c, ^bb1(%p : !tt.ptr<f32>), ^bb1(%s : !tt.ptr<f32>)
^bb1(%q: !tt.ptr<f32>):
  %v = tt.load %q : !tt.ptr<f32>
  tt.return
}"""

ASSEMBLY = """tt.func public @k(%p: !tt.ptr<f32>, %s: !tt.ptr<f32>, %n: i32) {
  %q = tt.addptr %p, %n : !tt.ptr<f32>, i32
  %v = tt.elementwise_inline_asm "st.global.f32 [$1], 0f00000000; mov.u32 $0, 0;" \
{constraints = "=r,l", packed_element = 1 : i32, pure = false} %q : !tt.ptr<f32> -> i32
  %w = tt.load %s : !tt.ptr<f32>
  tt.return
}"""


def function_of(text: str) -> Any:
    return parse_module(text).body.block.first_op


def roots_of_the_load(text: str) -> set[str | None]:
    function = function_of(text)
    load = next(op for op in function.walk() if op.name == "tt.load")
    return {v.name_hint for v in PointerRoots(function).of(load.ptr)}


def test_roots_through_a_while_loop():
    assert roots_of_the_load(WHILE) == {"p", "s"}


def test_roots_through_a_graph_of_blocks():
    assert roots_of_the_load(BLOCKS) == {"p", "s"}


def test_a_store_after_a_loop_that_chooses_the_pointer():
    text = WHILE.replace("tt.store %s, %v", "tt.store %r, %v")
    assert written_arguments(function_of(text)) == {0, 1}


def test_an_argument_that_is_only_loaded():
    assert written_arguments(function_of(WHILE)) == {1}


def test_assembly_with_effects_may_write_through_its_operands():
    assert written_arguments(function_of(ASSEMBLY)) == {0}
    pure = ASSEMBLY.replace("pure = false", "pure = true")
    assert written_arguments(function_of(pure)) == frozenset()
