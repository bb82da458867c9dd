"""Nests with many arguments, any two of which may overlap (`lower/nests/overlap.py`)."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu

SIZE, BLOCK = 200, 256


@tritium.jit
def all_loaded_first(ins, outs, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = ()
    for k in tl.static_range(len(ins)):
        values = (*values, tl.load(ins[k] + i, mask=i < n, other=0))
    for k in tl.static_range(len(outs)):
        tl.store(outs[k] + i, values[k] * 2 + values[0], mask=i < n)


@tritium.jit
def straight_and_reversed(ins, outs, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(ins[0] + i, mask=i < n, other=0)
    y = tl.load(ins[0] + i, mask=i < n, other=1)
    tl.store(outs[0] + i, x + tl.flip(y, 0), mask=i < n)


def places(count: int, where: str) -> tuple[list[int], list[int]]:
    """Where the inputs and the outputs begin in one array of floats."""
    ins, outs = [k * SIZE for k in range(count)], [(count + k) * SIZE for k in range(count)]
    if where == "in place":  # the first input, which all need, among them
        outs = ins[:]
    elif where == "shifted":
        outs[count // 2] = ins[count // 3] + 5
    elif where == "twice":
        outs[-1] = outs[0] + 3
    elif where == "others in place":
        outs = [*ins[1:], ins[0]]
    return ins, outs


@pytest.mark.covering(1)
@pytest.mark.parametrize("count", [2, 12])
@pytest.mark.parametrize("where", ["apart", "in place", "shifted", "twice", "others in place"])
def test_stores_come_after_all_loads(count: int, where: str) -> None:
    ins, outs = places(count, where)
    memory = np.random.default_rng(0).standard_normal(2 * count * SIZE + BLOCK).astype(np.float32)
    expected, loaded = memory.copy(), [memory[a : a + SIZE].copy() for a in ins]
    for at, value in zip(outs, loaded, strict=True):
        expected[at : at + SIZE] = value * 2 + loaded[0]
    arrays = (tuple(memory[a:] for a in places) for places in (ins, outs))
    all_loaded_first[(1,)](*arrays, SIZE, BLOCK=BLOCK)
    np.testing.assert_array_equal(memory, expected)


@tritium.jit
def all_loaded_first_of_a_table(table, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(table).to(tl.pointer_type(tl.float32))
    b = tl.load(table + 1).to(tl.pointer_type(tl.float32))
    c = tl.load(table + 2).to(tl.pointer_type(tl.float32))
    d = tl.load(table + 3).to(tl.pointer_type(tl.float32))
    x, y = tl.load(a + i, mask=i < n, other=0), tl.load(b + i, mask=i < n, other=0)
    tl.store(c + i, x * 2 + x, mask=i < n)
    tl.store(d + i, y * 2 + x, mask=i < n)


@pytest.mark.parametrize("where", ["apart", "in place", "shifted", "twice", "others in place"])
def test_addresses_from_a_table(where: str) -> None:
    """One nest has all of it: nothing is kept in a buffer for the case that they overlap."""
    ins, outs = places(2, where)
    memory = np.random.default_rng(0).standard_normal(4 * SIZE + BLOCK).astype(np.float32)
    expected, loaded = memory.copy(), [memory[a : a + SIZE].copy() for a in ins]
    for at, value in zip(outs, loaded, strict=True):
        expected[at : at + SIZE] = value * 2 + loaded[0]
    table = memory.ctypes.data + 4 * np.array([*ins, *outs], dtype=np.int64)
    made = all_loaded_first_of_a_table[(1,)](table, SIZE, BLOCK=BLOCK)
    np.testing.assert_array_equal(memory, expected)
    assert made.asm["tile"].count("tile.nest") == 1


def test_a_tile_loaded_twice_in_two_orders() -> None:
    memory = np.arange(BLOCK, dtype=np.float32)
    expected = memory + memory[::-1]
    straight_and_reversed[(1,)]((memory,), (memory[:],), BLOCK, BLOCK=BLOCK)
    np.testing.assert_array_equal(memory, expected)


def test_text_is_linear_in_the_number_of_arguments() -> None:
    def length(count: int) -> int:
        arrays = tuple(np.ones(SIZE, np.float32) for _ in range(2 * count))
        fn = JITFunction(all_loaded_first.fn)
        made = fn.warmup(arrays[:count], arrays[count:], SIZE, BLOCK=BLOCK, grid=(1,))
        return len(made.asm["llir"].splitlines())

    few, more, most = (length(count) for count in (12, 24, 36))
    assert most - more < 1.2 * (more - few)
