"""Which registers of tiles are computed."""

from __future__ import annotations

import re

from tests.nvidia.support import KERNELS, kernel_text, lowered
from tritium.analysis.axis_info import AxisAnalysis
from tritium.backends.nvidia.lower.registrations import hardware
from tritium.codegen.gpu.context import UNUSED
from tritium.codegen.gpu.demand import Demand
from tritium.ops.parsing import parse_module

T, P, F = (f"tensor<1024x{e}, #blocked>" for e in ("i32", "!tt.ptr<f32>", "f32"))


def masks_of(text: str) -> dict[str, int]:
    """The demands of a kernel's values, by name."""
    module = parse_module(text)
    module.verify()
    function = next(op for op in module.walk() if op.name == "tt.func")
    facts = AxisAnalysis(function).of
    demand = Demand(facts, facts, hardware(90)).find(list(function.regions[0].blocks))
    values = [r for op in function.walk() for r in op.results]
    values += [a for op in function.walk() for region in op.regions
               for block in region.blocks for a in block.args]  # fmt: skip
    return {v.name_hint: demand.of(v) for v in values if v.name_hint}


def looped(divisible: bool, extra: str = "") -> str:
    """Add up tiles of 1024 floats, 8 a thread, that a carried tile of pointers goes along."""
    hint = " {tt.divisibility = 16 : i32}" if divisible else ""
    body = f"""
    %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
    %s = tt.splat %x : !tt.ptr<f32> -> {P}
    %p = tt.addptr %s, %r : {P}, {T}
    %step = arith.constant dense<1024> : {T}
    %zero = arith.constant dense<0.0> : {F}
    %lo = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sum, %end = scf.for %i = %lo to %n step %one iter_args(%acc = %zero, %q = %p) -> ({F}, {P}) : i32 {{
      %v = tt.load %q : {P}
      %next = arith.addf %acc, %v : {F}
      %moved = tt.addptr %q, %step : {P}, {T}
      scf.yield %next, %moved : {F}, {P}
    }}
    %d = tt.splat %o : !tt.ptr<f32> -> {P}
    %w = tt.addptr %d, %r : {P}, {T}
    tt.store %w, %sum : {P}{extra}"""  # noqa: E501
    return kernel_text(body, f"%x: !tt.ptr<f32>{hint}, %o: !tt.ptr<f32>{hint}, %n: i32")


def test_one_address_for_each_wide_access():
    masks = masks_of(looped(divisible=True))
    firsts = 0b00010001  # of two groups of four
    assert [masks[name] for name in ("p", "q", "moved", "w", "r")] == [firsts] * 5
    assert all(masks[name] & 0xFF == 0xFF for name in ("v", "acc", "next"))


def test_tiles_that_loops_hand_to_each_other():
    """What is needed of a tile carried for another one is needed of what becomes it, whatever the
    order of the two."""
    for order in ("%a, %b, %c", "%c, %a, %b"):
        first = order.split(", ")
        following = {"%a": "%moved", "%b": "%a", "%c": "%b"}
        inits = ", ".join(f"{name} = %r" for name in first)
        ends = ", ".join(following[name] for name in first)
        types = ", ".join(["tensor<1024xi32, #blocked>"] * 3)
        body = f"""
        %r = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {T}
        %lo = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %results:3 = scf.for %i = %lo to %n step %one iter_args({inits}) -> ({types}) : i32 {{
          %v = tt.splat %i : i32 -> {T}
          %moved = arith.addi %v, %r : {T}
          scf.yield {ends} : {types}
        }}
        %d = tt.splat %o : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #blocked>
        %w = tt.addptr %d, %r : tensor<1024x!tt.ptr<i32>, #blocked>, {T}
        tt.store %w, %results#{first.index("%c")} : tensor<1024x!tt.ptr<i32>, #blocked>"""
        masks = masks_of(kernel_text(body, "%o: !tt.ptr<i32>, %n: i32"))
        assert masks["c"] and masks["a"] == masks["b"] == masks["c"] == masks["moved"], order


def test_all_addresses_of_narrow_accesses():
    masks = masks_of(looped(divisible=False))
    assert all(masks[name] & 0xFF == 0xFF for name in ("p", "q", "moved", "w"))


def test_the_loop_carries_what_is_used_alone():
    for divisible, count in ((True, 2), (False, 8)):
        text, _ = lowered(looped(divisible))
        loop = text[text.index("loop1:") : text.index("exit2:")]
        assert len(re.findall(r"phi ptr addrspace\(1\)", loop)) == count
        assert len(re.findall("phi float", loop)) == 8


def test_a_result_after_the_loop_counts():
    """The end of the pointers is stored: all eight are needed."""
    extra = f"\n    %e = tt.ptr_to_int %end : {P} -> tensor<1024xi64, #blocked>\n" \
            f"    %k = tt.splat %o2 : !tt.ptr<i64> -> tensor<1024x!tt.ptr<i64>, #blocked>\n" \
            f"    %k2 = tt.addptr %k, %r : tensor<1024x!tt.ptr<i64>, #blocked>, {T}\n" \
            f"    tt.store %k2, %e : tensor<1024x!tt.ptr<i64>, #blocked>"  # fmt: skip
    text = looped(True, extra).replace("%n: i32)", "%n: i32, %o2: !tt.ptr<i64>)")
    assert masks_of(text)["q"] & 0xFF == 0xFF


def test_nothing_unused_is_named():
    for path in sorted(KERNELS.glob("*.ttgir")):
        assert str(UNUSED) not in lowered(path.read_text())[0], path.name
