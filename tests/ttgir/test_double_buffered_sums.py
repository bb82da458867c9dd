"""Two tiles of sums in tensor memory: persistent products for sm_100, whose loop of tiles and loop
of steps are one, are run by the reference semantics. It refuses to read sums before the product has
ended, and ends a product when its barrier is waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.ir.test_reference_runs import Kernel
from tritium.compiler import ASTSource
from tritium.ops.memory import EvaluationError
from tritium.ops.parsing import parse_module
from tritium.target import GPUTarget

ROWS, COLUMNS, STEP = 64, 32, 32
PAIR, ONE = f"memdesc<2x{ROWS}x{COLUMNS}xf32", f"memdesc<{ROWS}x{COLUMNS}xf32"


@tritium.jit
def persistent(
    a, b, c, m, n, k, PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    SPLIT: tl.constexpr, ALONE: tl.constexpr,
):  # fmt: skip
    """c = a @ b by programs that stay. ALONE: forbids the second tile."""
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    across = tl.cdiv(n, N)
    tiles = tl.cdiv(m, M) * across
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True, warp_specialize=SPLIT,
                         disallow_acc_multi_buffer=ALONE):  # fmt: skip
        acc = tl.zeros((M, N), tl.float32)
        row, column = tile // across * M, tile % across * N
        for i in range(tl.cdiv(k, K)):
            acc = tl.dot(left.load([row, i * K]), right.load([i * K, column]), acc)
        out.store([row, column], acc)


@tritium.jit
def counted(a, b, c, seen, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product by one program. What the epilogue loads, the next prologue has stored before."""
    i, j, steps = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    across = tl.cdiv(n, N)
    for tile in tl.range(0, tl.cdiv(m, M) * across, flatten=True):
        acc = tl.zeros((M, N), tl.float32)
        tl.store(seen, tl.load(seen) + 1)
        rows, columns = tile // across * M + i, tile % across * N + j
        for at in range(tl.cdiv(k, K)):
            x = tl.load(a + rows[:, None] * k + at * K + steps[None, :])
            y = tl.load(b + (at * K + steps)[:, None] * n + columns[None, :])
            acc = tl.dot(x, y, acc)
        tl.store(c + rows[:, None] * n + columns[None, :], acc + tl.load(seen))


def compiled(function: Any, arch: int = 100, stages: int = 3, **constants: Any) -> Any:
    constants |= {"M": ROWS, "N": COLUMNS, "K": STEP}
    names = [name for name in function.arg_names if name not in constants]
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "seen": "*i32"}
    signature = {name: types.get(name, "i32") for name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
    source = ASTSource(function, signature, constants, aligned)
    options = {"num_warps": 4, "num_stages": stages}
    return tritium.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def run(text: str, m: int, n: int, k: int, grid: int, *more: np.ndarray) -> None:
    made = Kernel.__new__(Kernel)
    made.module, made.printed = parse_module(text), []
    rng = np.random.default_rng(m + n + k)
    a = rng.integers(-4, 5, (m, max(k, STEP))).astype(np.float16)
    b = rng.integers(-4, 5, (max(k, STEP), n)).astype(np.float16)
    c = np.full((m, n), 99, np.float32)
    made(a, b, c, *more, m, n, k, grid=(grid,))
    want = a.astype(np.float32) @ b.astype(np.float32) if k else np.zeros((m, n), np.float32)
    if more:
        tiles = np.arange(1, m // ROWS * (n // COLUMNS) + 1).reshape(m // ROWS, n // COLUMNS)
        want = want + np.kron(tiles, np.ones((ROWS, COLUMNS)))
    np.testing.assert_array_equal(c, want)


SIZES = [(ROWS, COLUMNS, STEP), (3 * ROWS, 2 * COLUMNS, STEP), (2 * ROWS, 3 * COLUMNS, 2 * STEP),
         (3 * ROWS, COLUMNS, 5 * STEP), (ROWS, COLUMNS, 0)]  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_a_persistent_product(
    size: tuple[int, int, int], programs: int, split: bool, stages: int, fresh_cache: Path
) -> None:
    made = compiled(persistent, stages=stages, PROGRAMS=programs, SPLIT=split, ALONE=False)
    assert PAIR in made.asm["ttgir"]
    assert ("ttg.warp_specialize" in made.asm["ttgir"]) == split
    run(made.asm["ttgir"], *size, programs)


@pytest.mark.parametrize("split", [False, True])
def test_the_hint_forbids_the_second_tile(split: bool, fresh_cache: Path) -> None:
    made = compiled(persistent, PROGRAMS=2, SPLIT=split, ALONE=True)
    assert PAIR not in made.asm["ttgir"] and ONE in made.asm["ttgir"]
    run(made.asm["ttgir"], *SIZES[2], 2)


def test_the_next_product_begins_before_the_sums_are_read(fresh_cache: Path) -> None:
    text = compiled(persistent, PROGRAMS=2, SPLIT=True, ALONE=False).asm["ttgir"]
    loop = text[text.index("ttng.tc_gen5_mma") :]
    read = loop.index("ttng.tmem_load")
    assert loop.index("ttng.arrive_barrier") < read < loop.index("scf.yield")


def test_accesses_stay_in_order(fresh_cache: Path) -> None:
    """A prologue that stores would do so before the epilogue of the tile before has loaded."""
    made = compiled(counted)
    assert PAIR not in made.asm["ttgir"]
    run(made.asm["ttgir"], *SIZES[2], 1, np.zeros(1, np.int32))


def test_sums_that_do_not_alternate_are_refused(fresh_cache: Path) -> None:
    """The test's own proof: with the same tile each time, a product runs while it is read."""
    text = compiled(persistent, PROGRAMS=1, SPLIT=False, ALONE=False).asm["ttgir"]
    at = text.index("ttng.tmem_load")
    chosen = text.rindex("arith.xori", 0, at)
    wrong = text[:chosen] + text[chosen:].replace("arith.xori", "arith.ori", 1)
    slot = wrong[chosen:].split(",")[0].split()[-1]
    first = wrong[chosen:].splitlines()[0]
    second = first.split(",")[1].split()[0]
    wrong = wrong[:chosen] + wrong[chosen:].replace(f"{slot}, {second}", f"{slot}, {slot}", 1)
    with pytest.raises(EvaluationError):
        run(wrong, *SIZES[2], 1)


@pytest.mark.covering(1)
@pytest.mark.ptxas
@pytest.mark.parametrize("arch", [100, 103])
@pytest.mark.parametrize("split", [False, True])
def test_it_assembles(arch: int, split: bool, fresh_cache: Path) -> None:
    made = compiled(persistent, arch, PROGRAMS=2, SPLIT=split, ALONE=False)
    alone = compiled(persistent, arch, PROGRAMS=2, SPLIT=split, ALONE=True)
    assert made.asm["cubin"]
    counts = [x.asm["ptx"].count("tcgen05.ld") for x in (made, alone)]
    assert counts[0] == 2 * counts[1] > 0
