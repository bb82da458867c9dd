"""Atomic operations in the PTX."""

from __future__ import annotations

import re

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import compiled, in_order, kernel_text, to_ptx
from tritium.backends.nvidia.processor import processor
from tritium.ops.parsing import parse_module
from tritium.passes import pipelines

pytestmark = pytest.mark.usefixtures("no_ptxas")


@tritium.jit
def shared_sum(p, x):
    i = tl.arange(0, 64)
    tl.atomic_add(p + i % 8, tl.load(x + i))


@pytest.mark.parametrize(("arch", "native"), [(80, False), (90, True)])
def test_sums_of_bfloat(arch: int, native: bool):
    text = compiled(shared_sum, "*bf16 *bf16", arch).asm["ptx"]
    assert ("add.noftz.bf16" in text) == native
    assert native or ".cas." in text


@pytest.mark.parametrize(
    ("kind", "element", "instruction"),
    [
        ("fadd", "f32", "atom.global.gpu.relaxed.add.f32"),
        ("max", "i32", "atom.global.gpu.relaxed.max.s32"),
        ("exch", "i32", "atom.global.gpu.relaxed.exch.b32"),
        ("umin", "i16", "atom.relaxed.gpu.global.cas.b32"),
        ("max", "i16", "atom.relaxed.gpu.global.cas.b32"),
    ],
)
def test_atomic_of_a_tile(kind: str, element: str, instruction: str):
    pointers = f"tensor<128x!tt.ptr<{element}>, #blocked>"
    tile, mask = f"tensor<128x{element}, #blocked>", "tensor<128xi1, #blocked>"
    one = "1.000000e+00" if element == "f32" else "1"
    types = f"({pointers}, {tile}, {mask}) -> {tile}"
    body = f"""
    %v = arith.constant dense<{one}> : {tile}
    %m = arith.constant dense<true> : {mask}
    %p = tt.splat %x : !tt.ptr<{element}> -> {pointers}
    %r = tt.atomic_rmw {kind}, relaxed, gpu, %p, %v, %m : {types}"""
    text = to_ptx(kernel_text(body, f"%x: !tt.ptr<{element}>"))
    assert len(re.findall(instruction, text)) == 4


@pytest.mark.covering(1)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("arch", "element", "size", "instruction", "count"),
    [
        (90, "f32", 1024, "add.v4.f32", 2),
        (90, "f16", 1024, "add.noftz.v4.f16x2", 1),
        (90, "bf16", 512, "add.noftz.v2.bf16x2", 1),
        (90, "f16", 64, "add.noftz.f16x2", 1),
        (90, "f64", 256, "add.f64", 2),
        (80, "f16", 1024, "add.noftz.f16x2", 4),
        (80, "f32", 512, "add.f32", 4),
    ],
)
def test_sums_of_neighbours_are_one_instruction(
    arch: int, element: str, size: int, instruction: str, count: int, masked: bool
):
    """Through the passes, which give neighbours to one thread where the hardware adds them at once;
    `n` is a multiple of 16, and so is the mask of 16 elements the same."""
    pointers = f"tensor<{size}x!tt.ptr<{element}>>"
    tile, mask, index = f"tensor<{size}x{element}>", f"tensor<{size}xi1>", f"tensor<{size}xi32>"
    test = f"arith.constant dense<true> : {mask}"
    if masked:
        test = f"arith.cmpi slt, %i, %ns : {index}"
    text = f"""tt.func public @k(%x: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}},
        %n: i32 {{tt.divisibility = 16 : i32}}) {{
      %i = tt.make_range {{start = 0 : i32, end = {size} : i32}} : {index}
      %ns = tt.splat %n : i32 -> {index}
      %m = {test}
      %xs = tt.splat %x : !tt.ptr<{element}> -> {pointers}
      %p = tt.addptr %xs, %i : {pointers}, {index}
      %v = arith.constant dense<1.0> : {tile}
      %r = tt.atomic_rmw fadd, relaxed, gpu, %p, %v, %m : ({pointers}, {tile}, {mask}) -> {tile}
      tt.return
    }}"""
    module = parse_module(text)
    for item in pipelines.ttgir(processor(arch), 4, 1):
        item.run(module)
    found = to_ptx(str(module), arch)
    assert found.count(f"atom.global.gpu.relaxed.{instruction} ") == count
    assert found.count("atom.") == count


def test_scalar_atomic_is_done_once_and_shared():
    body = """
    %one = arith.constant 1 : i32
    %t = arith.constant true
    %r = tt.atomic_rmw add, acq_rel, gpu, %x, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32
    tt.store %y, %r : !tt.ptr<i32>"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>"))
    in_order(text, r"bar", r"atom\.global\.gpu\.acq_rel\.add\.u32", r"st\.shared",
             r"bar", r"ld\.shared", r"st\.global")  # fmt: skip


def test_compare_and_swap():
    body = """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r = tt.atomic_cas acq_rel, gpu, %x, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32
    tt.store %y, %r : !tt.ptr<i32>"""
    text = to_ptx(kernel_text(body, "%x: !tt.ptr<i32>, %y: !tt.ptr<i32>"))
    assert re.search(r"atom\.global\.acq_rel\.gpu\.cas\.b32", text)
