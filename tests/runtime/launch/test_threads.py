"""Launching and compiling from several threads at once."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.launching import StubDriver, add_kernel, module_from
from tritium import knobs
from tritium.runtime import driver


def _fresh() -> Any:
    return tritium.jit(add_kernel.fn)


def _at_once(count: int, work: Any) -> list[Any]:
    barrier = threading.Barrier(count)

    def start(i: int) -> Any:
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def test_one_kernel_is_compiled_once(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_active", None)  # so that the threads look for the driver, too
    monkeypatch.setattr(driver, "_default", None)
    kernel, compiled = tritium.jit(do_not_specialize=["x", "y", "out"])(add_kernel.fn), list[Any]()
    knobs.compilation.listener = lambda **info: compiled.append(info)  # pyright: ignore
    x = np.arange(64, dtype=np.float32)

    def work(i: int) -> Any:
        out = np.zeros_like(x)
        result = kernel[(4,)](x, x, out, 64, BLOCK=16)
        assert (out == 2 * x).all()
        return result

    assert len(set(map(id, _at_once(8, work)))) == 1
    assert len(compiled) == 1


def test_different_kernels(fresh_cache: Path, tmp_path: Path) -> None:
    source = """
    import tritium
    import tritium.language as tl

    @tritium.jit
    def kernel(out, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(out + i, tl.exp(i.to(tl.float32)) + B)
    """
    modules = [module_from(source, tmp_path) for _ in range(4)]

    def work(i: int) -> Any:
        for size in (4, 8, 16):
            out = np.zeros(size, np.float32)
            modules[i].kernel[(1,)](out, size)
            np.testing.assert_allclose(out, np.exp(np.arange(size)) + size, rtol=1e-5)

    _at_once(4, work)


def test_launches_interleave(fresh_cache: Path) -> None:
    kernel = _fresh()

    def work(i: int) -> None:
        x = np.full(1000, i, np.float32)
        out = np.zeros_like(x)
        for size in (100, 500, 1000):
            out[:] = 0
            kernel[(tritium.cdiv(size, 128),)](x, x, out, size, BLOCK=128)
            assert (out[:size] == 2 * i).all() and not out[size:].any()

    _at_once(6, work)


def test_an_entry_lives_as_long_as_the_table_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that learn the same launch at once replace each other's entries; others find the old
    one in the table meanwhile."""
    kernel, x = _fresh(), np.zeros(16, np.float32)
    for _ in range(4):
        kernel[(1,)](x, x, x, 16, BLOCK=16)
    native = kernel._teacher._native
    (entry,) = native._entries.values()
    memory, alive = weakref.ref(entry.keep[2]), list[bool]()
    del entry
    write = type(native)._write_table

    def check(self: Any) -> None:
        alive.append(memory() is not None)
        write(self)

    monkeypatch.setattr(type(native), "_write_table", check)
    kernel.launch_in_python((1,), x, x, x, 16, BLOCK=16)
    assert alive == [True] and memory() is None


def test_a_new_thread_uses_its_stream(stub: StubDriver) -> None:
    kernel = _fresh()
    x = np.zeros(16, np.float32)
    local = threading.local()

    def stream(device: int) -> int:
        return getattr(local, "stream", 0)

    stub.get_current_stream = stream  # pyright: ignore[reportAttributeAccessIssue]

    def work(i: int) -> None:
        local.stream = i + 1
        kernel[(1,)](x, x, x, 16, BLOCK=16)

    _at_once(4, work)
    assert sorted(launch.stream for launch in stub.launches) == [1, 2, 3, 4]


def test_an_error_in_one_thread_does_not_stop_others() -> None:
    @tritium.jit
    def kernel(out, GOOD: tl.constexpr):
        tl.static_assert(GOOD)
        tl.store(out, 1)

    def work(i: int) -> Any:
        try:
            return kernel.warmup(np.int32, bool(i % 2), grid=(1,))
        except tritium.CompilationError:
            return None

    results = _at_once(4, work)
    assert [r is not None for r in results] == [False, True, False, True]


def test_an_interrupt_frees_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _fresh()

    def hook(**_: Any) -> None:
        raise KeyboardInterrupt

    knobs.runtime.jit_cache_hook = hook
    with pytest.raises(KeyboardInterrupt):
        kernel.warmup(np.float32, np.float32, np.float32, 3, BLOCK=8, grid=(1,))
    knobs.runtime.jit_cache_hook = None
    (result,) = _at_once(
        1, lambda i: kernel.warmup(np.float32, np.float32, np.float32, 3, BLOCK=8, grid=(1,))
    )
    assert result is not None
