"""Loops that are shared and values that are kept in buffers, natively."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def scans(x: Any, o: Any, p: Any) -> None:
    i = tl.arange(0, 16)
    v = tl.load(x + i)
    c = tl.cumsum(v, 0)
    s = tl.sum(v, 0)
    tl.store(o + i, c + s)
    tl.store(p + i, v + tl.cumsum(v, 0, reverse=True))


def test_a_scan_fills_the_buffer_of_what_it_reads() -> None:
    x = np.arange(16, dtype=np.int32)
    o, p = np.zeros_like(x), np.zeros_like(x)
    scans[(1,)](x, o, p)
    np.testing.assert_array_equal(o, np.cumsum(x) + x.sum())
    np.testing.assert_array_equal(p, x + np.cumsum(x[::-1])[::-1])


@tritium.jit
def sorts(x: Any, o: Any, p: Any) -> None:
    i = tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :]
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(p + i, tl.sort(v, 1, True))


def test_two_sorts_of_one_tile() -> None:
    x = np.random.default_rng(0).permutation(64).astype(np.int32).reshape(4, 16)
    o, p = np.zeros_like(x), np.zeros_like(x)
    kernel = sorts[(1,)](x, o, p)
    np.testing.assert_array_equal(o, np.sort(x, 1))
    np.testing.assert_array_equal(p, np.sort(x, 1)[:, ::-1])
    assert len(kernel.asm["llir"]) < 300_000  # nothing is computed again exponentially often


@tritium.jit
def runs(x: Any, o: Any) -> None:
    v = tl.load(x + tl.arange(0, 16)[:, None] * 2 + tl.arange(0, 2)[None, :])
    wide = tl.reshape(tl.broadcast_to(v[:, :, None], (16, 2, 32)), (16, 64))
    tl.store(o + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], wide)


def test_chunks_of_a_row_that_belong_to_different_elements() -> None:
    x, o = np.arange(32, dtype=np.float32), np.zeros((16, 64), np.float32)
    runs[(1,)](x, o)
    np.testing.assert_array_equal(o.reshape(-1), np.repeat(x, 32))


@tritium.jit
def interleave_then_branch_kernel(x_ptr, n, k, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 32))
    both = tl.interleave(x, -x)
    if k > 3:
        both = tl.where(both < n, n.to(tl.float32), both).to(tl.float32)
    tl.store(out_ptr + tl.arange(0, 64), both)


@tritium.jit
def join_carried_kernel(out_ptr, n):
    value = tl.full([1, 1], 1, tl.int32)
    for _ in tl.range(n):
        value = (value | tl.xor_sum(value, None)).to(tl.int32)
    tl.store(out_ptr + tl.arange(0, 1)[:, None] + tl.arange(0, 1)[None, :], value)


def test_what_has_a_buffer_is_read_from_it():
    """Where the operands of the join were is something else by then."""
    x, out = np.arange(1, 33, dtype=np.float32), np.zeros(64, np.float32)
    interleave_then_branch_kernel[(1,)](x, 100, 0, out)
    assert np.array_equal(out, np.stack([x, -x], 1).ravel())


def test_reshaping_what_a_loop_carries():
    out = np.zeros(1, np.int32)
    join_carried_kernel[(1,)](out, 4)
    assert out[0] == 1


@tritium.jit
def added(x: Any, y: Any, o: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i) + tl.load(y + i))


def test_chunks_are_loaded_before_any_is_stored() -> None:
    """Of those that a loop's turn does, as loads behind stores may have to wait for them."""
    x = np.arange(4096, dtype=np.float32)
    out = np.zeros_like(x)
    text = added[(1,)](x, x, out, 4096).asm["llir"]
    np.testing.assert_array_equal(out, 2 * x)
    turns = []
    for block in re.split(r"^\S+:.*\n", text, flags=re.M):
        order = re.findall(r"^  (?:%\S+ = )?(load|store) <", block, re.M)
        turns += ["".join(word[0] for word in order)]
    assert "llllllllssss" in turns, turns


@tritium.jit
def two_kept(x: Any, y: Any, o: Any, p: Any) -> None:
    i, j = tl.arange(0, 64), tl.arange(0, 8)
    a, b = tl.exp(tl.load(x + i)), tl.exp(tl.load(y + i))
    tl.store(o + i, a + b)
    tl.store(p + j[:, None] * 8 + j[None, :], tl.reshape(a * b, (8, 8)))


