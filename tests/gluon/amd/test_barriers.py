"""Barriers in LDS, copies that arrive at them, and clusters (gfx1250)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.gluon.amd.test_programs import compiled
from tests.gluon.support import launcher
from tritium.errors import CompilationError, InterpreterError
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.amd import cdna5, gfx1250
from tritium.ops.parsing import parse_module

ROWS = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


@gluon.jit
def copy_kernel(src, out, phases, rows: gl.constexpr, PLAIN: gl.constexpr, count: gl.constexpr):
    """Each of 128 threads arrives when its copies are done, and then `count` times."""
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float16, [64, 64], PLAIN)
    bar = gl.allocate_shared_memory(gl.int64, [1], cdna5.mbarrier.MBarrierLayout())
    cdna5.mbarrier.init(bar, 128 * (1 + count))
    for phase in range(2):
        cdna5.async_copy.global_to_shared(memory, src + phase * 4096 + i * 64 + j)
        cdna5.async_copy.mbarrier_arrive(bar)
        parity = cdna5.mbarrier.arrive(bar, count=count)
        gl.store(phases + phase, parity)
        cdna5.mbarrier.wait(bar, phase)
        cdna5.async_copy.shared_to_global(out + phase * 4096 + i * 64 + j, memory, mask=i < 40)
        cdna5.async_copy.commit_group()
        cdna5.async_copy.wait_group(0)


COPY: dict[str, Any] = {"rows": ROWS, "PLAIN": PLAIN, "count": 2}


def test_copies_that_arrive_at_a_barrier() -> None:
    src = np.arange(8192, dtype=np.float16).reshape(2, 64, 64)
    out, phases = np.zeros_like(src), np.full(2, -1, np.int32)
    launcher("interpreted")(copy_kernel, (1,), src, out, phases, **COPY)
    np.testing.assert_array_equal(out[:, :40], src[:, :40])
    assert not out[:, 40:].any()
    assert phases.tolist() == [0, 1]


def test_copies_that_arrive_compiled() -> None:
    kernel = compiled(copy_kernel, "*fp16 *fp16 *i32", COPY, "gfx1250")
    text = kernel.asm["amdgcn"]
    for name in ("global_load_async_to_lds_b128", "ds_atomic_async_barrier_arrive_b64",
                 "ds_atomic_barrier_arrive_rtn_b64", "global_store_async_from_lds_b128",
                 "s_sleep", "s_wait_asynccnt 0x0"):  # fmt: skip
        assert name in text, name
    assert f"store i64 {383 | 383 << 32}, ptr addrspace(3)" in kernel.asm["llir"]
    assert kernel.asm["hsaco"].startswith(b"\x7fELF")
    # Four copies a thread, in both directions and phases, each by the address of its first element.
    assert kernel.asm["llir"].count("getelementptr half, ptr addrspace(1)") == 2 * 2 * (1 + 4)


def test_texts_of_barriers() -> None:
    module = compiled(copy_kernel, "*fp16 *fp16 *i32", COPY, "gfx1250").asm["ttgir"]
    assert "amdg.arrive_barrier" in module and "amdg.async_copy_local_to_global" in module
    assert str(parse_module(module)) == str(parse_module(str(parse_module(module))))


@gluon.jit
def early_kernel(src, out, rows: gl.constexpr, PLAIN: gl.constexpr, wrong: gl.constexpr):
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float16, [64, 64], PLAIN)
    bar = gl.allocate_shared_memory(gl.int64, [1], cdna5.mbarrier.MBarrierLayout())
    cdna5.mbarrier.init(bar, 129 if wrong == "count" else 128)
    memory.store(gl.full([64, 64], 1.0, gl.float16, rows))
    if wrong == "store":
        cdna5.async_copy.shared_to_global(out + i * 64 + j, memory)
        cdna5.async_copy.commit_group()
        memory.store(gl.full([64, 64], 2.0, gl.float16, rows))
    if wrong == "read":
        cdna5.async_copy.global_to_shared(memory, src + i * 64 + j)
        cdna5.async_copy.mbarrier_arrive(bar)
        gl.store(out + i * 64 + j, memory.load(rows))
    cdna5.mbarrier.arrive(bar)
    cdna5.mbarrier.wait(bar, 0)


@pytest.mark.parametrize(("wrong", "message"), [
    ("count", r"phase 0 that nothing ends: 128 of 129 arrivals"),
    ("store", r"shared memory is written while a dot or a store reads it"),
    ("read", r"shared memory is read while a copy into it is in flight"),
])  # fmt: skip
def test_faults_are_found_by_the_interpreter(wrong: str, message: str) -> None:
    src = np.zeros((64, 64), np.float16)
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(early_kernel, (1,), src, src.copy(), rows=ROWS, PLAIN=PLAIN,
                                wrong=wrong)  # fmt: skip


@gluon.jit
def shape_kernel(out, rows: gl.constexpr, PLAIN: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float16, [32, 64], PLAIN)
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    cdna5.async_copy.shared_to_global(out + i, memory)


@gluon.jit
def narrow_kernel(out, rows: gl.constexpr, PLAIN: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float16, [64, 64], PLAIN)
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    cdna5.async_copy.shared_to_global(out + (i * 64 + j) * 2, memory)


@gluon.jit
def lone_kernel(out, rows: gl.constexpr, PLAIN: gl.constexpr):
    cdna5.cluster.arrive()


@pytest.mark.parametrize(("kernel", "message"), [
    (shape_kernel, r"shared_to_global: .*; memory of its shape is required"),
    (narrow_kernel, r"copies of 2 bytes a thread; they are 1, 4, 8, 16"),
    (lone_kernel, r"cluster.arrive with num_ctas=1; 2 or more are required"),
])  # fmt: skip
def test_errors(kernel: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        compiled(kernel, "*fp16", {"rows": ROWS, "PLAIN": PLAIN}, "gfx1250")


@gluon.jit
def cluster_kernel(out, layout: gl.constexpr):
    """The second workgroup of a cluster reads what the first one wrote."""
    i = gl.arange(0, 256, layout)
    at = out + gl.program_id(0) * 256
    gl.store(at + i, i + gl.num_programs(0))
    cdna5.cluster.arrive()
    cdna5.cluster.wait()
    gl.store(at + i, gl.load(at + (255 - i)) + 1)


def test_clusters() -> None:
    layout = gl.BlockedLayout([1], [32], [4], [0], [[1]])
    out = np.zeros(512, np.int32)
    launcher("interpreted")(cluster_kernel, (2,), out, layout=layout, num_ctas=2)
    np.testing.assert_array_equal(out, np.tile(np.arange(256)[::-1], 2) + 3)
    kernel = compiled(cluster_kernel, "*i32", {"layout": layout}, "gfx1250", num_ctas=2)
    text = kernel.asm["amdgcn"]
    assert text.count("s_barrier_signal -3") == 1 and text.count("s_barrier_wait -3") == 1
    assert re.search(r'"amdgpu-cluster-dims"="2,1,1"', kernel.asm["llir"])
    assert kernel.metadata.num_ctas == 2


@gluon.jit
def unordered_kernel(twice: gl.constexpr):
    if twice:
        cdna5.cluster.arrive()
        cdna5.cluster.arrive()
    else:
        cdna5.cluster.wait()


@pytest.mark.parametrize(("twice", "message"), [
    (True, "again before a wait"), (False, "before arriving"),
])  # fmt: skip
def test_order_of_the_parts_of_a_barrier(twice: bool, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        launcher("interpreted")(unordered_kernel, (1,), twice=twice, num_ctas=2)


def test_names_of_release_3_6() -> None:
    assert gfx1250.mbarrier is cdna5.mbarrier and gfx1250.cluster is cdna5.cluster
