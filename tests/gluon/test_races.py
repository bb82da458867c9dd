"""Races of partitions, and fences that are missing, which the interpreter reports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import launcher
from tritium.errors import InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor

LINE = gl.BlockedLayout([1], [32], [4], [0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [0])


@gluon.jit
def read(memory, bar, out, how: gl.constexpr, LINE: gl.constexpr):
    if how == "write after read":
        gl.store(out + gl.arange(0, 128, LINE), memory.slice(0, 128).load(LINE))
        mbarrier.arrive(bar, count=1)
    elif how == "too early":
        mbarrier.arrive(bar, count=1)
        gl.store(out + gl.arange(0, 128, LINE), memory.slice(0, 128).load(LINE))
    elif how == "write":
        memory.slice(0, 128).store(gl.full([128], 1.0, gl.float32, LINE))
    else:
        if how == "read after write":
            mbarrier.wait(bar, 0)
        gl.store(out + gl.arange(0, 128, LINE), memory.slice(0, 128).load(LINE))


@gluon.jit
def write(memory, bar, how: gl.constexpr, LINE: gl.constexpr):
    if how == "write after read" or how == "too early":
        mbarrier.wait(bar, 0)
    if how == "apart":
        memory.slice(128, 128).store(gl.full([128], 3.0, gl.float32, LINE))
    elif how == "only read":
        memory.slice(0, 128).load(LINE)
    else:
        memory.slice(0, 128).store(gl.full([128], 3.0, gl.float32, LINE))
    if how == "read after write":
        mbarrier.arrive(bar, count=1)


@gluon.jit
def race_kernel(out, how: gl.constexpr, LINE: gl.constexpr, PLAIN: gl.constexpr):
    here = gl.allocate_shared_memory(gl.float32, [256], PLAIN,
                                     gl.full([256], 2.0, gl.float32, LINE))  # fmt: skip
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    gl.warp_specialize(
        [(read, (here, bar, out, how, LINE)), (write, (here, bar, how, LINE))], [4], [24]
    )
    here.store(gl.zeros([256], gl.float32, LINE))  # after all partitions have ended


def run(how: str) -> np.ndarray:
    out = np.zeros(128, np.float32)
    launcher("interpreted")(race_kernel, (1,), out, how=how, LINE=LINE, PLAIN=PLAIN)
    return out


def line_of(text: str) -> int:
    """The line of this file, the first, that has a text."""
    lines = Path(__file__).read_text().split("\n")
    return next(i for i, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(("how", "result"), [
    ("write after read", 2), ("read after write", 3), ("apart", 2), ("only read", 2),
])  # fmt: skip
def test_what_is_ordered_or_apart(how: str, result: int) -> None:
    assert (run(how) == result).all()


def test_reads_and_writes_that_nothing_orders() -> None:
    with pytest.raises(InterpreterError, match="a race for shared memory") as caught:
        run("none")
    seen = str(caught.value)
    assert seen.count("here = gl.allocate_shared_memory") == 1
    lines = [int(n) for n in re.findall(r"test_races\.py:(\d+)", seen)]
    assert lines[0] == line_of("here = gl.allocate")
    source = Path(__file__).read_text().split("\n")
    assert ".store(gl.full([128], 3.0" in source[lines[1] - 1]
    assert "slice(0, 128).load(LINE))" in source[lines[2] - 1]
    assert "written" in seen and "by partition 1, read" in seen and "by partition 0" in seen


@pytest.mark.parametrize(("how", "kinds"), [
    ("too early", r"read .* by partition 0, written .* by partition 1|written .*, read "),
    ("write", r"written .* by partition 1, written .* by partition 0"),
])  # fmt: skip
def test_other_races(how: str, kinds: str) -> None:
    with pytest.raises(InterpreterError, match=rf"a race for .*{kinds}"):
        run(how)


@gluon.jit
def fill(desc, ring, full, empty, count, waits: gl.constexpr):
    for step in range(count):
        if waits:
            mbarrier.wait(empty, step & 1 ^ 1)
        mbarrier.expect(full, desc.nbytes_per_cta)
        tma.async_load(desc, [step * 16, 0], full, ring)


@gluon.jit
def use(ring, full, empty, count, out, rows: gl.constexpr):
    total = gl.zeros([16, 64], gl.float32, rows)
    for step in range(count):
        mbarrier.wait(full, step & 1)
        total += ring.load(rows)
        mbarrier.arrive(empty, count=1)
    gl.store(out, gl.sum(gl.sum(total, 1), 0))


@gluon.jit
def ring_kernel(desc, out, count, waits: gl.constexpr, rows: gl.constexpr):
    ring = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    full, empty = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    gl.warp_specialize([(use, (ring, full, empty, count, out, rows)),
                        (fill, (desc, ring, full, empty, count, waits))], [1], [24])  # fmt: skip


@pytest.mark.parametrize("waits", [True, False])
def test_copies_between_partitions(waits: bool) -> None:
    source, out = np.ones((48, 64), np.float32), np.zeros(1, np.float32)
    desc = TensorDescriptor.from_tensor(source, [16, 64], block_layout([16, 64], gl.float32))
    constants: dict[str, Any] = {
        "waits": waits, "rows": gl.BlockedLayout([1, 2], [1, 32], [4, 1], [1, 0])
    }  # fmt: skip
    if waits:
        launcher("interpreted")(ring_kernel, (1,), desc, out, 3, **constants)
        assert out[0] == 48 * 64
    else:
        with pytest.raises(InterpreterError, match=r"a race|in flight|arrivals"):
            launcher("interpreted")(ring_kernel, (1,), desc, out, 3, **constants)


@gluon.jit
def fence_kernel(desc, reader: gl.constexpr, fenced: gl.constexpr, rows: gl.constexpr):
    here = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    here.store(gl.full([64, 64], 1.0, gl.float16, rows))
    if fenced:
        fence_async_shared()
    if reader == "store":
        tma.async_store(desc, [0, 0], here)
        tma.store_wait(0)
    else:
        mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
        warpgroup_mma(here, here, gl.zeros([64, 64], gl.float32, mma))


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("reader", ["store", "product"])
def test_fences(reader: str, fenced: bool) -> None:
    memory = np.zeros((64, 64), np.float16)
    desc = TensorDescriptor.from_tensor(memory, [64, 64], block_layout([64, 64], gl.float16))
    constants: dict[str, Any] = {
        "reader": reader, "fenced": fenced, "rows": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    }  # fmt: skip
    if fenced:
        launcher("interpreted")(fence_kernel, (1,), desc, **constants)
        assert reader == "product" or memory.all()
        return
    line = line_of("here.store(gl.full([64, 64], 1.0")
    message = rf"`here = gl.allocate.*written it at .*:{line} without a fence_async_shared since"
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(fence_kernel, (1,), desc, **constants)
