"""Atomic loads and stores, and polls that wait for a number."""

from __future__ import annotations

import re
import threading

import ml_dtypes
import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all
from tests.support.device import native
from tritium.compiler import ASTSource
from tritium.target import GPUTarget

KINDS = (np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float16, ml_dtypes.bfloat16,
         np.float32, np.float64)  # fmt: skip


def copied(p, q, one, SEM: tl.constexpr, SCOPE: tl.constexpr):
    at = tl.arange(0, 32)
    tl.static_assert(tl.atomic_load(p).dtype == p.dtype.element_ty)
    value = tl.atomic_load(p + at, mask=at < 20, scope=SCOPE)
    (q + 31 - at).atomic_store(value, at < 20, SEM, SCOPE)
    tl.atomic_store(one, (p + 7).atomic_load(sem="relaxed"))
    tl.atomic_store(one + 1, p.atomic_load(mask=tl.sum(at, 0) > 0))


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: np.dtype(d).name)
def test_values(dtype):
    p = (np.random.default_rng(3).integers(0, 2 if dtype == np.bool_ else 99, 32)).astype(dtype)
    for sem, scope in (("release", "gpu"), ("relaxed", "sys"), ("release", "cta")):
        empty = np.zeros(32, dtype)
        found = run_all(copied, p=p, q=empty, one=empty[:2].copy(), SEM=sem, SCOPE=scope)
        want = np.where(np.arange(32) >= 12, p[::-1], 0).astype(dtype)
        assert found["q"].tolist() == want.tolist()
        assert found["one"].tolist() == [p[7], p[0]]


def broadcast(p, q):
    row, column = tl.arange(0, 4)[:, None] * 8, tl.arange(0, 8)[None, :]
    tl.atomic_store(p + row + column, 3, mask=row >= 16)
    tl.atomic_store(q + row, tl.atomic_load(p + row) + 1)
    tl.atomic_store(q + 1 + row, row)


def test_values_and_masks_are_broadcast():
    found = run_all(broadcast, p=np.zeros(32, np.int64), q=np.zeros(32, np.int64))
    assert found["p"].tolist() == [0] * 16 + [3] * 16
    assert found["q"].tolist() == [1, 0] + [0] * 6 + [1, 8] + [0] * 6 + [4, 16] + [0] * 6 + [
        4, 24] + [0] * 6  # fmt: skip


def polled(p, out, wait):
    at = tl.arange(0, 16)
    tl.store(out + at, tl.atomic_poll(p + at, at * 3, timeout_ns=wait).to(tl.int32))
    tl.store(out + 16, tl.atomic_poll(p + 1, 3).to(tl.int32))
    tl.store(out + 17, tl.atomic_poll(p + 1, 4, timeout_ns=0).to(tl.int32))
    tl.store(out + 18, (p + 2).atomic_poll(6, sem="relaxed", scope="sys").to(tl.int32))


@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.int64])
def test_polls(dtype):
    p = np.arange(0, 48, 3).astype(dtype)
    p[[4, 9]] = 1
    found = run_all(polled, p=p, out=np.zeros(19, np.int32), wait=1000)["out"]
    assert found[:16].tolist() == [int(i not in (4, 9)) for i in range(16)]
    assert found[16:].tolist() == [1, 0, 1]


def handed_on(flags, data, out):
    pid = tl.program_id(0)
    at = tl.arange(0, 64)
    if pid > 0:
        tl.atomic_poll(flags + pid - 1, pid)
    before = tl.load(data + at)
    tl.store(out + pid * 64 + at, before)
    tl.store(data + at, before * 2 + pid)
    tl.atomic_store(flags + pid, pid + 1)


def test_programs_hand_data_on():
    data, want, rows = np.arange(64, dtype=np.int64), np.arange(64, dtype=np.int64), []
    for pid in range(8):
        rows.append(want)
        want = want * 2 + pid
    found = run_all(handed_on, (8,), flags=np.zeros(8, np.int32), data=data,
                    out=np.zeros((8, 64), np.int64))  # fmt: skip
    np.testing.assert_array_equal(found["out"], rows)
    np.testing.assert_array_equal(found["data"], want)


