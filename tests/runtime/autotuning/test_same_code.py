"""Configurations that give the same code are compiled and measured once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tritium import knobs
from tritium.compiler.compile import Compilation
from tritium.language.extra import cuda
from tritium.runtime import Config
from tritium.runtime.autotuning.autotuner import Autotuner

pytestmark = pytest.mark.cpu
CONFIGS = [
    Config({"BLOCK": block}, num_warps=warps, num_stages=stages)
    for block in (64, 128) for warps in (1, 2, 4) for stages in (1, 2)
]  # fmt: skip
N = 1000


def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


def times_warps(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * cuda.num_warps(), i < n)


def stages_of(x, out, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * num_stages, i < n)


def passes_over(x, out, n, BLOCK: tl.constexpr, EXTRA: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, fresh_cache: Any) -> dict[str, int]:
    """How many configurations were compiled, and measured, in this process."""
    count = {"compiled": 0, "measured": 0}
    run, bench = Compilation.run, Autotuner._bench

    def counted_run(self: Compilation, *args: Any) -> Any:
        count["compiled"] += 1
        return run(self, *args)

    def counted_bench(self: Autotuner, *args: Any, **kwargs: Any) -> Any:
        count["measured"] += 1
        return bench(self, *args, **kwargs)

    monkeypatch.setattr(Compilation, "run", counted_run)
    monkeypatch.setattr(Autotuner, "_bench", counted_bench)
    monkeypatch.setattr(knobs.autotuning, "workers", 1)
    return count


def tuned(fn: Callable[..., Any], configs: list[Config] = CONFIGS) -> Any:
    return tritium.autotune(configs, key=["n"])(tritium.jit(fn))


def launch(kernel: Any, grid: Any = lambda meta: (tritium.cdiv(N, meta["BLOCK"]),)) -> Any:
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    kernel[grid](x, out, N)
    assert len(kernel.configs_timings) == len(CONFIGS)
    return out


def test_options_without_effect(work: dict[str, int]) -> None:
    kernel = tuned(double)
    assert (launch(kernel) == 2).all()
    assert work == {"compiled": 2, "measured": 2}
    times = kernel.configs_timings
    for config in CONFIGS:
        assert times[config] == times[Config(config.kwargs, num_warps=1, num_stages=1)]
    options = {"num_warps": 4, "num_stages": 2}
    made = kernel.fn.warmup(np.float32, np.float32, N, BLOCK=64, grid=(1,), **options)
    assert (made.metadata.num_warps, made.metadata.num_stages) == (4, 2)
    assert made.metadata.hash == made.hash


def test_a_kernel_that_asks_for_an_option(work: dict[str, int]) -> None:
    kernel = tuned(times_warps)
    assert (launch(kernel) == kernel.best_config.num_warps).all()
    assert work["measured"] == 6


def test_an_option_that_is_a_parameter(work: dict[str, int]) -> None:
    kernel = tuned(stages_of)
    assert (launch(kernel) == kernel.best_config.num_stages).all()
    assert work == {"compiled": 4, "measured": 4}


@pytest.mark.parametrize(("depends", "measured"), [(True, 2), (False, 1)])
def test_grids_that_differ_are_measured(
    work: dict[str, int], depends: bool, measured: int
) -> None:
    kernel = tuned(passes_over, [Config({"BLOCK": 64, "EXTRA": extra}) for extra in (0, 1)])
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    kernel[lambda meta: (16 + depends * meta["EXTRA"],)](x, out, N)
    assert (out == 2).all() and work == {"compiled": 2, "measured": measured}


def test_hooks_are_measured_each(work: dict[str, int]) -> None:
    hooked = [Config(c.kwargs, c.num_warps, c.num_stages, pre_hook=lambda _: None) for c in CONFIGS]
    launch(tuned(double, hooked))
    assert work["measured"] == len(CONFIGS)
