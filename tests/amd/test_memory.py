"""Accesses to memory in code for AMD GPUs: buffer instructions."""

from __future__ import annotations

import re
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.amd.kernels import TARGETS, add, compiled
from tests.simt.backend import compiler, installed
from tests.simt.backend.driver import SimtDriver
from tritium.backends.active import driver
from tritium.backends.amd.compiler import HIPBackend
from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.context import layout_of
from tritium.codegen.gpu.memory.shared import place_in
from tritium.codegen.llvm.types import memory_bytes
from tritium.ir.layouts.swizzle import access
from tritium.ops.parsing import parse_module
from tritium.ops.ttgir import LocalLoadOp, LocalStoreOp
from tritium.passes import pipelines
from tritium.runtime.tensors import MockTensor
from tritium.target import GPUTarget


def code(kernel: Any) -> str:
    """The instructions of a kernel."""
    return kernel.asm["amdgcn"].partition(".section\t.rodata")[0]


@tritium.jit
def strided(x, y, out, n, first, second, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (i < n) & (j < n)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    a = x + i * first + j
    for _ in range(4):
        total += tl.load(a, mask=inside, other=3.0).to(tl.float32)
        a += second
    kept = tl.load(y + (i - 1) * BLOCK + j, mask=inside & (i > 0), other=0.0)
    tl.store(out - second + i * BLOCK + j, total + kept.to(tl.float32), mask=inside)


def test_arguments_of_less_than_2_gib() -> None:
    kinds = "*fp32 *fp32 *fp32 i32 i32 i32"
    text = code(compiled(strided, kinds, constants={"BLOCK": 32}, small=True))
    assert not re.search(r"(global|flat)_(load|store)|s_cbranch_exec", text)
    text = code(compiled(strided, kinds, constants={"BLOCK": 32}))
    assert "buffer_load" not in text and "s_cbranch_exec" in text
    assert "buffer_store" in text, "its offsets are bounded"


@pytest.mark.parametrize("arch", ["gfx942", "gfx1200"])
def test_without_buffers(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMDGCN_USE_BUFFER_OPS", "0")
    kernel = compiled(add, "*fp32 *fp32 *fp32 i32", arch, constants={"BLOCK": 1024}, small=True)
    assert "buffer_" not in code(kernel) and "amdg." not in kernel.asm["ttgir"]
    assert re.search("global_load_(dwordx4|b128)", code(kernel))


def test_masked_loads_leave_their_branches_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each half that leaves alone takes a register, and the branch waits for the load."""
    monkeypatch.setenv("AMDGCN_USE_BUFFER_OPS", "0")
    kernel = compiled(add, "*fp16 *fp16 *fp16 i32", "gfx1200", constants={"BLOCK": 2048})
    assert "phi i32" in kernel.asm["llir"] and "phi half" not in kernel.asm["llir"]
    for branch in code(kernel).split("s_cbranch_execz")[1:]:
        before, _, behind = branch.partition(".LBB")[0].partition("global_load_b128")
        assert "s_wait_loadcnt" not in behind, before


@tritium.jit
def passed_on(x, out, BLOCK: tl.constexpr, ALL: tl.constexpr):
    i = tl.arange(0, BLOCK)
    later = tl.load(x + BLOCK + i)
    tl.store(out + i, tl.sum(tl.load(x + i), 0) + later)
    if ALL:
        tl.debug_barrier()
        tl.store(out + BLOCK + i, tl.load(out + (i ^ 127)))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1200"])
def test_barriers_for_lds_leave_loads_under_way(arch: str) -> None:
    """The waves of a workgroup have several caches, which only barriers for all memory empty."""
    constants = {"BLOCK": 128, "ALL": False}
    for everything in (False, True):
        text = code(compiled(passed_on, "*fp32 *fp32", arch,
                             constants=constants | {"ALL": everything}))  # fmt: skip
        empties = "buffer_gl0_inv" if arch == "gfx1100" else "global_inv"
        assert "s_barrier" in text and (empties in text) == everything


@tritium.jit
def hinted(x, y, out):
    i = tl.arange(0, 256)
    a = tl.load(x + i, cache_modifier=".cg") + tl.load(y + i, eviction_policy="evict_first")
    tl.store(out + i, a + tl.load(x + i, cache_modifier=".cv"), cache_modifier=".wt")


POLICIES = {
    "gfx90a": ("slc", "slc", "glc", "glc"), "gfx942": ("nt", "nt", "sc0 sc1", "sc0 sc1"),
    "gfx1100": ("slc", "slc", "glc dlc", "glc dlc"),
    "gfx1200": ("th:TH_LOAD_NT", "th:TH_LOAD_NT", "th:TH_LOAD_BYPASS scope:SCOPE_SYS",
                "th:TH_STORE_BYPASS scope:SCOPE_SYS"),
}  # fmt: skip


@pytest.mark.parametrize("arch", POLICIES)
def test_caches(arch: str) -> None:
    text = code(compiled(hinted, "*fp32 *fp32 *fp32", arch))
    found = re.findall(r"buffer_(?:load|store)_\w+ .*? (?:offen|null|0) ?(.*)$", text, re.M)
    assert sorted(f.removeprefix("offen ").strip() for f in found) == sorted(POLICIES[arch])


@pytest.fixture
def simt() -> Generator[None]:
    """Kernels run on `simt`, in warps of 64 lanes."""
    with installed():
        driver.set_active(SimtDriver(64))
        try:
            yield
        finally:
            driver.reset_active()


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "float64", "bool"])
def test_values(kind: str, simt: None) -> None:
    """Offsets on both sides of the pointer, and elements that are masked off."""
    rng, block = np.random.default_rng(5), 32
    n, first, second = 29, -40, 7
    x, y = (rng.integers(0, 2 if kind == "bool" else 50, 4096).astype(kind) for _ in range(2))
    out = np.full(4096, 9, np.float32)
    launched = strided[(1,)](x[2000:], y[64:], out[second:], n, first, second, BLOCK=block)
    assert "tt.load" not in launched.asm["ttgir"]
    i, j = np.indices((block, block))
    inside = (i < n) & (j < n)
    total = sum(x[2000 + i * first + j + k * second].astype(np.float32) for k in range(4))
    kept = np.where(i > 0, y[64 + (i - 1) * block + j].astype(np.float32), 0)
    wanted = np.full(4096, 9, np.float32)
    wanted[: block * block].reshape(block, block)[inside] = (total + kept)[inside]
    np.testing.assert_array_equal(out, wanted)


@tritium.jit
def counted(x, counts, seen, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(x + i, mask=i < n, other=0)
    tl.store(seen + i, tl.atomic_add(counts + key, key + 1, mask=i < n))
    tl.atomic_max(counts + 64 + i % 8, key, mask=i < n)
    tl.atomic_xchg(counts + 80 + i % 4, 3 * key + (i - i), mask=i == n - 1, sem="relaxed")


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_values_of_atomics(kind: str, simt: None) -> None:
    n, rng = 300, np.random.default_rng(6)
    x, counts = rng.integers(-8, 9, 512).astype(kind), np.zeros(128, kind)
    seen, start = np.full(512, -5, kind), 16
    launched = counted[(2,)](x, counts[start:], seen, n, BLOCK=256)
    assert "tt.atomic_rmw" not in launched.asm["ttgir"]
    wanted = np.zeros(128, kind)
    np.add.at(wanted, start + x[:n], x[:n] + 1)
    np.maximum.at(wanted, start + 64 + np.arange(n) % 8, x[:n])
    wanted[start + 80 + (n - 1) % 4] = 3 * x[n - 1]
    np.testing.assert_array_equal(counts, wanted)
    assert not seen[n:].any()


@tritium.jit
def summed(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 16, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_atomics(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(kind: str) -> list[str]:
        kinds, sizes = f"*{kind} *{kind} i32", {"BLOCK": 1024}
        kernel = compiled(summed, kinds, arch, constants=sizes, small=True)
        return re.findall(r"(\w+)_atomic_(?:pk_)?add\w*", code(kernel))

    assert set(found("i64")) == set(found("fp32")) == {"buffer"}
    assert ("buffer" in found("fp64")) == (TARGETS[arch] == 64)
    text = code(compiled(summed, "*i32 *i32 i32", arch, constants={"BLOCK": 1024}, small=True))
    assert re.search(r"buffer_wbl2|buffer_wb|s_waitcnt|s_wait_", text), "it releases"
    assert re.search(r"buffer_inv|global_inv|buffer_gl0_inv", text) or arch == "gfx90a"
    monkeypatch.setenv("AMDGCN_USE_BUFFER_ATOMICS", "0")
    assert "buffer" not in found("i32")


@tritium.jit
def wrapped(x, out, start, n, BLOCK: tl.constexpr):
    """Loads begin anywhere, but at no negative number."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + (start + i) % n))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1200"])
