"""Clusters of thread blocks, executed on the CPU: what programs of several blocks compute, faults
of programs that are told with their line, faults of the compiler that were found on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.gluon import cluster_programs
from tests.gluon.support import compiled, slots_of, type_of
from tests.nvidia.gpu import test_gpu_clusters as programs
from tests.simt import hardware
from tests.simt.backend import installed
from tests.simt.backend.compiler import run_ttgir
from tests.simt.backend.driver import SimtDriver
from tests.simt.machine import KernelFailure
from tritium.backends import active
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import cluster, mbarrier
from tritium.ops import ttgir
from tritium.ops.parsing import parse_module

SEEDS = range(1, 9)


@pytest.fixture(params=[32, 64])
def simt(request: pytest.FixtureRequest) -> Generator[None]:
    with installed():
        active.driver.set_active(SimtDriver(request.param))
        yield
        active.driver.reset_active()


@pytest.mark.parametrize("blocks", [2, 4, 16])
def test_elements(simt: None, blocks: int) -> None:
    n = 3 * 64 - 1
    x, y = np.random.default_rng(0).random((2, n), np.float32)
    out = np.full(n + 64, np.nan, np.float32)
    programs.add[(3,)](x, y, out, n, BLOCK=64, num_ctas=blocks)
    np.testing.assert_array_equal(out[:n], x + y + 3)
    assert np.isnan(out[n:]).all()


def test_programs_are_counted_not_blocks(simt: None) -> None:
    out = np.zeros(105, np.int32)
    programs.where_am_i[(3, 5, 7)](out, num_ctas=4)
    np.testing.assert_array_equal(out, np.arange(1, 106))


@pytest.mark.parametrize("shape", [(64, 32), (4, 256), (2, 2), (512, 1)])
def test_reductions_and_scans(simt: None, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).permutation(shape[0] * shape[1]).astype(np.int32).reshape(shape)
    out = np.full_like(x, -1)
    programs.sums[(1,)](x, out, *shape, num_ctas=4)
    want = x.cumsum(0) + 3 * x[:, ::-1].cumsum(1)[:, ::-1] + x.sum(0)
    want = want + 2 * x.sum(1)[:, None] + x.max() + x.argmax(0)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("blocks", [2, 4])
def test_sorting_gathering_counting_and_turning(simt: None, blocks: int) -> None:
    n, rng = 128, np.random.default_rng(2)
    x, index = rng.random(n, np.float32), rng.integers(0, 64, n).astype(np.int32)
    ordered, gathered, turned = (np.full_like(x, np.nan) for _ in range(3))
    top, counts = np.full(4, np.nan, np.float32), np.full(64, -1, np.int32)
    programs.moved[(1,)](x, index, ordered, top, gathered, counts, turned, N=n, num_ctas=blocks)
    np.testing.assert_array_equal(ordered, np.sort(x))
    np.testing.assert_array_equal(top, np.sort(x)[:-5:-1])
    np.testing.assert_array_equal(gathered, x[index])
    np.testing.assert_array_equal(counts, np.bincount(index, minlength=64))
    want = (x - 2 * x).reshape(n // 16, 16).T.reshape(n)[::-1]
    np.testing.assert_allclose(turned, want, atol=1e-6, rtol=1e-6)


def test_atomics_happen_once(simt: None) -> None:
    count, n = 10, 64
    x = np.random.default_rng(3).integers(1, 100, n).astype(np.int32)
    out, lock = np.zeros_like(x), np.zeros(1, np.int32)
    old, p = np.full((count, n), -1, np.int32), np.zeros(8 + count, np.int32)
    programs.atomics[(count,)](x, out, old, p, lock, N=n, num_ctas=2)
    np.testing.assert_array_equal(out, x * count)
    np.testing.assert_array_equal(np.sort(old, 0), np.arange(count)[:, None] * x)
    ones = count * (count - 1) // 2
    assert p[:6].tolist() == [count, count, count - 1, count, ones, count]
    np.testing.assert_array_equal(p[8:], np.arange(count))


@pytest.mark.parametrize("blocks", [2, 4])
def test_products(simt: None, blocks: int) -> None:
    rng, (m, n, k) = np.random.default_rng(4), (70, 40, 64)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    out = np.full((m, n), np.nan, np.float32)
    grid = tritium.cdiv(m, 64), tritium.cdiv(n, 32)
    programs.matmul[grid](a, b, out, m, n, k, n, 1, BM=64, BN=32, BK=32, num_ctas=blocks)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


def run(
    kernel: Any, arguments: list[Any], seed: int = 0, dropped: frozenset[int] = frozenset(),
    num_ctas: int = 2, **constants: Any,
) -> int:  # fmt: skip
    """Run a Gluon kernel that is compiled for sm_90, in an order; the number of its barriers."""
    made = compiled(kernel, " ".join(map(type_of, arguments)), constants, num_ctas=num_ctas)
    kept: list[np.ndarray] = []
    how = hardware.Simt(32, dropped)
    run_ttgir(parse_module(made.asm["ttgir"]), 4, slots_of(arguments, kept), (1,), how, seed=seed)
    return how.barriers.count


LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0], [[1]]))
SHARED = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]]))


@gluon.jit
def faulty_kernel(out, how: gl.constexpr):
    i = gl.arange(0, 256, LINE)
    memory = gl.allocate_shared_memory(gl.int32, [256], SHARED, i)
    bars = mbarrier.allocate_mbarrier(batch=2)
    if how != "not initialized":
        mbarrier.init(bars.index(0), count=1)
    if how != "not begun":
        cluster.barrier()
    if how == "twice":
        mbarrier.arrive(bars.index(0), count=2, from_cta=0)
    else:
        mbarrier.arrive(bars.index(0), from_cta=0)
    mbarrier.wait(bars.index(0), 0)
    if how == "third phase":
        mbarrier.wait(bars.index(0), gl.load(out))  # of a phase that does not end
    gl.store(out + i, memory.load(LINE))
    cluster.barrier()


def line_of(text: str) -> int:
    """The line of this file that has a text."""
    lines = Path(__file__).read_text().split("\n")
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


@pytest.mark.parametrize(
    ("how", "what", "line"), [
        ("third phase", "wait for ever: warps 0, 1, 2, 3 of block 0 at an mbarrier",
         "mbarrier.wait(bars.index(0), gl.load(out))"),
        ("twice", "more arrivals than a phase", "mbarrier.arrive(bars.index(0), count=2"),
        ("not initialized", "an mbarrier that is not initialized",
         "mbarrier.wait(bars.index(0), 0)"),
        ("not begun", "memory of a block of the cluster that has not begun",
         "mbarrier.arrive(bars.index(0), from_cta=0)"),
    ],
)  # fmt: skip
def test_faults_are_told_with_their_line(how: str, what: str, line: str) -> None:
    out = np.ones(256, np.int32)
    with pytest.raises(KernelFailure, match=what) as caught:
        for seed in SEEDS:
            run(faulty_kernel, [out], seed, how=how)
    assert f"{Path(__file__).name}:{line_of(line)}" in str(caught.value)


def right_in_all_orders(run_it: Callable[[int], None]) -> bool:
    """True if no order of the blocks and warps shows a fault."""
    for seed in SEEDS:
        try:
            run_it(seed)
        except (AssertionError, KernelFailure):
            return False
    return True


def reaches(seed: int, dropped: frozenset[int] = frozenset(), cga: Any = ([1, 0],)) -> int:
    """A tile goes from blocks that have rows to blocks that have columns; the barriers of that."""
    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    out = np.zeros_like(x)
    count = run(
        cluster_programs.reach_kernel, [x, out], seed, dropped, MEET=True,
        rows=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]),
        columns=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]]),
        shared=gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [list(basis) for basis in cga]),
    )  # fmt: skip
    np.testing.assert_array_equal(out, 2 * x)
    return count


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("cga", "needed"), [([1, 0], [{1}, {2}]), ([0, 1], [{0, 1}, {2}])], ids=["loads", "stores"]
)
def test_barriers_of_clusters_are_needed(cga: list[int], needed: list[set[int]]) -> None:
    """Loads from other blocks need the barrier between stores and loads and the one at the end;
    stores to other blocks need one of the two at the start and the one behind the stores."""
    count = reaches(1, cga=(cga,))
    alone = [{n} for n in range(count)]
    for dropped in [set[int](), *alone, *needed]:
        right = right_in_all_orders(lambda seed, d=dropped: reaches(seed, frozenset(d), (cga,)))
        assert right == (dropped not in needed), dropped


@gluon.jit
def first_kernel(src, out, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr):
    """The first that threads do is to store to other blocks' memory."""
    i = gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None]
    x = gl.load(src + i * 64 + gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :])
    memory = gl.allocate_shared_memory(gl.int32, [32, 64], shared, x)
    cluster.barrier()
    i = gl.arange(0, 32, gl.SliceLayout(1, columns))[:, None]
    at = i * 64 + gl.arange(0, 64, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + at, memory.load(columns))


