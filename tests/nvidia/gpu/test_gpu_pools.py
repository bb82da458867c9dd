"""Pools of `triton.experimental.gsan` on a GPU: torch allocates in them, and the search for races
watches what kernels do there."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl
from tritium.experimental import gsan
from tritium.sanitize.launch import SanitizerError

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu

N, BLOCK = 4096, 256


@tritium.jit
def fill(out, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, BLOCK)
    tl.store(out + i, 1.0, mask=i < n)


def launch(out: Any, programs: int, step: int = BLOCK) -> None:
    fill[(programs,)](out, out.numel(), step, BLOCK, instrumentation_mode="races")
    torch.cuda.synchronize()


@pytest.mark.parametrize("write_once", [False, True])
def test_torch_allocates_in_a_pool_and_gives_back(write_once: bool) -> None:
    pool = gsan.create_mem_pool(write_once=write_once)
    with torch.cuda.use_mem_pool(pool):
        out = torch.empty(N, device="cuda")
    assert gsan.has_live_allocations()
    with pytest.raises(AssertionError, match="still allocated"):
        gsan.reset()
    launch(out, N // BLOCK)
    assert (out == 1).all()
    del out, pool
    torch.cuda.empty_cache()
    assert not gsan.has_live_allocations()
    gsan.reset()


def test_a_second_store_to_write_once_memory() -> None:
    pool = gsan.create_mem_pool(write_once=True)
    with torch.cuda.use_mem_pool(pool):
        out = torch.empty(N, device="cuda")
    launch(out, 1)
    launch(out[BLOCK:], 1)
    with pytest.raises(SanitizerError, match="second store to write-once memory") as caught:
        launch(out[2 * BLOCK - 1 :], 1)
    assert caught.value.address == out[2 * BLOCK - 1 :].data_ptr()


def test_programs_that_race_in_a_pool() -> None:
    with torch.cuda.use_mem_pool(gsan.create_mem_pool()):
        out = torch.empty(N, device="cuda")
    with pytest.raises(SanitizerError, match="race: store"):
        launch(out, 2, BLOCK - 1)
