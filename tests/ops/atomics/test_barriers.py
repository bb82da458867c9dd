"""Threads of a program synchronize around atomic operations on scalars, on every kind of GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tritium
import tritium.language as tl
from tests.nvidia.support import in_order
from tritium.compiler import ASTSource
from tritium.target import GPUTarget


@tritium.jit
def publish(x: Any, flag: Any) -> None:
    i = tl.arange(0, 128)
    tl.store(x + i, i + 1)
    tl.atomic_xchg(flag, 1, sem="release")


@tritium.jit
def receive(x: Any, flag: Any, out: Any) -> None:
    i = tl.arange(0, 128)
    while tl.atomic_add(flag, 0, sem="acquire") == 0:
        pass
    tl.store(out + i, tl.load(x + i))


def llir(kernel: Any, target: GPUTarget) -> str:
    source = ASTSource(kernel, dict.fromkeys(kernel.arg_names, "*i32"), {})
    return tritium.compile(source, target=target).asm["llir"]


TARGETS = {
    "sm80": (GPUTarget("cuda", 80, 32), r"barrier\.cta\.sync", r"atom\.global\.gpu\.{}"),
    "sm90": (GPUTarget("cuda", 90, 32), r"barrier\.cta\.sync", r"atom\.global\.gpu\.{}"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), r"s\.barrier", r"atomicrmw .* {}"),
    "gfx1201": (GPUTarget("hip", "gfx1201", 32), r"s\.barrier", r"atomicrmw .* {}"),
}
STORE = r"store\.i32\(|st\.global"
LOAD = r"load\.i32\(|load i32, ptr addrspace\(1\)"


@pytest.mark.parametrize("name", TARGETS)
def test_all_threads_have_stored_before_a_release(name: str, fresh_cache: Path) -> None:
    target, barrier, atomic = TARGETS[name]
    in_order(llir(publish, target), STORE, barrier, atomic.format("release"))


@pytest.mark.parametrize("name", TARGETS)
def test_no_thread_loads_before_an_acquire(name: str, fresh_cache: Path) -> None:
    target, barrier, atomic = TARGETS[name]
    in_order(llir(receive, target), atomic.format("acquire"), barrier, LOAD)
