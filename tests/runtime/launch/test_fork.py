"""Child processes compile and launch, however they are started."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritium
from tests.support.launching import add_kernel
from tritium import knobs
from tritium.native import loader


def _child(queue: Any) -> None:
    gc.collect()
    hits: list[bool] = []
    knobs.compilation.listener = lambda **info: hits.append(info["cache_hit"])  # pyright: ignore
    kernel = tritium.jit(add_kernel.fn)
    x = np.arange(48, dtype=np.float32)
    for block in (16, 32):
        out = np.zeros_like(x)
        kernel[(tritium.cdiv(48, block),)](x, x, out, 48, BLOCK=block)
        gc.collect()
        queue.put((bool((out == 2 * x).all()), list(hits)))


def _run(method: str) -> list[Any]:
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    results = [queue.get(timeout=60) for _ in range(2)]
    process.join(30)
    assert process.exitcode == 0
    return results


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_compile(fresh_cache: Path, method: str) -> None:
    x = np.arange(48, dtype=np.float32)
    add_kernel[(3,)](x, x, x.copy(), 48, BLOCK=16)  # so that the parent's threads run already
    compiled = fresh_cache.exists()
    (good, _), (also_good, both) = _run(method)
    assert good and also_good and len(both) == 2
    assert not both[1] or compiled


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_while_a_thread_compiles(fresh_cache: Path) -> None:
    kernel = tritium.jit(add_kernel.fn)
    started, release = threading.Event(), threading.Event()

    def hook(**_: Any) -> None:
        if threading.current_thread() is thread:
            started.set()
            assert release.wait(60)

    knobs.runtime.jit_cache_hook = hook
    arguments: Any = (np.float32, np.float32, np.float32, 48)
    thread = threading.Thread(target=lambda: kernel.warmup(*arguments, BLOCK=16, grid=(1,)))
    thread.start()
    assert started.wait(60)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: kernel.warmup(*arguments, BLOCK=16, grid=(1,)))
    process.start()
    process.join(60)
    release.set()
    thread.join(60)
    assert process.exitcode == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_while_a_thread_is_inside_llvm() -> None:
    inside = threading.Event()

    def compile_long() -> None:
        with loader.lock:
            inside.set()
            time.sleep(0.2)

    thread = threading.Thread(target=compile_long)
    thread.start()
    assert inside.wait(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)  # ends a child that waits for the lock
        with loader.lock:
            code = loader.compile_ir("define void @f() {\n  ret void\n}")
        os._exit(0 if code else 1)
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
