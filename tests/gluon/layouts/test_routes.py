"""Which block of a cluster accesses the shared memory of which, told by whole layouts."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import compiled, launcher
from tritium.errors import InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import cluster
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, linear
from tritium.ops.ttgir.types import memdesc_of, route_of_loads, route_of_stores

SIZE, BLOCKS = 256, 4


def random_types(rng: random.Random) -> tuple[Any, Any]:
    """A tile of all coordinates in any order, sums of bits among them, perhaps with copies, and
    memory of which blocks have parts or copies."""
    bits = [1 << i for i in range(8)]
    kept = rng.sample(bits, 2)
    bases = [[0] if rng.random() < 0.3 else [x] for x in kept]
    offsets = [[x] for x in bits if [x] not in bases]
    shared = gl.SharedLinearLayout(offsets, bases).to_encoding()
    rng.shuffle(bits)
    mixed = [x ^ (rng.choice(bits[:i]) if i and rng.random() < 0.5 else 0)
             for i, x in enumerate(bits)]  # fmt: skip
    places = [*([x] for x in mixed), [0], [0]]
    rng.shuffle(places)
    tile = gl.DistributedLinearLayout(places[:1], places[1:6], places[6:8], places[8:10], [SIZE])
    return (ir.tensor_of((SIZE,), ir.i32, tile.to_encoding()), memdesc_of((SIZE,), ir.i32, shared))


def elements(layout: Any) -> dict[int, set[int]]:
    """The elements of each block."""
    found: dict[int, set[int]] = {}
    sizes = [range(layout.in_size(name)) for name in layout.in_names]
    for place in itertools.product(*sizes):
        at = dict(zip(layout.in_names, place, strict=True))
        found.setdefault(at.get(BLOCK, 0), set()).add(int(layout.apply(at)["dim0"]))
    return found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.every(3)
def test_routes_by_elements(seed: int) -> None:
    tile, memory = random_types(random.Random(seed))
    have = elements(linear(ir.encoding_of(tile), (SIZE,)))
    keeps = elements(linear(memory.encoding, (SIZE,)))
    firsts = {x: min(b for b in have if x in have[b]) for x in range(SIZE)}
    stores = {(firsts[x], block) for block, own in keeps.items() for x in own}
    assert set(route_of_stores(tile, memory, BLOCKS)) == stores
    copies = [{b for b in keeps if keeps[b] == keeps[block]} for block in range(BLOCKS)]
    loads = route_of_loads(tile, memory, BLOCKS)
    assert len(set(loads)) == len(loads)
    for block in range(BLOCKS):
        owners = [owner for reader, owner in loads if reader == block]
        assert set().union(*(keeps[owner] for owner in owners)) >= have[block]
        assert all(keeps[owner] & have[block] for owner in owners)
        mine = next((b for b in copies[block] if b == block), None)
        assert not any(owner in copies[block] for owner in owners if owner != mine)


LANES = gl.DistributedLinearLayout(
    [], [[129], [2], [4], [8], [16]], [[32], [64]], [[128]], [256]
)  # fmt: skip
"""Parts of blocks begin where those of memory do; every second lane has the other's elements."""
OWN = gl.DistributedLinearLayout([], [[1], [2], [4], [8], [16]], [[32], [64]], [[128]], [256])
SHARED = gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])


@gluon.jit
def crossing_kernel(src, out, SYNC: gl.constexpr, write: gl.constexpr, read: gl.constexpr,
                    shared: gl.constexpr):  # fmt: skip
    memory = gl.allocate_shared_memory(gl.int32, [256], shared)
    if SYNC != "before":
        cluster.barrier()
    memory.store(gl.load(src + gl.arange(0, 256, write)))
    if SYNC != "between":
        cluster.barrier()
    gl.store(out + gl.arange(0, 256, read), memory.load(read))
    memory.store(gl.zeros([256], gl.int32, read))


def crossing(sync: str, write: Any, read: Any) -> None:
    x, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    launcher("interpreted")(crossing_kernel, (1,), x, out, SYNC=sync, write=write, read=read,
                            shared=SHARED, num_ctas=2)  # fmt: skip
    np.testing.assert_array_equal(out, x)


def test_lanes_with_elements_of_the_other_block() -> None:
    crossing("", LANES, OWN)
    crossing("between", OWN, OWN)
    with pytest.raises(InterpreterError, match="a race for shared memory") as caught:
        crossing("between", LANES, OWN)
    assert "by block 0 in block 1" in str(caught.value) or "by block 1 in block 0" in str(
        caught.value
    )
    with pytest.raises(InterpreterError, match="a race for shared memory"):
        crossing("", LANES, LANES)  # the next store comes while the other block may still read


@gluon.jit
def slice_kernel(out, START: gl.constexpr, AXIS: gl.constexpr, shared: gl.constexpr,
                 layout: gl.constexpr):  # fmt: skip
    memory = gl.allocate_shared_memory(gl.float32, [64, 64], shared)
    x = memory.slice(START, 16, dim=AXIS).load(layout)
    gl.store(out, gl.sum(gl.sum(x, 1), 0))


@pytest.mark.ptxas
@pytest.mark.parametrize(("start", "axis"), [(0, 0), (16, 0), (48, 1), (32, 0), (48, 0)])
def test_slices_begin_in_the_first_block(start: int, axis: int) -> None:
    """The second block has rows 32 to 63 of the memory."""
    layout = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]])
    shared = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], [[1, 0]])
    constants = {"START": start, "AXIS": axis, "shared": shared, "layout": layout}
    if axis == 1 or start < 32:
        assert compiled(slice_kernel, "*fp32", constants, num_ctas=2).asm["cubin"]
        return
    with pytest.raises(NotImplementedError, match=r"another block of the cluster") as caught:
        compiled(slice_kernel, "*fp32", constants, num_ctas=2)
    assert "memory.slice(START" in str(caught.value)