def stores_first(seed: int) -> None:
    x = np.arange(32 * 64, dtype=np.int32).reshape(32, 64)
    out = np.zeros_like(x)
    run(first_kernel, [x, out], seed,
        rows=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]),
        columns=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]]),
        shared=gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 1]]))  # fmt: skip
    np.testing.assert_array_equal(out, x)


@gluon.jit
def mixed_kernel(src, out, mixed: gl.constexpr, plain: gl.constexpr, shared: gl.constexpr):
    i = gl.arange(0, 256, mixed)
    memory = gl.allocate_shared_memory(gl.int32, [256], shared)
    cluster.barrier()
    memory.store(gl.load(src + i))
    cluster.barrier()
    gl.store(out + gl.arange(0, 256, plain), memory.load(plain))
    cluster.barrier()


def mixes(seed: int) -> None:
    """The lanes of a block have elements of both blocks' memory, though the first of them is in the
    block's own."""
    x, out, own = np.arange(256, dtype=np.int32), np.zeros(256, np.int32), [[16]]
    lanes, warps = [[1], [2], [4], [8], [32]], [[64], [128]]
    run(mixed_kernel, [x, out], seed, plain=LINE.value,
        mixed=gl.DistributedLinearLayout([], lanes, warps, own, [256]),
        shared=gl.SharedLinearLayout([*lanes[:3], [8 | 16], [32], *warps], own))  # fmt: skip
    np.testing.assert_array_equal(out, x)


