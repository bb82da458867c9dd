"""Every op is printed and parsed in both forms. `EXAMPLES` must have each op of the registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tritium.ir.printing import print_module
from tritium.ops.base import REGISTRY
from tritium.ops.dialects import load_all
from tritium.ops.parsing import ParseError, parse_module

load_all()

EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^// ---- (\S+)\n(.*?)\n(?=\n//|\Z)",
    (Path(__file__).parent / "examples.ttir").read_text(),
    re.MULTILINE | re.DOTALL,
)
"""Name of an op, and text that uses it."""

ARGUMENTS = (
    "%p: !tt.ptr<f32>, %i: i32, %j: i32, %l: i64, %f: f32, %g: f32, %c: i1, %n: index, "
    "%ti: tensor<8xi32>, %tl: tensor<8xi64>, %tf: tensor<8xf32>, %tc: tensor<8xi1>, "
    "%tp: tensor<8x!tt.ptr<f32>>, %tq: tensor<8x!tt.ptr<i32>>, %m: tensor<16x16xf16>, "
    "%acc: tensor<16x16xf32>, %h: tensor<8xf16>, %b: tensor<8xi8>, "
    "%d: !tt.tensordesc<tensor<8x16xf32>>, %r: !tt.tensordesc<tensor<1x16xf32>>, "
    "%w: tensor<8x16xf32>, %bp: !tt.ptr<tensor<8x16xf32>>, %s8: tensor<16x1xi8>, "
    "%one: tensor<1xi32>"
)

INSIDE_OTHERS = {
    "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return",
    "tt.func", "tt.return", "cf.br", "cf.cond_br",
}  # fmt: skip


def wrap(body: str) -> str:
    """A module of one function that runs `body`."""
    indented = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"module {{\n  tt.func @k({ARGUMENTS}) {{\n{indented}    tt.return\n  }}\n}}\n"


def test_every_op_has_an_example() -> None:
    # Those of `ttgir` and `gluon` have types of their own, and examples in tests/ttgir.
    ours = {
        n for n, cls in REGISTRY.items()
        if cls.__module__.startswith("tritium.ops.") and not n.startswith("ttg.")
        and cls.__module__.split(".")[2] not in ("ttgir", "gluon")
    }  # fmt: skip
    assert ours == {name for name, _ in EXAMPLES} | INSIDE_OTHERS


@pytest.mark.parametrize(("name", "body"), EXAMPLES)
def test_round_trip(name: str, body: str) -> None:
    text = wrap(body)
    module = parse_module(text)
    module.verify()
    assert print_module(module, locations=False) == text
    generic = print_module(module, locations=False, generic=True)
    assert f'"{name}"(' in generic
    again = parse_module(generic)
    again.verify()
    assert again.is_structurally_equivalent(module)
    assert print_module(again, locations=False) == text


def test_functions_and_branches() -> None:
    text = """module attributes {ttg.target = "cuda:90"} {
  tt.func private @helper(%x: f32 {tt.divisibility = 16 : i32}) -> (f32, i32) attributes {a} {
    %c1_i32 = arith.constant 1 : i32
    tt.return %x, %c1_i32 : f32, i32
  }
  tt.func public @"odd name"(%i: i32) -> i32 {
    %true = arith.constant true
    cf.cond_br %true, ^bb2(%i : i32), ^bb1
  ^bb1:  // pred: ^bb0
    cf.br ^bb2(%i : i32)
  ^bb2(%0: i32):  // 2 preds: ^bb0, ^bb1
    tt.return %0 : i32
  ^bb3:  // no predecessors
    cf.br ^bb2(%i : i32)
  }
}
""".replace("2 preds: ^bb0, ^bb1", "3 preds: ^bb0, ^bb1, ^bb3")  # fmt: skip
    module = parse_module(text)
    module.verify()
    assert print_module(module, locations=False) == text
    generic = parse_module(print_module(module, generic=True))
    assert generic.is_structurally_equivalent(module)


def test_a_value_may_be_defined_in_a_later_block() -> None:
    text = """tt.func @k(%i: i32) -> i32 {
      cf.br ^bb2
    ^bb1:
      %b = tt.splat %a : i32 -> tensor<4xi32>
      tt.return %a : i32
    ^bb2:
      %a = arith.addi %i, %i : i32
      cf.br ^bb1
    }"""
    parse_module(text).verify()


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("%0 = arith.addi %i, %nope : i32", 3, 25, "%nope is not defined"),
        ("%0 = arith.frob %i : i32", 3, 10, "arith.frob is not registered"),
        ("%0 = arith.addi %i, %j : i64", 3, 22, "arith.addi gives i32; the text says i64"),
        ("%0 = tt.load %p evictionPolicy = often : !tt.ptr<f32>", 3, 38, "often.*evict_last"),
        ("%0 = arith.extsi %l : i64 to i32", 3, 22, "the result must be wider"),
        ("%0 = arith.cmpi eq, %i, %l : i32", 3, 25, "i32, i64; they must be the same"),
        ("%0:2 = arith.addi %i, %j : i32", 3, 5, "has 1 results"),
        ("%0 = tt.store %p, %f : !tt.ptr<f32>", 3, 5, "has 0 results, but was given 1 to bind"),
        ("%0 = tt.splat %i : f32 -> tensor<8xf32>", 3, 19, "type f32"),
        ("gpu.barrier loc(#nowhere)", 3, 21, "undefined location alias '#nowhere'"),
        ("%0 = arith.constant dense<[1, 2]> : tensor<3xf32> {", 3, 54, "Shape mismatch"),
    ],
)
def test_errors_name_the_place(body: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_module(wrap(body), "k.ttir")
    error = caught.value
    assert (error.filename, error.line) == ("k.ttir", line)
    assert abs(error.column - column) <= 12, error.column
    assert str(error).startswith(f"k.ttir:{line}:{error.column}: ")
    assert str(error).split("\n")[1] == "    " + body


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("all", ""), ("none", " none"), ("local", " local"),
        ("global_write|local", " local|global_write"),
        ("local|global_read|global_write|tensor_read|tensor_write", ""),
    ],
)  # fmt: skip
def test_barriers_name_several_memories(given: str, printed: str) -> None:
    module = parse_module(wrap(f"ttg.barrier {given}"))
    module.verify()
    assert f"gpu.barrier{printed} loc" in print_module(module)


def test_the_generic_syntax_may_have_own_attributes_behind_the_regions() -> None:
    text = wrap(
        '%v = "tt.reduce"(%tf) ({\n^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y : f32\n'
        "tt.reduce.return %z : f32\n}) {axis = 0 : i32, more} : (tensor<8xf32>) -> f32"
    )
    module = parse_module(text)
    module.verify()
    reduce = next(op for op in module.walk() if op.name == "tt.reduce")
    assert list(reduce.properties) == ["axis"] and list(reduce.attributes) == ["more"]


def test_the_name_of_an_unknown_operation_is_pointed_at() -> None:
    for text, line, column in (("garbage", 1, 1), ("module {\n  %0 = tt.nonsense\n}", 2, 8)):
        with pytest.raises(ParseError, match="is not registered") as caught:
            parse_module(text + "\n")
        assert (caught.value.line, caught.value.column) == (line, column)


def test_a_location_alias_that_contains_itself_is_an_error() -> None:
    with pytest.raises(ParseError, match="is defined by itself"):
        parse_module('module {\n} loc(#loc)\n#loc = loc("x"(#loc))\n')


def test_a_broken_location_alias_is_reported_at_its_definition() -> None:
    with pytest.raises(ParseError, match="callsite") as caught:
        parse_module('module {\n} loc(#loc1)\n#loc1 = loc(callsite("a" under "b"))\n')
    assert caught.value.line == 3