def test_places_in_scratch_are_the_same_at_each_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two buffers of one size are first touched by the same root."""
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    o, p = np.zeros(64, np.float32), np.zeros((8, 8), np.float32)
    monkeypatch.setattr(tritium.knobs.compilation, "always_compile", True)
    texts: set[str] = set()
    for _ in range(16):
        two_kept.device_caches.clear()
        texts.add(two_kept[(1,)](x, y, o, p).asm["tile"])
    assert len(texts) == 1, "\n".join(texts)
    np.testing.assert_allclose(p, np.e**2)


@tritium.jit
def largest_at(x: Any, where: Any, o: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    tl.atomic_max(o + tl.load(where + i), tl.load(x + i))


def test_what_is_made_of_kept_loads_is_computed_again() -> None:
    """The largest float takes two operations on integers: both compute masks and addresses from
    the loads that may not wait."""
    rng = np.random.default_rng(0)
    x, where = rng.standard_normal(256).astype(np.float32), rng.integers(0, 64, 256, np.int32)
    o = np.full(64, -0.5, np.float32)
    kernel = largest_at[(1,)](x, where, o, 256)
    expected = np.full(64, -0.5, np.float32)
    np.maximum.at(expected, where, x)
    np.testing.assert_array_equal(o, expected)
    assert kernel.asm["tile"].count("tile.buffer @") == 2


@tritium.jit
def shares(x: Any, w: Any, o: Any, n: Any, BLOCK: tl.constexpr, MASKED: tl.constexpr) -> None:
    i = tl.arange(0, BLOCK)
    if MASKED:
        a = tl.load(x + i, mask=i < n, other=0.0)
    else:
        a = tl.load(x + i)
    b = tl.load(w + i)
    tl.store(o + i, a * (b - tl.sum(a * b, 0)))


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("dtype", "block", "masked", "kept"),
    [
        (np.float32, 256, False, 0), (np.float32, 256, True, 1), (np.float16, 256, False, 0),
        (np.int32, 256, False, 2), (np.float32, 32, False, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shift", [None, 0, 3])
def test_runs_of_floats_are_loaded_again(
    dtype: Any, block: int, masked: bool, kept: int, shift: int | None
) -> None:
    """`shift`: where in `x` the output begins."""
    memory = (np.arange(2 * block) % 5 - 2).astype(dtype)
    w = (np.arange(block) % 3).astype(dtype)
    out = np.zeros(block, dtype) if shift is None else memory[shift : shift + block]
    a = memory[:block].copy()
    if masked:
        a[block - 9 :] = 0
    kernel = shares[(1,)](memory[:block], w, out, block - 9, BLOCK=block, MASKED=masked)
    np.testing.assert_array_equal(out, a * (w - (a * w).sum(dtype=dtype)))
    assert kernel.asm["tile"].count("tile.copy") == kept


@tritium.jit
def centred(x: Any, o: Any, n: Any, BLOCK: tl.constexpr, MASKED: tl.constexpr) -> None:
    """The mask of the load is that of the store (`MASKED`), or no one else's."""
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b = tl.where(i < n, a - tl.sum(a, 0), 0.0) if MASKED else a - tl.sum(a, 0)
    b = tl.where(tl.sum(b * b, 0) > 0, b, 1.0)
    tl.store(o + i, b, mask=i < (n if MASKED else BLOCK))


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("dtype", "block", "masked", "kept"),
    [
        (np.float32, 1024, True, 2), (np.float32, 2048, True, 0), (np.float32, 2048, False, 1),
        (np.float64, 1024, True, 0), (np.float16, 4096, True, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shift", [None, 0, 3])
def test_long_runs_of_floats_are_loaded_again_under_masks_that_are_needed_anyway(
    dtype: Any, block: int, masked: bool, kept: int, shift: int | None
) -> None:
    """`shift`: where in `x` the output begins. What is computed from such loads is not kept."""
    count = block - 9
    memory = np.zeros(2 * block, dtype)
    memory[: block : block // 32] = np.arange(32) % 5 - 2
    out = np.full(block, 7, dtype) if shift is None else memory[shift : shift + block]
    a = memory[:block].copy()
    a[count:] = 0
    b = a - a.sum(dtype=dtype)
    expected, last = out.copy(), count if masked else block
    expected[:last] = b[:last]
    kernel = centred[(1,)](memory[:block], out, count, BLOCK=block, MASKED=masked)
    np.testing.assert_array_equal(out, expected)
    assert kernel.asm["tile"].count("tile.copy") == kept
