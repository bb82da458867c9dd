"""Modules of `triton.profiler` beside sessions and scopes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
import tritium.profiler.language as pl
from tritium import profiler
from tritium.errors import TritonError
from tritium.profiler import context, mode, specs
from tritium.profiler.hooks import Hook, HookManager


@tritium.jit
def scoped(x):
    with pl.scope("load") as nothing, pl.scope("again"):
        v = tl.load(x)
        tl.static_assert(nothing is None)
    pl.enter_scope("store")
    event = pl.allocate_event("event")
    pl.start_event(event)
    tl.store(x, v + 1)
    pl.end_event(event)
    pl.exit_scope("store")


@tritium.jit
def returns(x):
    with pl.scope("load"):
        return


def test_scopes_in_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(1, np.float32)
    scoped[(1,)](x)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    tritium.jit(scoped.fn)[(1,)](x)
    assert x[0] == 2
    for kernel in (tritium.jit(returns.fn), returns):
        with pytest.raises(TritonError, match="`return` statements inside `with`"):
            kernel[(1,)](x)
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def test_depth(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert context.depth() is None
    session = profiler.start()
    with profiler.scope("a"), profiler.metadata_state("kernel"):
        assert context.depth(session) == 2
    with pytest.raises(IndexError, match=r"depth: Session has not been initialized: -7"):
        context.depth(-7)
    profiler.deactivate(session, flushing=True)
    profiler.finalize()
    assert context.depth() is None


def test_rates() -> None:
    assert specs.max_flops("CUDA", "80", 16, 108, 1410e3) == 312e12
    assert specs.max_flops("CUDA", "90", 8, 114, 1755e3) == pytest.approx(1513e12)
    assert specs.max_flops("CUDA", "100", 8, 148, 1e6) == 148 * 16384e9
    assert specs.max_flops("HIP", "gfx942", 16, 304, 2100e3) == 4096 * 304 * 2100e6 / 2
    assert specs.max_bps("CUDA", "80", 5120, 1215e3) == 1555.2e9
    assert specs.max_bps("HIP", "gfx942", 0, 0) == 5.3e12
    for wrong in (("CUDA", "70"), ("XPU", "90"), ("HIP", "gfx1")):
        with pytest.raises(ValueError, match=f"the {wrong[0]} device {wrong[1]}"):
            specs.max_flops(*wrong, 8, 1, 1.0)


def test_modes() -> None:
    assert str(mode.Default()) == (
        "default:metric_type=cycle:sampling_strategy=none:sampling_options=:granularity=warp:"
        "buffer_strategy=circular:buffer_type=shared:buffer_size=0:optimizations="
    )
    found = mode.MMA(granularity="warp_group", optimizations="clock32, time_shift")
    assert found.granularity is mode.GRANULARITY.WARP_GROUP
    assert str(found).endswith("optimizations=clock32,time_shift")
    assert str(mode.PCSampling(5)) == "pcsampling:interval=5"
    with pytest.raises(ValueError, match="buffer_type is 'stack'; one of shared, global"):
        mode.Default(buffer_type="stack")
    with pytest.raises(ValueError, match="interval is 0"):
        mode.PCSampling(0)


class Counter(Hook):
    def __init__(self, said: list[str], name: str, priority: int):
        self.said, self.name, self.priority = said, name, priority

    def init_handle(self, *handle: Any) -> None:
        self.said.append(f"{self.name} loads {handle[2]}")

    def enter(self, metadata: Any) -> None:
        self.said.append(f"{self.name} enters {metadata.data['name']}")

    def exit(self, metadata: Any) -> None:
        self.said.append(f"{self.name} exits")

    def activate(self) -> None:
        self.said.append(f"{self.name} on")

    def deactivate(self) -> None:
        self.said.append(f"{self.name} off")


@pytest.fixture
def said() -> Iterator[list[str]]:
    yield []
    HookManager.unregister()


def test_hooks(said: list[str]) -> None:
    HookManager.register(Counter(said, "low", 0), 0)
    HookManager.register(Counter(said, "high", 1), 1)
    kernel = tritium.jit(scoped.fn)
    x = np.zeros(1, np.float32)
    kernel[(1,)](x)
    assert said == [
        "low on", "high on", "high loads scoped", "low loads scoped", "high enters scoped",
        "low enters scoped", "low exits", "high exits",
    ]  # fmt: skip
    said.clear()
    HookManager.deactivate(1)
    kernel[(1,)](x)
    HookManager.activate(1)
    HookManager.unregister(0)
    assert said == ["high off", "low enters scoped", "low exits", "high on", "low off"]
    HookManager.unregister()
    said.clear()
    kernel[(1,)](x)
    assert not said


def test_modules_are_there_once_the_profiler_is_imported() -> None:
    names = "p.context.depth, p.flags.flags, p.hooks.Hook, p.mode.Default, p.specs.max_flops"
    program = f"import tritium.profiler as p; {names}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
