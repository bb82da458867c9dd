"""The barrier at which warps of one region meet those of other thread blocks: the instructions that
it is made of, executed by several blocks in random orders."""

from __future__ import annotations

import random
import re

import pytest

from tests.gluon import cluster_programs
from tests.gluon.support import compiled
from tritium.errors import CompilationError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import cluster, mbarrier

BLOCKS, ROUNDS = 4, 4
ARRIVES = re.compile(
    r"(?P<own>arrive\.release\.cluster\.shared::cta\.b64 state)"
    r"|mapa\.shared::cluster\.u32 there, \S+, (?P<block>\d+); setp\.ne"
    r"|(?P<waits>try_wait\.acquire)"
)


class MBarrier:
    """Counts arrivals; a phase ends with as many as there are blocks (PTX ISA, mbarrier)."""

    def __init__(self) -> None:
        self.phase, self.pending = 0, BLOCKS

    def arrive(self) -> int:
        """One arrival; the phase that it is of."""
        phase = self.phase
        self.pending -= 1
        if self.pending == 0:
            self.phase, self.pending = phase + 1, BLOCKS
        return phase


def steps() -> list[int | None]:
    """The barrier's instructions in order: arrive in a block, -1 its own; None: wait."""
    cga = [[1, 0], [2, 0]]
    a, b = (f"tensordesc<fp16[{m},{n}],{gl.NVMMASharedLayout(64, 16, 2, cga_layout=x)!r}>"
            for m, n, x in ((256, 32, cga), (32, 64, [[0, 0], [0, 0]])))  # fmt: skip
    constants = {"cga": cga, "MULTIPLY_FIRST": False}
    kernel = compiled(cluster_programs.specialized_kernel, f"{a} {b} *fp32 i32", constants,
                      num_ctas=BLOCKS)  # fmt: skip
    text = next(line for line in kernel.asm["ptx"].splitlines() if "b64 state, [" in line)
    found: list[int | None] = []
    for match in ARRIVES.finditer(text):
        block = match["block"]
        found.append(-1 if match["own"] else None if match["waits"] else int(block))
    return found


def run(order: list[int | None], source: random.Random) -> bool:
    """Have each block pass the barrier ROUNDS times; False if all wait for ever, or one passes
    before all others have come to it."""
    barriers = [MBarrier() for _ in range(BLOCKS)]
    at, come, passed, states = ([0] * BLOCKS for _ in range(4))
    while min(passed) < ROUNDS:
        able = [
            b for b in range(BLOCKS) if passed[b] < ROUNDS
            and (order[at[b]] is not None or barriers[b].phase > states[b])
        ]  # fmt: skip
        if not able:
            return False
        block = source.choice(able)
        step = order[at[block]]
        come[block] += at[block] == 0
        at[block] = (at[block] + 1) % len(order)
        if step is None:
            passed[block] += 1
            if min(come) < passed[block]:
                return False
        elif step == -1:
            states[block] = barriers[block].arrive()
        elif step != block:
            barriers[step].arrive()
    return True


def test_blocks_pass_the_barrier_together_in_any_order() -> None:
    order = steps()
    assert sorted(s for s in order if s is not None) == [-1, *range(BLOCKS)]
    assert order[-1] is None
    for seed in range(300):
        assert run(order, random.Random(seed)), seed


@gluon.jit
def handing_on_kernel(out, LOAD: gl.constexpr, SCOPE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], [[1]])
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier(relaxed=True)
    i = gl.arange(0, 256, layout)
    gl.store(out + i, i)
    mbarrier.arrive(bar, from_cta=0, scope=SCOPE)
    mbarrier.wait(bar, 0, scope=SCOPE)
    if LOAD:
        gl.store(out + 256 + i, gl.load(out + (i + 128) % 256))


@pytest.mark.parametrize(
    ("load", "scope", "orders"),
    [(False, "cluster", False), (True, "cluster", True), (True, "cta", False)],
)
def test_arrivals_hand_on_memory_where_threads_read_it(
    load: bool, scope: str, orders: bool
) -> None:
    """An arrival need not wait for writes, nor a wait drop the first-level cache, where no thread
    reads what another block's wrote, or the program says so."""
    constants = {"LOAD": load, "SCOPE": scope}
    ptx = compiled(handing_on_kernel, "*i32", constants, num_ctas=2).asm["ptx"]
    assert ("mbarrier.arrive.release.cluster" in ptx) == orders
    assert ("try_wait.parity.acquire.cluster" in ptx) == orders


def test_unknown_scopes_are_refused() -> None:
    constants = {"LOAD": False, "SCOPE": "gpu"}
    with pytest.raises(CompilationError, match=r'arrive: scope is .gpu.; "cta" or "cluster"'):
        compiled(handing_on_kernel, "*i32", constants, num_ctas=2)
