"""Blocks of a cluster that are ahead of others, which the interpreter reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gluon.cluster_programs import reach_kernel
from tests.gluon.support import compiled, launcher, type_of
from tritium.errors import InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.amd.cdna5 import cluster as amd_cluster
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_mma,
)
from tritium.experimental.gluon.language.nvidia.hopper import async_store, cluster, mbarrier, tma
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]])
COLUMNS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]])
BOTH = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 0]])
SHARED = gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 1]])


@gluon.jit
def at(layout: gl.constexpr):
    i = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    return i * 64 + gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]


@gluon.jit
def copies_kernel(src, out, how: gl.constexpr, layout: gl.constexpr):
    """The first block copies for both, twice into the same buffer."""
    memory = gl.allocate_shared_memory(src.dtype, [32, 64], src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    if how != "barrier not ready":
        cluster.barrier(relaxed=True)
    for step in gl.static_range(2):
        mbarrier.expect(bar, src.nbytes_per_cta)
        tma.async_load(src, [32 * step, 0], bar, memory, multicast=True)
        mbarrier.wait(bar, step)
        gl.store(out + 2048 * step + at(layout), memory.load(layout))
        if how == "cluster":
            cluster.barrier()
        elif how == "workgroups":
            amd_cluster.arrive()
            amd_cluster.wait()


def copies(how: str) -> None:
    x, out = np.arange(64 * 64).reshape(64, 64).astype(np.float16), np.zeros((64, 64), np.float16)
    layout = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    desc = TensorDescriptor.from_tensor(x, [32, 64], layout)
    launcher("interpreted")(copies_kernel, (1,), desc, out, how=how, layout=BOTH, num_ctas=2)
    np.testing.assert_array_equal(out, x)


@gluon.jit
def divided_kernel(src, out, told: gl.constexpr, DIVIDED: gl.constexpr, layout: gl.constexpr):
    """Both blocks have copies of two blocks of rows, one after the other. Of the end of a use is
    `told`: nobody else, the first block, or all."""
    memory = gl.allocate_shared_memory(src.dtype, src.block_shape, src.layout)
    bar, empty = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier(two_ctas=told == "first")
    mbarrier.init(bar, count=1)
    mbarrier.init(empty, count=2 if told == "all" else 1)
    cluster.barrier()
    for step in gl.static_range(2):
        mbarrier.expect(bar, src.nbytes_per_cta)
        tma.async_load(src, [64 * step, 0], bar, memory, multicast=True, divided=DIVIDED)
        mbarrier.wait(bar, step)
        part = memory.slice(32, 32, 0).slice(64, 64, 1)
        places = out + 2048 * step + at(layout)
        gl.store(places, part.load(layout))
        mbarrier.arrive(empty, multicast_cta=1 if told == "all" else 0)
        mbarrier.wait(empty, step)


def divided(told: str, how: str = "interpreted", shared: bool = True) -> Any:
    x = np.arange(128 * 128).reshape(128, 128).astype(np.float16)
    out = np.zeros((2, 32, 64), np.float16)
    memory = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    desc = TensorDescriptor.from_tensor(x, [64, 128], memory)
    constants = {"told": told, "DIVIDED": shared, "layout": BOTH}
    if how == "compiled":
        types = f"{type_of(desc)} {type_of(out)}"
        return compiled(divided_kernel, types, constants, num_ctas=2).asm["ptx"]
    launcher(how)(divided_kernel, (1,), desc, out, num_ctas=2, **constants)
    np.testing.assert_array_equal(out, [x[32:64, 64:], x[96:, 64:]])


@gluon.jit
def exchange_kernel(src, out, how: gl.constexpr, rows: gl.constexpr, columns: gl.constexpr,
                    shared: gl.constexpr):  # fmt: skip
    """Blocks write to each other's memory what the other one then loads, twice."""
    memory = gl.allocate_shared_memory(gl.float32, [32, 64], shared)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for n in gl.static_range(2):
        mbarrier.init(bars.index(n), count=1)
    cluster.barrier()
    for step in gl.static_range(2):
        mbarrier.expect(bars.index(0), memory.nbytes_per_cta)
        async_store(memory, gl.load(src + 2048 * step + at(rows)), bars.index(0))
        mbarrier.wait(bars.index(0), step)
        gl.store(out + 2048 * step + at(columns), memory.load(columns))
        if how == "own barriers":
            mbarrier.arrive(bars.index(1))
            mbarrier.wait(bars.index(1), step)
        elif how == "a block tells all":
            mbarrier.arrive(bars.index(1), from_cta=0)
            mbarrier.wait(bars.index(1), step)
        elif how == "cluster":
            cluster.barrier()


def exchange(how: str) -> None:
    x, out = np.arange(64 * 64, dtype=np.float32).reshape(64, 64), np.zeros((64, 64), np.float32)
    launcher("interpreted")(exchange_kernel, (1,), x, out, how=how, rows=ROWS, columns=COLUMNS,
                            shared=SHARED, num_ctas=2)  # fmt: skip
    np.testing.assert_array_equal(out, x)