def test_addresses_that_wrap_around_are_read_together(arch: str) -> None:
    kernel = compiled(wrapped, "*fp16 *fp16 i32 i32", arch, constants={"BLOCK": 2048}, small=True)
    loads = re.findall(r"buffer_load_(\w+)", code(kernel))
    assert loads == ["dwordx4" if arch == "gfx942" else "b128"] * (2048 // (32 * TARGETS[arch]))


def test_values_at_addresses_that_wrap_around(simt: None) -> None:
    x, out = np.arange(48, dtype=np.float16), np.zeros(512, np.float16)
    wrapped[(1,)](x, out, 32, 48, BLOCK=512, num_warps=1)
    np.testing.assert_array_equal(out, (32 + np.arange(512)) % 48)


@tritium.jit
def after(x, out, n, BLOCK: tl.constexpr):
    """A load at a remainder that may be negative and a number that makes up for it."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + 16 + (i - n) % 16))


def test_offsets_of_buffers_that_may_be_negative_are_added_to_all_others() -> None:
    kernel = compiled(after, "*fp16 *fp16 i32", "gfx942", constants={"BLOCK": 2048}, small=True)
    assert "amdg.buffer_load %x[" in kernel.asm["ttgir"]


@tritium.jit
def products(a, b, out, n, rows, columns, FIRST: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             K: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), out.dtype.element_ty)
    for start in range(0, n, K):
        at = start + k
        if FIRST:  # neighbours along the axis of the sum
            x = tl.load(a + i[:, None] * rows + at[None, :], mask=at[None, :] < n, other=0)
            y = tl.load(b + j[None, :] * columns + at[:, None], mask=at[:, None] < n, other=0)
        else:
            x = tl.load(a + at[None, :] * rows + i[:, None], mask=at[None, :] < n, other=0)
            y = tl.load(b + at[:, None] * columns + j[None, :], mask=at[:, None] < n, other=0)
        acc = tl.dot(x, y, acc)
    tl.store(out + i[:, None] * N + j[None, :], acc)


def shared_accesses(kernel: Any, arch: str) -> list[tuple[int, int]]:
    """For the accesses of LDS in a kernel's loops: bytes at once, cycles lost by conflicts."""
    module, found = parse_module(kernel.asm["ttgir"], "kernel"), list[tuple[int, int]]()
    for op in module.walk():
        if not isinstance(op, (LocalLoadOp, LocalStoreOp)):
            continue
        stores = isinstance(op, LocalStoreOp)
        tile, memory = (op.src.type, op.dst.type) if stores else (op.results[0].type, op.src.type)
        size, banks = memory_bytes(tile), processor(arch).banks
        how = access(place_in(layout_of(tile), memory), size, False, banks)
        found.append((size << how.width, how.conflicts))
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize(("arch", "kind"), [("gfx950", "i8"), ("gfx942", "fp16"),
                                            ("gfx1100", "fp16")])  # fmt: skip
def test_operands_in_lds(arch: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = f"*{kind} *{kind} *{'i32' if kind == 'i8' else 'fp32'} i32 i32 i32"
    sizes = {"M": 64, "N": 64, "K": 64}
    for first in (True, False):
        constants = {**sizes, "FIRST": first}
        kernel = compiled(products, kinds, arch, constants=constants, small=True)
        found = shared_accesses(kernel, arch)
        assert len(found) == 6 and not any(lost for _, lost in found)
        assert min(size for size, _ in found) >= (8 if first else 4)
        assert kernel.metadata.shared == 64 * 64 * 4, "the result's, or both operands"
        assert kernel.metadata.n_spills == 0
    monkeypatch.setenv("TRITON_HIP_USE_IN_THREAD_TRANSPOSE", "0")
    apart = compiled(products, kinds, arch, constants=constants, small=True)
    narrow = min(size for size, _ in shared_accesses(apart, arch))
    assert apart.asm["ttgir"] != kernel.asm["ttgir"] and (kind != "i8" or narrow < 4)
    sought = "ds_" if kind == "i8" else "v_(?:perm|pack|bfi|lshl_or)_b"
    joined, single = (len(re.findall(rf"\t{sought}", code(k))) for k in (kernel, apart))
    assert joined < single, "threads put words together where they load, not where all read"


@pytest.mark.covering(1)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_values_of_products(stages: int, first: bool, simt: None) -> None:
    rng, (m, n, k) = np.random.default_rng(7), (64, 32, 100)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    x, y = (a, b.T) if first else (a.T, b)
    out = np.zeros((m, n), np.float32)
    launched = products[(1,)](
        np.ascontiguousarray(x), np.ascontiguousarray(y), out, k, *(s.shape[1] for s in (x, y)),
        FIRST=first, M=m, N=n, K=32, num_stages=stages,
    )  # fmt: skip
    assert ("ttg.local_store" in launched.asm["ttgir"]) == (stages > 1)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


def test_values_of_operands_that_are_converted(simt: None) -> None:
    """They stay in registers, one iteration ahead whatever the number of stages."""
    rng, (m, n, k) = np.random.default_rng(8), (64, 32, 100)
    a, b = (rng.integers(-4, 5, s).astype(ml_dtypes.float8_e5m2) for s in ((m, k), (k, n)))
    out = np.zeros((m, n), np.float32)
    launched = products[(1,)](a, np.ascontiguousarray(b.T), out, k, k, k, FIRST=True, M=m, N=n,
                              K=32, num_stages=4)  # fmt: skip
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))
    loop = re.search(r"scf\.for .*iter_args.*-> \((.*)\)", launched.asm["ttgir"])
    assert loop is not None and loop[1].count("f8E5M2") == 2


