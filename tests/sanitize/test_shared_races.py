"""Races in on-chip memory of interpreted Gluon programs: each planted one is an error that names
both accesses, and programs that wait have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gluon import (
    blackwell_programs,
    bulk_programs,
    hopper_programs,
    memory_programs,
    partition_programs,
)
from tests.gluon.support import launcher
from tritium.backends.interpreter.failures import InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import async_copy
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from tritium.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.sanitize.launch import SanitizerError

pytestmark = pytest.mark.cpu

PROGRAMS = {
    **memory_programs.PROGRAMS, **hopper_programs.PROGRAMS, **blackwell_programs.PROGRAMS,
    **bulk_programs.PROGRAMS, **partition_programs.PROGRAMS,
}  # fmt: skip
LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
ROWS = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))
WIDE = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))


@gluon.jit
def copied(src, out, N: gl.constexpr, PENDING: gl.constexpr):
    i = gl.arange(0, 128, LINE)
    ring = gl.allocate_shared_memory(gl.float32, [2, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for step in gl.static_range(N):
        async_copy.async_load(ring.index(step % 2), src + 128 * step + i)
        async_copy.commit_group()
    async_copy.wait_group(PENDING)
    gl.store(out + i, ring.index(1).load(LINE))


@gluon.jit
def bulk(desc, WAITS: gl.constexpr, STORE_WAITS: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 1024)
    memory = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    tma.async_load(desc, [0, 0], bar, memory)
    if WAITS:
        mbarrier.wait(bar, 0)
    values = memory.load(ROWS)
    tma.async_store(desc, [0, 0], memory)
    if STORE_WAITS:
        tma.store_wait(0)
    memory.store(values + 1)


@gluon.jit
def product(REUSES: gl.constexpr, WAITS: gl.constexpr):
    zeros = gl.zeros([128, 64], gl.float16, WIDE)
    left = gl.allocate_shared_memory(gl.float16, [128, 64], gl.NVMMASharedLayout(128, 16), zeros)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], 1))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    fence_async_shared()
    tcgen05_mma(left, left.permute((1, 0)), acc, use_acc=False)
    if REUSES:
        left.store(zeros)
    tcgen05_commit(bar)
    if WAITS:
        mbarrier.wait(bar, 0)
    acc.load()


def run(kernel: Any, *arguments: Any, **constants: Any) -> None:
    mode = {"instrumentation_mode": "races"}
    launcher("interpreted")(kernel, (1,), *arguments, **constants, **mode)


def line_of(kernel: Any, text: str) -> int:
    path, first = kernel.fn.__code__.co_filename, kernel.fn.__code__.co_firstlineno
    lines = Path(path).read_text().splitlines()[first - 1 :]
    return next(first + i for i, line in enumerate(lines) if text in line)


def described() -> Any:
    layout = gl.NVMMASharedLayout.get_default_for([16, 16], gl.float32)
    return TensorDescriptor.from_tensor(np.zeros((16, 16), np.float32), [16, 16], layout)


def memory() -> tuple[Any, Any]:
    return np.arange(512, dtype=np.float32), np.zeros(128, np.float32)


CASES: list[tuple[Any, Any, dict[str, Any], str, tuple[str, str]]] = [
    (copied, memory, {"N": 2, "PENDING": 1}, "load of shared memory",
     ("ring.index(1).load", "write that began at @async_copy.async_load")),
    (copied, memory, {"N": 3, "PENDING": 0}, "store of shared memory",
     ("async_copy.async_load", "write that began at @async_copy.async_load")),
    (bulk, described, {"WAITS": False, "STORE_WAITS": True}, "load of shared memory",
     ("memory.load(ROWS)", "write that began at @tma.async_load")),
    (bulk, described, {"WAITS": True, "STORE_WAITS": False}, "store of shared memory",
     ("memory.store(values", "read that began at @tma.async_store")),
    (product, tuple, {"REUSES": True, "WAITS": True}, "store of shared memory",
     ("left.store", "read that began at @tcgen05_mma(")),
    (product, tuple, {"REUSES": False, "WAITS": False}, "load of tensor memory",
     ("acc.load", "write that began at @tcgen05_mma(")),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "arguments", "constants", "title", "lines"), CASES)
def test_both_lines_of_a_race_are_named(
    kernel: Any, arguments: Any, constants: dict[str, Any], title: str, lines: tuple[str, str]
):
    given = arguments()
    given = given if isinstance(given, tuple) else (given,)
    with pytest.raises(SanitizerError) as caught:
        run(kernel, *given, **constants)
    error, (own, other) = caught.value, lines
    began, _, text = other.partition("@")
    name = kernel.__name__
    assert f"race: {title} in kernel '{name}', program (0, 0, 0), at {__file__}:" in str(error)
    assert (error.kind, error.site) == ("races", (__file__, line_of(kernel, own)))
    assert f"asynchronous {began}{__file__}:{line_of(kernel, text)}\n    {text}" in str(error)


def test_programs_that_wait_have_none():
    run(copied, *memory(), N=2, PENDING=0)
    run(bulk, described(), WAITS=True, STORE_WAITS=True)
    run(product, REUSES=False, WAITS=True)


@pytest.mark.every(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_report_on_right_programs(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRITON_INSTRUMENTATION_MODE", "races")
    PROGRAMS[name](launcher("interpreted"))


def test_without_the_check_the_error_is_the_interpreters():
    with pytest.raises(InterpreterError, match="read while a copy into it is in flight"):
        launcher("interpreted")(copied, (1,), *memory(), N=2, PENDING=1)
