"""Every op is printed and parsed in both forms. `EXAMPLES` must have each op of the registry."""

from __future__ import annotations

import pytest

from tritium.ir.context import load_all
from tritium.ir.parsing import ParseError, parse_module
from tritium.ir.printing import print_module
from tritium.ops.base import REGISTRY

load_all()

ARGUMENTS = (
    "%p: !tt.ptr<f32>, %i: i32, %j: i32, %l: i64, %f: f32, %g: f32, %c: i1, %n: index, "
    "%ti: tensor<8xi32>, %tl: tensor<8xi64>, %tf: tensor<8xf32>, %tc: tensor<8xi1>, "
    "%tp: tensor<8x!tt.ptr<f32>>, %tq: tensor<8x!tt.ptr<i32>>, %m: tensor<16x16xf16>, "
    "%acc: tensor<16x16xf32>, %h: tensor<8xf16>, %b: tensor<8xi8>, "
    "%d: !tt.tensordesc<tensor<8x16xf32>>, %r: !tt.tensordesc<tensor<1x16xf32>>, "
    "%w: tensor<8x16xf32>, %bp: !tt.ptr<tensor<8x16xf32>>, %s8: tensor<16x1xi8>, %one: tensor<1xi32>"
)  # fmt: skip

BINARY_INTEGER = ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "andi", "ori", "xori", "shli", "shrsi", "shrui", "minsi", "maxsi", "minui", "maxui"]
BINARY_FLOAT = ["addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "minnumf", "maxnumf"]
UNARY_MATH = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sqrt", "rsqrt", "erf", "absf", "ceil", "floor", "trunc", "roundeven"]

EXAMPLES: dict[str, list[str]] = {
    **{f"arith.{n}": [f"%0 = arith.{n} %i, %j : i32", f"%0 = arith.{n} %ti, %ti : tensor<8xi32>"]
       for n in BINARY_INTEGER},
    **{f"arith.{n}": [f"%0 = arith.{n} %f, %g : f32",
                      f"%0 = arith.{n} %tf, %tf fastmath<nnan, ninf> : tensor<8xf32>"]
       for n in BINARY_FLOAT},
    **{f"math.{n}": [f"%0 = math.{n} %tf : tensor<8xf32>", f"%0 = math.{n} %f fastmath<fast> : f32"]
       for n in UNARY_MATH},
    "arith.constant": [
        "%c3_i32 = arith.constant 3 : i32", "%true = arith.constant true",
        "%cst = arith.constant dense<1.500000e+00> : tensor<4xf32>",
        "%cst = arith.constant dense<[1, -2]> : tensor<2xi64>",
        "%cst = arith.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>",
        "%cst = arith.constant 0x7F800000 : f32", "%cst = arith.constant -1.250000e-01 : bf16",
        "%cst = arith.constant dense<0xFC00> : tensor<2xf16>",
        "%cst = arith.constant dense<[0x7F, 2.000000e+00]> : tensor<2xf8E4M3FN>",
        "%c-1_i64 = arith.constant {tt.x = 1 : i32} -1 : i64", "%c5 = arith.constant 5 : index",
    ],
    "arith.negf": ["%0 = arith.negf %f : f32"],
    "arith.cmpi": ["%0 = arith.cmpi ult, %ti, %ti : tensor<8xi32>"],
    "arith.cmpf": ["%0 = arith.cmpf une, %f, %g fastmath<nnan> : f32"],
    "arith.select": ["%0 = arith.select %c, %tf, %tf : tensor<8xf32>",
                     "%0 = arith.select %tc, %tf, %tf : tensor<8xi1>, tensor<8xf32>"],
    "arith.extsi": ["%0 = arith.extsi %i : i32 to i64"],
    "arith.extui": ["%0 = arith.extui %tc : tensor<8xi1> to tensor<8xi32>"],
    "arith.trunci": ["%0 = arith.trunci %i : i32 to i8"],
    "arith.extf": ["%0 = arith.extf %h : tensor<8xf16> to tensor<8xf32>"],
    "arith.truncf": ["%0 = arith.truncf %f : f32 to bf16",
                     "%0 = arith.truncf %f toward_zero fastmath<fast> {a = 1 : i32} : f32 to f16"],
    "arith.sitofp": ["%0 = arith.sitofp %i : i32 to f32"],
    "arith.uitofp": ["%0 = arith.uitofp %i : i32 to f64"],
    "arith.fptosi": ["%0 = arith.fptosi %f : f32 to i8"],
    "arith.fptoui": ["%0 = arith.fptoui %f : f32 to i32"],
    "arith.bitcast": ["%0 = arith.bitcast %f : f32 to i32"],
    "arith.index_cast": ["%0 = arith.index_cast %i : i32 to index"],
    "math.absi": ["%0 = math.absi %i : i32"],
    "math.fma": ["%0 = math.fma %tf, %tf, %tf : tensor<8xf32>"],
    "ub.poison": ["%0 = ub.poison : tensor<8xf32>"],
    "cf.assert": ['cf.assert %c, "why"'],
    "gpu.barrier": ["gpu.barrier"],
    "llvm.intr.assume": ["llvm.intr.assume %c : i1"],
    "scf.for": [
        "scf.for %k = %i to %j step %i  : i32 {\n}",
        "scf.for unsigned %k = %i to %j step %i  : i32 {\n} {tt.flatten, tt.num_stages = 3 : i32}",
        "%0:2 = scf.for %k = %n to %n step %n iter_args(%x = %f, %y = %i) -> (f32, i32) {\n"
        "  scf.yield %x, %y : f32, i32\n}",
    ],
    "scf.if": ["scf.if %c {\n}", "scf.if %c {\n} else {\n  gpu.barrier\n}",
               "%0 = scf.if %c -> (f32) {\n  scf.yield %f : f32\n} else {\n"
               "  scf.yield %g : f32\n}"],
    "scf.while": [
        "%0 = scf.while (%x = %i) : (i32) -> f32 {\n  scf.condition(%c) %f : f32\n} do {\n"
        "^bb0(%y: f32):\n  scf.yield %j : i32\n}",
        "scf.while : () -> () {\n  scf.condition(%c)\n} do {\n  scf.yield\n} attributes {a = 1 : i32}",
    ],
    "tt.call": ["tt.call @f() : () -> ()", '%0:2 = tt.call @"a b"(%i, %f) : (i32, f32) -> (i32, f32)'],
    "tt.get_program_id": ["%0 = tt.get_program_id y : i32"],
    "tt.get_num_programs": ["%0 = tt.get_num_programs z : i32"],
    "tt.make_range": ["%0 = tt.make_range {end = 16 : i32, start = 8 : i32} : tensor<8xi32>"],
    "tt.splat": ["%0 = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>"],
    "tt.unsplat": ["%0 = tt.unsplat %one : tensor<1xi32>"],
    "tt.broadcast": ["%0 = tt.broadcast %one : tensor<1xi32> -> tensor<4xi32>"],
    "tt.expand_dims": ["%0 = tt.expand_dims %ti {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>"],
    "tt.reshape": ["%0 = tt.reshape %tf : tensor<8xf32> -> tensor<2x4xf32>",
                   "%0 = tt.reshape %tf allow_reorder efficient_layout : tensor<8xf32> -> tensor<8xf32>"],
    "tt.trans": ["%0 = tt.trans %w {order = array<i32: 1, 0>} : tensor<8x16xf32> -> tensor<16x8xf32>"],
    "tt.join": ["%0 = tt.join %tf, %tf : tensor<8xf32> -> tensor<8x2xf32>"],
    "tt.split": ["%0 = tt.join %tf, %tf : tensor<8xf32> -> tensor<8x2xf32>\n"
                 "%outLHS, %outRHS = tt.split %0 : tensor<8x2xf32> -> tensor<8xf32>"],
    "tt.cat": ["%0 = tt.cat %tf, %tf : tensor<8xf32> -> tensor<16xf32>"],
    "tt.gather": ["%0 = tt.gather %tf[%ti] {axis = 0 : i32} : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>",
                  "%0 = tt.gather %tf[%ti] efficient_layout {axis = 0 : i32} : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>"],
    "tt.histogram": ["%0 = tt.histogram %ti : tensor<8xi32> -> tensor<4xi32>",
                     "%0 = tt.histogram %ti, %tc : tensor<8xi32> -> tensor<4xi32>"],
    "tt.addptr": ["%0 = tt.addptr %tp, %tl : tensor<8x!tt.ptr<f32>>, tensor<8xi64>"],
    "tt.load": [
        "%0 = tt.load %p : !tt.ptr<f32>",
        "%0 = tt.load %tp, %tc, %tf cacheModifier = ca evictionPolicy = evict_first "
        "{isVolatile = true} : tensor<8x!tt.ptr<f32>>",
        "%0 = tt.load %bp {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<8x16xf32>>",
    ],
    "tt.store": ["tt.store %p, %f : !tt.ptr<f32>",
                 "tt.store %tp, %tf, %tc cacheModifier = wt evictionPolicy = evict_last : tensor<8x!tt.ptr<f32>>",
                 "tt.store %bp, %w {boundaryCheck = array<i32: 1>} : !tt.ptr<tensor<8x16xf32>>"],
    "tt.make_tensor_ptr": ["%0 = tt.make_tensor_ptr %p, [%l, %l], [%l, %l], [%i, %j] {order = array<i32: 1, 0>} : <tensor<8x16xf32>>"],
    "tt.advance": ["%0 = tt.advance %bp, [%i, %j] : <tensor<8x16xf32>>"],
    "tt.make_tensor_descriptor": ["%0 = tt.make_tensor_descriptor %p, [%i, %j], [%l, %l] : <f32>, <tensor<8x16xf32>>",
                                  "%0 = tt.make_tensor_descriptor %p, [%i], [%l] {padding = 2 : i32} : <f32>, <tensor<16xf32>>"],
    "tt.descriptor_load": ["%0 = tt.descriptor_load %d[%i, %j] : !tt.tensordesc<tensor<8x16xf32>> -> tensor<8x16xf32>",
                           "%0 = tt.descriptor_load %r[%i, %j] cacheModifier = cg evictionPolicy = evict_first : !tt.tensordesc<tensor<1x16xf32>> -> tensor<16xf32>"],
    "tt.descriptor_store": ["tt.descriptor_store %d[%i, %j], %w : !tt.tensordesc<tensor<8x16xf32>>, tensor<8x16xf32>"],
    "tt.descriptor_gather": ["%0 = tt.descriptor_gather %r[%ti, %j] : (!tt.tensordesc<tensor<1x16xf32>>, tensor<8xi32>, i32) -> tensor<8x16xf32>"],
    "tt.descriptor_scatter": ["tt.descriptor_scatter %r[%ti, %j], %w : !tt.tensordesc<tensor<1x16xf32>>, tensor<8xi32>, i32, tensor<8x16xf32>"],
    "tt.descriptor_reduce": ["tt.descriptor_reduce max, %d[%i, %j], %w : !tt.tensordesc<tensor<8x16xf32>>, tensor<8x16xf32>"],
    "tt.atomic_rmw": ["%0 = tt.atomic_rmw fadd, acq_rel, gpu, %tp, %tf, %tc : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>",
                      "%0 = tt.atomic_rmw exch, relaxed, sys, %tq, %ti : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>"],
    "tt.atomic_cas": ["%0 = tt.atomic_cas acquire, cta, %tq, %ti, %ti : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>"],
    "tt.dot": ["%0 = tt.dot %m, %m, %acc : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>",
               "%0 = tt.dot %m, %m, %acc, inputPrecision = tf32 {maxNumImpreciseAcc = 32 : i32} : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>"],
    "tt.dot_scaled": ["%0 = tt.dot_scaled %m, %m scale %s8, %acc lhs = fp16 rhs = fp16 {fastMath = true} : tensor<16x16xf16> * tensor<16x16xf16>, tensor<16x1xi8> -> tensor<16x16xf32>"],
    "tt.fp_to_fp": ["%0 = tt.fp_to_fp %tf, rounding = rtz : tensor<8xf32> -> tensor<8xf8E5M2>",
                    "%0 = tt.fp_to_fp %h : tensor<8xf16> -> tensor<8xf32>"],
    "tt.bitcast": ["%0 = tt.bitcast %tp : tensor<8x!tt.ptr<f32>> -> tensor<8x!tt.ptr<i32>>"],
    "tt.ptr_to_int": ["%0 = tt.ptr_to_int %tp : tensor<8x!tt.ptr<f32>> -> tensor<8xi64>"],
    "tt.int_to_ptr": ["%0 = tt.int_to_ptr %l : i64 -> !tt.ptr<f16>"],
    "tt.clampf": ["%0 = tt.clampf %f, %f, %g, propagateNan = all : f32"],
    "tt.precise_sqrt": ["%0 = tt.precise_sqrt %f : f32"],
    "tt.precise_divf": ["%0 = tt.precise_divf %f, %g : f32"],
    "tt.mulhiui": ["%0 = tt.mulhiui %i, %j : i32"],
    "tt.print": ['tt.print "stop" {hex = false, isSigned = array<i32>}',
                 'tt.print " x: " {hex = true, isSigned = array<i32: 1, 0>} : %i, %tf : i32, tensor<8xf32>'],
    "tt.assert": ['tt.assert %tc, "a \\22quote\\22" : tensor<8xi1>'],
    "tt.extern_elementwise": ['%0 = tt.extern_elementwise %tf, %tf {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>'],
    "tt.elementwise_inline_asm": ['%0:2 = tt.elementwise_inline_asm "nop;" {constraints = "=r,=r,r", packed_element = 2 : i32, pure = false} %ti : tensor<8xi32> -> tensor<8xi32>, tensor<8xi32>',
                                  '%0 = tt.elementwise_inline_asm "clock;" {constraints = "=r", packed_element = 1 : i32, pure = false} -> i32'],
    "tt.reduce": ['%0 = "tt.reduce"(%tf) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n  %1 = arith.addf %x, %y : f32\n'
                  '  tt.reduce.return %1 : f32\n}) : (tensor<8xf32>) -> f32'],
    "tt.scan": ['%0 = "tt.scan"(%w) <{axis = 1 : i32, reverse = true}> ({\n^bb0(%x: f32, %y: f32):\n'
                '  tt.scan.return %y : f32\n}) : (tensor<8x16xf32>) -> tensor<8x16xf32>'],
    "tt.map_elementwise": ['%0 = "tt.map_elementwise"(%tf) <{pack = 2 : i32}> ({\n^bb0(%x: f32, %y: f32):\n'
                           '  tt.map_elementwise.return %y, %x : f32, f32\n}) : (tensor<8xf32>) -> tensor<8xf32>'],
}  # fmt: skip
for integer in ("addi", "subi", "muli", "shli"):
    EXAMPLES[f"arith.{integer}"].append(f"%0 = arith.{integer} %i, %j overflow<nsw, nuw> : i32")

INSIDE_OTHERS = {
    "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return",
    "tt.func", "tt.return", "cf.br", "cf.cond_br",
}  # fmt: skip


def wrap(body: str) -> str:
    """A module of one function that runs `body`."""
    indented = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"module {{\n  tt.func @k({ARGUMENTS}) {{\n{indented}    tt.return\n  }}\n}}\n"


def test_every_op_has_an_example() -> None:
    ours = {n for n, cls in REGISTRY.items() if cls.__module__.startswith("tritium.ops.")}
    assert ours == set(EXAMPLES) | INSIDE_OTHERS


@pytest.mark.parametrize(
    ("name", "body"), [(n, b) for n, bodies in EXAMPLES.items() for b in bodies]
)
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
  tt.func private @helper(%x: f32 {tt.divisibility = 16 : i32}) -> (f32, i32) attributes {noinline = true} {
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
        ("%0 = tt.load %p evictionPolicy = sometimes : !tt.ptr<f32>", 3, 38, "sometimes.*evict_last"),
        ("%0 = arith.extsi %l : i64 to i32", 3, 22, "the result must be wider"),
        ("%0 = arith.cmpi eq, %i, %l : i32", 3, 25, "i32, i64; they must be the same"),
        ("%0:2 = arith.addi %i, %j : i32", 3, 5, "has 1 results"),
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


def test_a_location_alias_that_contains_itself_is_an_error() -> None:
    with pytest.raises(ParseError, match="is defined by itself"):
        parse_module('module {\n} loc(#loc)\n#loc = loc("x"(#loc))\n')


def test_a_broken_location_alias_is_reported_at_its_definition() -> None:
    with pytest.raises(ParseError, match="callsite") as caught:
        parse_module("module {\n} loc(#loc1)\n#loc1 = loc(callsite unknown)\n".replace(
            "callsite unknown", 'callsite("a" under "b")'))
    assert caught.value.line == 3