@pytest.fixture
def by_lanes(simt: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes of a warp copy to shared memory."""

    def passes(lanes: int, num_warps: int, num_stages: int, num_ctas: int = 1) -> list[Any]:
        target = GPUTarget("simt", lanes, lanes)
        made = pipelines.ttgir(compiler.SimtBackend.processor(target), num_warps, num_stages,
                               direct=True)  # fmt: skip
        return [compiler.SmallArguments(), *made]

    monkeypatch.setattr(compiler, "gpu_passes", passes)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")


@tritium.jit
def product_and_sums(a_ptr, out_ptr, sums_ptr, count, N: tl.constexpr):
    i = tl.arange(0, N)
    acc, sums = tl.zeros((N, N), tl.float32), tl.zeros((N,), tl.float32)
    for k in range(count):
        a = tl.load(a_ptr + i[:, None] * N * count + k * N + i[None, :])
        acc = tl.dot(a, a.T, acc)
        sums += tl.sum(a.to(tl.float32), 1)
    tl.store(out_ptr + i[:, None] * N + i[None, :], acc)
    tl.store(sums_ptr + i, sums)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_values_of_operands_that_are_summed(kind: str, by_lanes: None) -> None:
    a = np.random.default_rng(9).integers(-4, 5, (32, 96)).astype(kind)
    out, sums = np.zeros((32, 32), np.float32), np.zeros(32, np.float32)
    product_and_sums[(1,)](a, out, sums, 3, N=32, num_warps=1)
    a = a.astype(np.float32)
    np.testing.assert_array_equal(out, a @ a.T)
    np.testing.assert_array_equal(sums, a.sum(1))


@pytest.mark.parametrize(("kind", "stages"), [("float16", 2), ("float16", 3), ("float32", 2)])
def test_values_of_copies(kind: str, stages: int, by_lanes: None) -> None:
    rng, (m, n, k) = np.random.default_rng(8), (64, 64, 112)
    used = 96 if kind == "float16" else 103  # lanes copy 16 bytes of the one, 4 of the other
    a, b = (rng.integers(-4, 5, s).astype(kind) for s in ((m, k), (n, k)))
    out = np.zeros((m, n), np.float32)
    launched = products[(1,)](a, b, out, used, k, k, FIRST=True, M=m, N=n, K=32,
                              num_stages=stages)  # fmt: skip
    assert launched.asm["ttgir"].count("amdg.buffer_load_to_local") == 2 * stages
    assert "ttg.local_store" not in launched.asm["ttgir"]
    wanted = a[:, :used].astype(np.float32) @ b[:, :used].astype(np.float32).T
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("arch", "width", "waits"), [("gfx950", "dwordx4", 4),
                                                      ("gfx942", "dword", 16)])  # fmt: skip
def test_copies_to_lds(
    arch: str, width: str, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    sizes = {"M": 64, "N": 64, "K": 64, "FIRST": True}
    kernel = compiled(products, "*fp16 *fp16 *fp32 i32 i32 i32", arch, constants=sizes, small=True,
                      num_stages=3)  # fmt: skip
    text = code(kernel)
    assert len(re.findall(rf"buffer_load_{width} .* lds$", text, re.M)) == 3 * waits
    loop = text[text.index("loop1") :]
    assert re.search(rf"s_waitcnt vmcnt\({waits}\)", loop), "for all but the newest copies"
    assert loop[: loop.index("s_cbranch")].count("s_barrier") == 1
    assert not any(lost for _, lost in shared_accesses(kernel, arch))
    kernel = compiled(products, "*fp16 *fp16 *fp32 i32 i32 i32", arch, constants=sizes)
    assert re.search(rf"global_load_lds_{width} ", code(kernel)), "beyond the reach of buffers"
    small = {"M": 16, "N": 16, "K": 16, "FIRST": True}
    kernel = compiled(products, "*i8 *i8 *i32 i32 i32 i32", arch, constants=small, small=True)
    assert " lds" not in code(kernel), "no matrix unit takes it"
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "0")
    assert " lds" not in code(compiled(products, "*fp16 *fp16 *fp32 i32 i32 i32", arch,
                                       constants=sizes, small=True))  # fmt: skip


def test_priority_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    def instructions(**options: Any) -> list[str]:
        kernel = compiled(products, "*fp16 *fp16 *fp32 i32 i32 i32", constants=sizes, small=True,
                          **options)  # fmt: skip
        return re.findall(r"s_setprio \d|sched_barrier|v_mfma|ds_read|ds_write", code(kernel))

    sizes = {"M": 128, "N": 128, "K": 64, "FIRST": True}
    assert "s_setprio 1" not in instructions(num_warps=8)
    monkeypatch.setenv("TRITON_HIP_USE_BLOCK_PINGPONG", "1")
    found = instructions(num_warps=8)
    start, end = found.index("s_setprio 1"), found.index("s_setprio 0")
    assert set(found[start + 1 : end]) == {"v_mfma"} and found[start - 1] == "sched_barrier"
    assert "v_mfma" not in found[:start] + found[end:] and found[end + 1] == "sched_barrier"
    assert "s_setprio 1" not in instructions() and "s_setprio 1" not in instructions(
        num_warps=8, num_stages=1
    )


@tritium.jit
def attention(q, k, v, out, n, M: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, M), tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :])
    acc, total = tl.zeros((M, D), tl.float32), tl.zeros((M,), tl.float32)
    for start in range(0, n, M):
        rows = start + j
        weights = tl.exp2(tl.dot(x, tl.load(k + rows[None, :] * D + d[:, None])))
        total += tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.float16), tl.load(v + rows[:, None] * D + d[None, :]), acc)
    tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None])


def test_hints_to_the_scheduler() -> None:
    def found(hint: str) -> str:
        kernel = compiled(attention, "*fp16 *fp16 *fp16 *fp32 i32", small=True,
                          constants={"M": 32, "D": 32}, schedule_hint=hint)  # fmt: skip
        assert ("iterative-ilp" in kernel.asm["llir"]) == ("memory-bound" in hint)
        return code(kernel)

    assert found("attention") != found("attention,memory-bound-attention")


def test_rows_of_chained_products() -> None:
    """Each wave has rows of its own."""
    for warps, rows in ((2, "32, 32, 8"), (4, "16, 16, 16")):
        kernel = compiled(attention, "*fp16 *fp16 *fp16 *fp32 i32", small=True,
                          constants={"M": 64, "D": 32}, num_warps=warps)  # fmt: skip
        (form,) = re.findall(r"amd_mfma<\{(.*)\}>", kernel.asm["ttgir"])
        assert f"warpsPerCTA = [{warps}, 1], instrShape = [{rows}]" in form


def test_specialization(monkeypatch: pytest.MonkeyPatch) -> None:
    def tensor(size: int, address: int = 32) -> Any:
        storage = SimpleNamespace(size=lambda: size)
        return SimpleNamespace(data_ptr=lambda: address, untyped_storage=lambda: storage)

    found = HIPBackend.get_tensor_specialization
    assert found(tensor(2**31 - 1), align=True) == "DS"
    assert found(tensor(2**31), align=True) == "D"
    assert found(tensor(64, 4), align=True) == found(tensor(64)) == "S"
    assert found(SimpleNamespace(data_ptr=lambda: 16), align=True) == "D"
    assert found(MockTensor("float32"), align=True) == "DS"
    monkeypatch.setenv("AMDGCN_USE_BUFFER_OPS", "0")
    assert found(tensor(64), align=True) == "D"
    assert HIPBackend.parse_attr("DS") == [["tt.divisibility", 16], ["tt.pointer_range", 32]]
    assert HIPBackend.parse_attr("S") == [["tt.pointer_range", 32]]
    assert HIPBackend.parse_attr("N") == [["tt.padding", "nan"]]


@tritium.jit
def cast(x, y, out, B: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, (tl.load(x + i) * tl.load(y + i)).to(T))


@pytest.mark.covering(1)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize(("kinds", "to"), [
    ("*fp32 *fp32 *bf16", tl.bfloat16), ("*bf16 *fp32 *fp32", tl.float32),
    ("*fp16 *fp16 *i8", tl.int8), ("*fp64 *fp64 *fp16", tl.float16),
    ("*i8 *fp32 *fp16", tl.float16),
])  # fmt: skip
def test_casts_move_nothing_between_threads(arch: str, kinds: str, to: Any) -> None:
    """Where words of all elements can be accessed at once; one instruction takes at most 16
    bytes."""
    for block in (1024, 2048):
        kernel = compiled(cast, kinds, arch, constants={"B": block, "T": to}, small=True)
        assert kernel.metadata.shared == 0 and "ttg.convert_layout" not in kernel.asm["ttgir"]


def test_narrow_stores_are_not_made_of_bytes() -> None:
    """Two elements of a double are no word of bytes: these move."""
    kernel = compiled(cast, "*fp64 *fp64 *i8", constants={"B": 4096, "T": tl.int8}, small=True)
    assert kernel.metadata.shared > 0
    assert re.search("buffer_store_dword", kernel.asm["amdgcn"])


@tritium.jit
def running_sums(x, out, stride, B: tl.constexpr, C: tl.constexpr, REVERSE: tl.constexpr):
    place = tl.arange(0, B)[:, None] * stride + tl.arange(0, C)[None, :]
    tl.store(out + place, tl.cumsum(tl.load(x + place) * 2, 1, reverse=REVERSE))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "arch", ["gfx90a", "gfx942", pytest.param("gfx1100", marks=pytest.mark.slow)]
)
def test_scans_take_the_layout_of_what_is_loaded(arch: str) -> None:
    for reverse in (False, True):
        constants = {"B": 32, "C": 128, "REVERSE": reverse}
        kernel = compiled(running_sums, "*fp32 *fp32 i32", arch, constants=constants, small=True)
        assert kernel.metadata.shared == 0 and "ttg.convert_layout" not in kernel.asm["ttgir"]
    constants = {"B": 32, "C": 2048, "REVERSE": False}  # runs of a thread that are apart
    kernel = compiled(running_sums, "*fp32 *fp32 i32", arch, constants=constants, small=True)
    assert kernel.metadata.shared > 0