@gluon.jit
def meet_often(out, layout: gl.constexpr):
    for step in range(4):
        cluster.barrier()
        gl.store(out + gl.arange(0, 512, layout), step)


@gluon.jit
def meeting_kernel(out, layout: gl.constexpr):
    regions = (meet_often, (out, layout)), (meet_often, (out + 512, layout))
    gl.warp_specialize([regions[0], regions[1]], [4], [96])


def meets(seed: int) -> None:
    """Regions of four blocks meet several times."""
    out = np.zeros(1024, np.int32)
    layout = gl.BlockedLayout([1], [32], [4], [0], [[1], [2]])
    run(meeting_kernel, [out], seed, num_ctas=4, layout=layout)
    assert (out == 3).all()


def own_last(blocks: int) -> list[int]:
    """The order of `meeting` that lets blocks wait for ever."""
    return [*range(blocks), hardware.OWN]


FAULTS: dict[Callable[[int], None], tuple[Any, str, Any]] = {
    meets: (hardware, "meeting", own_last),
    mixes: (ttgir.LocalStoreOp, "reaches_blocks", False),
    stores_first: (ttgir.LocalAllocOp, "stores_to_blocks", False),
}
"""Faults that the compiler had: what blocks do that meet them, and what is put back in place of
what: an own mbarrier that a block arrives in last, accesses by lanes that are kept in their own
block, kernels that do not wait until all blocks have begun."""


@pytest.mark.parametrize("program", FAULTS)
def test_faults_of_the_compiler_are_found(
    program: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right_in_all_orders(program)
    monkeypatch.setattr(*FAULTS[program])
    assert not right_in_all_orders(program)
