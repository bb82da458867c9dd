"""Kernel arguments that overlap: every load of a tile comes before the stores that follow it."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel, run_reference

SIZE = 256
TILE = f"tensor<{SIZE}x"


def elementwise(kind: str = "i32") -> str:
    """`y[i] = x[i] + 1`; `total[0] = sum(x)`, in one nest."""
    return f"""
    tt.func public @kernel(%x: !tt.ptr<{kind}>, %y: !tt.ptr<{kind}>, %total: !tt.ptr<{kind}>) {{
      %r = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : {TILE}i32>
      %one = arith.constant dense<1> : {TILE}{kind}>
      %xs = tt.splat %x : !tt.ptr<{kind}> -> {TILE}!tt.ptr<{kind}>>
      %xa = tt.addptr %xs, %r : {TILE}!tt.ptr<{kind}>>, {TILE}i32>
      %ys = tt.splat %y : !tt.ptr<{kind}> -> {TILE}!tt.ptr<{kind}>>
      %ya = tt.addptr %ys, %r : {TILE}!tt.ptr<{kind}>>, {TILE}i32>
      %v = tt.load %xa : {TILE}!tt.ptr<{kind}>>
      %w = arith.addi %v, %one : {TILE}{kind}>
      tt.store %ya, %w : {TILE}!tt.ptr<{kind}>>
      %s = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: {kind}, %b: {kind}):
        %n = arith.addi %a, %b : {kind}
        tt.reduce.return %n : {kind}
      }}) : ({TILE}{kind}>) -> {kind}
      tt.store %total, %s : !tt.ptr<{kind}>
      tt.return
    }}
    """


@pytest.mark.covering(1)
@pytest.mark.parametrize("shift", [0, 1, 3, 16, 100, SIZE - 1, SIZE, 2 * SIZE])
@pytest.mark.parametrize("forward", [False, True])
def test_a_shifted_view(shift: int, forward: bool) -> None:
    kernel, results = Kernel(elementwise()), list[np.ndarray]()
    for run in (kernel.run, lambda a: run_reference(elementwise(), a)):
        memory = np.arange(4 * SIZE, dtype=np.int32) ** 2
        total = np.zeros(1, np.int32)
        first, second = memory[SIZE:], memory[SIZE + (shift if forward else -shift) :]
        run([first, second, total])
        results += [memory, total]
    np.testing.assert_array_equal(results[0], results[2])
    assert results[1] == results[3]


def two_dimensional() -> str:
    """`y[i * n + j] = x[i * m + j]` for a tile [16, 32]; `n` and `m` are arguments."""
    tile = "tensor<16x32x"

    def at(name: str, stride: str) -> str:
        return f"""
      %s{name} = tt.splat %{stride} : i32 -> tensor<16x1xi32>
      %r{name} = arith.muli %i, %s{name} : tensor<16x1xi32>
      %q{name} = tt.broadcast %r{name} : tensor<16x1xi32> -> {tile}i32>
      %o{name} = arith.addi %q{name}, %jb : {tile}i32>
      %p{name} = tt.splat %{name} : !tt.ptr<f32> -> {tile}!tt.ptr<f32>>
      %a{name} = tt.addptr %p{name}, %o{name} : {tile}!tt.ptr<f32>>, {tile}i32>"""

    return f"""
    tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %m: i32, %n: i32) {{
      %ir = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
      %i = tt.expand_dims %ir {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
      %jr = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32>
      %j = tt.expand_dims %jr {{axis = 0 : i32}} : tensor<32xi32> -> tensor<1x32xi32>
      %jb = tt.broadcast %j : tensor<1x32xi32> -> {tile}i32>{at("x", "m")}{at("y", "n")}
      %v = tt.load %ax : {tile}!tt.ptr<f32>>
      tt.store %ay, %v : {tile}!tt.ptr<f32>>
      tt.return
    }}
    """


@pytest.mark.covering(1)
@pytest.mark.parametrize("strides", [(32, 32), (40, 40), (40, 48), (48, 40), (-40, 40), (-40, -40)])
@pytest.mark.parametrize("shift", [0, 1, -1, 40, -40, 2000, -2000])
def test_rows(strides: tuple[int, int], shift: int) -> None:
    text, results = two_dimensional(), list[np.ndarray]()
    for run in (Kernel(text).run, lambda a: run_reference(text, a)):
        memory = np.arange(8192, dtype=np.float32)
        run([memory[4000:], memory[4000 + shift :], *strides])
        results.append(memory)
    np.testing.assert_array_equal(*results)


def test_equal_addresses_within_a_tile() -> None:
    """Loads come first also where several elements of a tile are at one address."""
    text = f"""
    tt.func public @kernel(%x: !tt.ptr<i32>) {{
      %r = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : {TILE}i32>
      %four = arith.constant dense<4> : {TILE}i32>
      %q = arith.remsi %r, %four : {TILE}i32>
      %s = tt.splat %x : !tt.ptr<i32> -> {TILE}!tt.ptr<i32>>
      %a = tt.addptr %s, %q : {TILE}!tt.ptr<i32>>, {TILE}i32>
      %v = tt.load %a : {TILE}!tt.ptr<i32>>
      %w = arith.addi %v, %four : {TILE}i32>
      tt.store %a, %w : {TILE}!tt.ptr<i32>>
      tt.return
    }}
    """
    x = np.arange(4, dtype=np.int32)
    Kernel(text).run([x])
    assert x.tolist() == [4, 5, 6, 7]


def test_atomics_come_after_the_loads_of_what_they_add() -> None:
    text = f"""
    tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {{
      %r = tt.make_range {{end = {SIZE} : i32, start = 0 : i32}} : {TILE}i32>
      %xs = tt.splat %x : !tt.ptr<i32> -> {TILE}!tt.ptr<i32>>
      %xa = tt.addptr %xs, %r : {TILE}!tt.ptr<i32>>, {TILE}i32>
      %ys = tt.splat %y : !tt.ptr<i32> -> {TILE}!tt.ptr<i32>>
      %ya = tt.addptr %ys, %r : {TILE}!tt.ptr<i32>>, {TILE}i32>
      %v = tt.load %xa : {TILE}!tt.ptr<i32>>
      %old = tt.atomic_rmw add, acq_rel, gpu, %ya, %v :
        ({TILE}!tt.ptr<i32>>, {TILE}i32>) -> {TILE}i32>
      tt.return
    }}
    """
    memory = np.arange(SIZE + 1, dtype=np.int32)
    expected = memory.copy()
    expected[1:] += memory[:-1]
    Kernel(text).run([memory, memory[1:]])
    np.testing.assert_array_equal(memory, expected)


def test_reading_back_what_was_stored() -> None:
    """A load that follows a store sees it, one that comes before does not."""
    text = elementwise().replace(
        "%s = ", f"%again = tt.load %xa : {TILE}!tt.ptr<i32>>\n%s = "
    ).replace('"tt.reduce"(%v)', '"tt.reduce"(%again)').replace("tt.store %ya", "tt.store %xa")
    x, y, total = np.zeros(SIZE, np.int32), np.zeros(SIZE, np.int32), np.zeros(1, np.int32)
    Kernel(text).run([x, y, total])
    assert total[0] == SIZE and (x == 1).all()


@tritium.jit
def compares(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at) > tl.load(y + at))


@pytest.mark.parametrize("offset", [None, -64, 0, 1, 3, 64, 255])
def test_booleans_over_bytes(offset: int | None) -> None:
    """Booleans are stored as bytes, through pointers that are given another type: in one nest with
    the loads, unless what is stored overlaps what is still to be read."""
    memory = np.random.default_rng(0).integers(-3, 3, 4 * SIZE).astype(np.int8)
    expected = memory[SIZE : 2 * SIZE] > 0
    zeros = np.zeros(SIZE, np.int8)
    out = np.zeros(SIZE, bool)
    if offset is not None:
        out = memory[SIZE + offset : 2 * SIZE + offset].view(bool)
    kernel = compares[(1,)](memory[SIZE:], zeros, out, SIZE)
    np.testing.assert_array_equal(out, expected)
    assert "tile.buffer" not in kernel.asm["tile"]