@gluon.jit
def pair_kernel(a, b, shared_barrier: gl.constexpr):
    """Each of two blocks copies its part of the operands; the first multiplies for both."""
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    layout: gl.constexpr = TensorMemoryLayout([128, 64], 1, [[1, 0]], True)
    acc = allocate_tensor_memory(gl.float32, [256, 64], layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=shared_barrier)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    cluster.barrier(relaxed=True)
    mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], loaded, left)
    tma.async_load(b, [0, 0], loaded, right)
    mbarrier.wait(loaded, 0)
    tcgen05_mma(left, right, acc, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)


def pair(shared_barrier: bool) -> None:
    made = [
        TensorDescriptor.from_tensor(
            np.ones(shape, np.float16), [*shape], gl.NVMMASharedLayout(64, 16, 2, cga_layout=[at])
        )
        for shape, at in (((256, 32), [1, 0]), ((32, 64), [0, 1]))
    ]
    launcher("interpreted")(pair_kernel, (1,), *made, shared_barrier=shared_barrier, num_ctas=2)


@pytest.mark.parametrize("how", ["cluster", "workgroups"])
def test_copies_for_several_blocks_in_order(how: str) -> None:
    copies(how)


def test_blocks_that_write_to_each_other_in_order() -> None:
    exchange("cluster")


def test_a_pair_with_a_barrier_of_both() -> None:
    pair(True)


def failure(run: Any, how: Any) -> str:
    with pytest.raises(InterpreterError) as caught:
        run(how)
    return str(caught.value)


def lines(text: str) -> list[int]:
    """The lines of this file that have a text."""
    found = Path(__file__).read_text().split("\n")
    return [i for i, line in enumerate(found, 1) if line.strip().startswith(text)]


def test_a_copy_into_a_buffer_that_another_block_reads() -> None:
    (copy,), (load,) = lines("tma.async_load(src, [32"), lines("gl.store(out + 2048 * step + at(la")
    assert re.search(
        rf"a race for shared memory, allocated at .*: written at .*py:{copy} by block 0 in block "
        rf"1, read at .*py:{load} by block 1; no barrier of the cluster or mbarrier orders them",
        failure(copies, "nothing"),
    )


@pytest.mark.parametrize("how", ["interpreted", "engine"])
def test_copies_of_which_each_block_makes_a_share(how: str) -> None:
    divided("all", how)
    divided("first", how, shared=False)


@pytest.mark.parametrize("told", ["nobody", "first"])
def test_a_share_of_a_copy_into_memory_that_another_block_reads(told: str) -> None:
    """It is enough to tell the first block where that one copies all: shares need more."""
    assert re.search(r"written at .* by block 1 in block 0, read at .* by block 0;",
                     failure(divided, told))  # fmt: skip


def test_each_block_copies_half_for_both() -> None:
    """Each of two copies has two pieces that the first block copies alone, or one a block, from an
    address and a coordinate on that the block's number gives."""
    assert divided("all", "compiled").count(".multicast::cluster") == 2 * 1
    assert divided("first", "compiled", shared=False).count(".multicast::cluster") == 2 * 2


def test_a_copy_for_a_barrier_that_another_block_has_not_made() -> None:
    (copy,), (init, *_) = lines("tma.async_load(src, [32"), lines("mbarrier.init(bar, count=1)")
    assert re.search(
        rf"a race for shared memory, allocated at .*allocate_mbarrier.*: used at .*py:{copy} by "
        rf"block 0 in block 1, initialized at .*py:{init} by block 1",
        failure(copies, "barrier not ready"),
    )


@pytest.mark.parametrize(
    ("how", "blocks"), [("nothing", "10"), ("own barriers", "10"), ("a block tells all", "01")]
)
def test_stores_into_memory_that_another_block_reads(how: str, blocks: str) -> None:
    """A block that tells all others that it has loaded does not know that another one has."""
    source, target = blocks
    assert re.search(rf"written at .* by block {source} in block {target}, read at .* by block "
                     rf"{target};", failure(exchange, how))  # fmt: skip


def test_a_product_of_what_the_other_block_has_not_copied() -> None:
    assert re.search(r"read at .* by block 0 in block 1, written at .* by block 1",
                     failure(pair, False))  # fmt: skip


@pytest.mark.parametrize("kept", [[[1, 0]], [[0, 1]]])
def test_threads_reach_other_blocks_memory(kept: list[list[int]]) -> None:
    """Without the barrier a block reads what another has not written, or is still writing."""
    constants = {"rows": ROWS, "columns": COLUMNS, "num_ctas": 2,
                 "shared": gl.SwizzledSharedLayout(4, 1, 4, [1, 0], kept)}  # fmt: skip
    source, out = np.ones((32, 64), np.float32), np.zeros((32, 64), np.float32)
    launcher("interpreted")(reach_kernel, (1,), source, out, MEET=True, **constants)
    with pytest.raises(InterpreterError, match="block"):
        launcher("interpreted")(reach_kernel, (1,), source, out, MEET=False, **constants)