def awaiting(flag, out):
    tl.store(out, tl.atomic_poll(flag, 5, scope="sys", timeout_ns=100_000_000_000).to(tl.int32))


@pytest.mark.cpu
def test_a_poll_sees_what_the_host_writes():
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    timer = threading.Timer(0.2, flag.__setitem__, (0, 5))
    timer.start()
    native(awaiting)[(1,)](flag, out)
    timer.join()
    assert out[0] == 1, "it ended before its time was over"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: tl.atomic_load(p, sem="release"), "Memory semantic release not supported"),
        (lambda p: tl.atomic_load(p, sem="acq_rel"), "Memory semantic acq_rel not supported"),
        (lambda p: tl.atomic_store(p, 1, sem="acquire"), "Memory semantic acquire not supported"),
        (lambda p: tl.atomic_poll(p, 1, scope="all"), "Memory scope all not supported"),
        (lambda p: tl.atomic_load(p, mask=1), "Mask must have boolean scalar type"),
        (lambda p: tl.atomic_store(p, tl.arange(0, 4)), "Value argument cannot be block type"),
        (lambda p: tl.atomic_store(p + tl.zeros([1], tl.int32), tl.arange(0, 4)), "only a smaller"),
        (lambda p: tl.atomic_poll(p + tl.zeros([1], tl.int32), tl.arange(0, 4)), "only a smaller"),
        (lambda p: tl.atomic_poll(p, 1, timeout_ns=-1), "timeout_ns is -1; it must not be neg"),
        (lambda p: tl.atomic_poll(p, 1, timeout_ns=1.5), "timeout_ns has type fp32; a scalar int"),
        (lambda p: tl.atomic_load(1), "Unsupported ptr type int32 in `tl.atomic_load`"),
        (lambda p: tl.atomic_poll(p.to(tl.pointer_type(tl.float32)), 1),
         "elements are f32; integers of 16, 32 or 64 bits"),
        (lambda p: tl.atomic_poll(p.to(tl.pointer_type(tl.int8)), 1), "integers of 16, 32 or 64"),
        (lambda p: tl.atomic_store(p.to(tl.pointer_type(tl.int32, 1, True)), 1), "constant point"),
    ],
)
def test_messages(call, message):
    data = np.zeros(4, np.int32)
    with eager(), pytest.raises(ValueError, match=re.escape(message)):
        call(block(data.ctypes.data, tl.int64).to(tl.pointer_type(tl.int32)))


def ptx(fn, **kinds):
    source = ASTSource(tritium.jit(fn), kinds, {})
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def on_a_gpu(p, b, w, out):
    at = tl.arange(0, 32)  # four copies of each element: one thread of four accesses it
    held = tl.atomic_load(p + at, mask=at < 5)
    tl.atomic_store(p + at, held + 1, mask=at < 9, sem="relaxed", scope="sys")
    seen = tl.atomic_poll(p + at, 3, timeout_ns=1000)
    tl.atomic_store(b + at, tl.atomic_load(b + at, sem="relaxed"))
    tl.store(w, tl.atomic_load(w) + 1)
    tl.atomic_store(w, 2)
    tl.atomic_poll(w, 2)
    tl.store(out + at, seen.to(tl.float32))


def test_instructions_of_a_gpu():
    text = ptx(on_a_gpu, p="*i32", b="*i8", w="*i64", out="*fp32")
    for wanted in (
        r"@%p\d+ ld\.acquire\.gpu\.global\.b32", r"@%p\d+ st\.relaxed\.sys\.global\.b32",
        r"ld\.relaxed\.gpu\.global\.b8", r"st\.release\.gpu\.global\.b8", r"%globaltimer",
        r"@%p\d+ ld\.acquire\.gpu\.global\.b64", r"@%p\d+ st\.release\.gpu\.global\.b64",
    ):  # fmt: skip
        assert re.search(wanted, text), wanted
    release = text.index("st.release.gpu.global.b8")
    assert "bar.sync" in text[text.index("ld.relaxed.gpu.global.b8") : release]
    assert "bar.sync" in text[text.rindex("ld.acquire") :]
